"""The services of the simulated cloud called directly, and a plan engine small enough to read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pulumi
from pulumi.runtime.proto import provider_pb2

from simcloud.clock import Clock
from simcloud.gcp import Gcp
from simcloud.kubernetes import Kubernetes
from simcloud.provider import Service
from simcloud.store import Store
from simcloud.values import UNKNOWN
from simcloud.wire import to_dict, to_struct

Props = dict[str, Any]


class CallError(Exception):
    """What a client of the service would see."""


class Context:
    """Stands in for a gRPC connection."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self.trailer: Any = None

    def peer(self) -> str:
        return self._peer

    def set_trailing_metadata(self, trailer: Any) -> None:
        self.trailer = trailer

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        del code
        raise CallError(details)


@dataclass
class Live:
    """One object as the engine's state holds it."""

    id: str
    inputs: Props
    outputs: Props


class Provider:
    """One configured provider: typed calls in, plain values out."""

    def __init__(self, service: Service, config: Mapping[str, Any], peer: str = "test") -> None:
        self.service = service
        self.context = Context(peer)
        arguments = provider_pb2.ConfigureRequest(args=to_struct(dict(config)))
        service.Configure(arguments, self.context)

    def check(
        self, type_: str, name: str, news: Props, olds: Props | None = None
    ) -> tuple[Props, list[str]]:
        answer = self.service.Check(
            provider_pb2.CheckRequest(
                urn=urn(type_, name),
                news=to_struct(news),
                olds=to_struct(olds or {}),
                randomSeed=b"0123456789",
            ),
            self.context,
        )
        return to_dict(answer.inputs), [failure.reason for failure in answer.failures]

    def diff(
        self, type_: str, name: str, live: Live, news: Props, ignored: tuple[str, ...] = ()
    ) -> Any:
        return self.service.Diff(
            provider_pb2.DiffRequest(
                urn=urn(type_, name),
                id=live.id,
                old_inputs=to_struct(live.inputs),
                olds=to_struct(live.outputs),
                news=to_struct(news),
                ignoreChanges=list(ignored),
            ),
            self.context,
        )

    def preview(self, type_: str, name: str, inputs: Props) -> Props:
        answer = self.service.Create(
            provider_pb2.CreateRequest(
                urn=urn(type_, name), properties=to_struct(inputs), preview=True
            ),
            self.context,
        )
        return to_dict(answer.properties)

    def preview_update(self, type_: str, name: str, live: Live, news: Props) -> Props:
        answer = self.service.Update(
            provider_pb2.UpdateRequest(
                urn=urn(type_, name),
                id=live.id,
                olds=to_struct(live.outputs),
                old_inputs=to_struct(live.inputs),
                news=to_struct(news),
                preview=True,
            ),
            self.context,
        )
        return to_dict(answer.properties)

    def create(self, type_: str, name: str, news: Props, timeout: float = 0) -> Live:
        inputs, failures = self.check(type_, name, news)
        assert failures == []
        answer = self.service.Create(
            provider_pb2.CreateRequest(
                urn=urn(type_, name), properties=to_struct(inputs), timeout=timeout
            ),
            self.context,
        )
        return Live(answer.id, inputs, to_dict(answer.properties))

    def update(self, type_: str, name: str, live: Live, news: Props) -> Live:
        inputs, failures = self.check(type_, name, news, live.inputs)
        assert failures == []
        answer = self.service.Update(
            provider_pb2.UpdateRequest(
                urn=urn(type_, name),
                id=live.id,
                olds=to_struct(live.outputs),
                old_inputs=to_struct(live.inputs),
                news=to_struct(inputs),
            ),
            self.context,
        )
        return Live(live.id, inputs, to_dict(answer.properties))

    def read(self, type_: str, name: str, live: Live) -> Live | None:
        answer = self.service.Read(
            provider_pb2.ReadRequest(
                urn=urn(type_, name),
                id=live.id,
                properties=to_struct(live.outputs),
                inputs=to_struct(live.inputs),
            ),
            self.context,
        )
        if not answer.id:
            return None
        return Live(answer.id, to_dict(answer.inputs), to_dict(answer.properties))

    def delete(self, type_: str, name: str, live: Live) -> None:
        self.service.Delete(
            provider_pb2.DeleteRequest(
                urn=urn(type_, name),
                id=live.id,
                properties=to_struct(live.outputs),
                old_inputs=to_struct(live.inputs),
            ),
            self.context,
        )


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:test::tpuserve::{type_}::{name}"


_peers = itertools.count()


def providers(folder: Path, scale: float = 0, **config: Any) -> tuple[Provider, Provider]:
    """A gcp and a kubernetes provider on one fresh cloud; `config` is the gcp provider's."""
    store, clock = Store(folder), Clock(scale=scale)
    settings = {"project": "my-project", "region": "us-central1", **config}
    peer = f"test-{next(_peers)}"
    kubeconfig = '{"clusters": [{"cluster": {"server": "https://cluster.simulated.invalid"}}]}'
    return (
        Provider(Service(Gcp(), store, clock), settings, peer),
        Provider(Service(Kubernetes(), store, clock), {"kubeconfig": kubeconfig}, peer),
    )


@dataclass(frozen=True)
class Ref:
    """An output of another declared resource."""

    resource: str
    output: str = "id"


@dataclass(frozen=True)
class Declared:
    """One resource of a program."""

    type: str
    name: str
    inputs: Props
    replace_on: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.type} {self.name}"


Step = tuple[str, str, dict[str, str]]


@dataclass
class MiniEngine:
    """What the engine does with a program, in its order, for one provider."""

    provider: Provider
    state: dict[str, Live] = field(default_factory=dict)

    def up(self, program: list[Declared]) -> None:
        outputs = _Outputs()
        for declared in program:
            inputs = outputs.resolve(declared.inputs)
            live = self.provider.create(declared.type, declared.name, inputs)
            self.state[declared.key] = live
            outputs[declared.key] = {**live.outputs, "id": live.id}

    def preview(self, program: list[Declared]) -> tuple[list[Step], list[str]]:
        """The steps other than "same", and the mistakes in the engine's words."""
        outputs = _Outputs()
        steps: list[Step] = []
        errors: list[str] = []
        for declared in program:
            live = self.state[declared.key]
            news = outputs.resolve(declared.inputs)
            inputs, failures = self.provider.check(declared.type, declared.name, news, live.inputs)
            resource = f"{declared.name}: {declared.type} resource '{declared.name}'"
            errors.extend(f"{resource} has a problem: {reason}" for reason in failures)
            plan = self.provider.diff(declared.type, declared.name, live, inputs)
            detail = {path: _kind(item.kind) for path, item in plan.detailedDiff.items()}
            forced = [path for path in detail if path.startswith(declared.replace_on or ("\0",))]
            detail.update({path: f"{detail[path]}-replace" for path in forced})
            if plan.replaces or forced:
                steps.append(("replace", declared.key, detail))
                known = self.provider.preview(declared.type, declared.name, inputs)
                outputs[declared.key] = {**known, "id": UNKNOWN}
            elif detail:
                steps.append(("update", declared.key, detail))
                known = self.provider.preview_update(declared.type, declared.name, live, inputs)
                outputs[declared.key] = {**known, "id": live.id}
            else:
                outputs[declared.key] = {**live.outputs, "id": live.id}
        return steps, errors


class _Outputs(dict[str, Props]):
    def resolve(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self[value.resource].get(value.output, UNKNOWN)
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        return value


def _kind(kind: int) -> str:
    name: str = provider_pb2.PropertyDiff.Kind.Name(kind)
    return name.lower().replace("_", "-")


def declare(program: Callable[[], list[Declared]]) -> Callable[[], None]:
    """The same program for the real engine."""

    def run() -> None:
        made: dict[str, pulumi.CustomResource] = {}

        def resolve(value: Any) -> Any:
            if isinstance(value, Ref):
                return getattr(made[value.resource], value.output)
            if isinstance(value, dict):
                return {key: resolve(item) for key, item in value.items()}
            if isinstance(value, list):
                return [resolve(item) for item in value]
            return value

        for declared in program():
            made[declared.key] = pulumi.CustomResource(
                declared.type,
                declared.name,
                resolve(declared.inputs),
                pulumi.ResourceOptions(
                    replace_on_changes=list(declared.replace_on) or None,
                ),
            )

    return run

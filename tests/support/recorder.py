"""Runs the program without an engine and keeps every registration it makes."""

import asyncio
import json
import runpy
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi.runtime import mocks, rpc, settings
from pulumi.runtime.config import set_all_config
from pulumi.runtime.stack import run_in_stack

from tests.support.files import ROOT

PROJECT = "tpuserve"


@dataclass(frozen=True)
class Registered:
    """One resource as the program asked for it, in the provider's own words."""

    urn: str
    type: str
    name: str
    inputs: dict[str, Any]
    parent: str
    provider: str
    custom: bool
    dependencies: frozenset[str]
    protect: bool
    delete_before_replace: bool
    ignore_changes: tuple[str, ...]
    replace_on_changes: tuple[str, ...]
    create_timeout: str
    deleted_with: str


@dataclass
class Graph:
    """Everything a program registered."""

    resources: list[Registered] = field(default_factory=list)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, kind: str) -> list[Registered]:
        """Resources whose type ends in `:Kind`."""
        return [each for each in self.resources if each.type.endswith(f":{kind}")]

    def one(self, kind: str, name: str | None = None) -> Registered:
        """The only resource of a kind, or the one called `name`."""
        found = [each for each in self.of(kind) if name in (None, each.name)]
        names = [each.name for each in found]
        assert len(found) == 1, f"{len(found)} {kind} called {name}: {names}"
        return found[0]

    @property
    def stack_outputs(self) -> dict[str, Any]:
        return next(out for urn, out in self.outputs.items() if "pulumi:pulumi:Stack" in urn)

    def depends(self, one: Registered, other: Registered) -> bool:
        """Whether `one` waits for `other`, over any number of steps."""
        by_urn = {each.urn: each for each in self.resources}
        seen: set[str] = set()
        waiting = [one.urn]
        while waiting:
            urn = waiting.pop()
            for need in by_urn[urn].dependencies if urn in by_urn else ():
                if need == other.urn:
                    return True
                if need not in seen:
                    seen.add(need)
                    waiting.append(need)
        return False


@contextmanager
def _event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """This thread's event loop for a while."""
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield loop
    asyncio.set_event_loop(None)


class _Monitor(mocks.MockMonitor):
    """Keeps whole requests: mocks alone see neither parents, options nor component outputs."""

    def __init__(self, graph: Graph, *, preview: bool) -> None:
        super().__init__(_Cloud(preview=preview))
        self.graph = graph

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        chain = (
            f"{parent.split('::')[2]}$" if parent and "pulumi:pulumi:Stack" not in parent else ""
        )
        return f"urn:pulumi:test::{PROJECT}::{chain}{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        # The SDK calls this on a thread of its own and leaves the loop it makes there open.
        with _event_loop():
            # The SDK's mock monitor is untyped.
            response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type != "pulumi:pulumi:Stack":
            self.graph.resources.append(
                Registered(
                    urn=response.urn,
                    type=request.type,
                    name=request.name,
                    inputs=_plain(rpc.deserialize_properties(request.object, keep_unknowns=True)),
                    parent=request.parent,
                    provider=request.provider,
                    custom=request.custom,
                    dependencies=frozenset(request.dependencies),
                    protect=request.protect,
                    delete_before_replace=request.deleteBeforeReplace,
                    ignore_changes=tuple(request.ignoreChanges),
                    replace_on_changes=tuple(request.replaceOnChanges),
                    create_timeout=request.customTimeouts.create,
                    deleted_with=request.deletedWith,
                )
            )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        self.graph.outputs[request.urn] = _plain(rpc.deserialize_properties(request.outputs))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


class _Cloud(mocks.Mocks):
    """Answers as a cloud would: ids and computed outputs are unknown in a preview."""

    def __init__(self, *, preview: bool) -> None:
        self.preview = preview

    def call(self, args: mocks.MockCallArgs) -> Any:
        msg = f"the program asks the world at plan time: {args.token}"
        raise AssertionError(msg)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if self.preview:
            return "", dict(args.inputs)
        return f"{args.name}-id", {**args.inputs, **_computed(args)}


def _computed(args: mocks.MockResourceArgs) -> dict[str, Any]:
    computed: dict[str, dict[str, Any]] = {
        "gcp:compute/network:Network": {"name": f"{args.name}-1a2b3c4"},
        "gcp:compute/router:Router": {"name": f"{args.name}-1a2b3c4"},
        "gcp:compute/address:Address": {"name": f"{args.name}-1a2b3c4", "address": "10.0.0.9"},
        "gcp:compute/globalAddress:GlobalAddress": {
            "name": f"{args.name}-1a2b3c4",
            "address": "203.0.113.9",
        },
        "gcp:storage/bucket:Bucket": {"projectNumber": 123456789012},
        "gcp:serviceaccount/account:Account": {
            "email": f"{args.inputs.get('accountId')}@p.iam.gserviceaccount.com",
            "member": f"serviceAccount:{args.inputs.get('accountId')}@p.iam.gserviceaccount.com",
        },
        "gcp:container/cluster:Cluster": {
            "controlPlaneEndpointsConfig": {
                "dnsEndpointConfig": {"endpoint": "gke-1a2b3c4.us-central1.gke.goog"}
            }
        },
    }
    return computed.get(args.typ, {})


def _plain(value: Any) -> Any:
    """Without secret wrappers and with whole numbers as such."""
    if rpc.is_rpc_secret(value):
        return _plain(rpc.unwrap_rpc_secret(value))
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def record(
    config: Mapping[str, Any],
    *,
    stack: str = "test",
    preview: bool = False,
    program: Path = ROOT / "__main__.py",
    secrets: Collection[str] = (),
) -> Graph:
    """The graph a stack file makes; `preview` leaves ids and computed outputs unknown.

    `secrets` names the keys of `config` whose values the engine would hand over as secrets.
    """
    graph = Graph()
    monitor = _Monitor(graph, preview=preview)
    with _event_loop() as loop:
        settings.ROOT.set(_NO_STACK)
        mocks.set_mocks(
            monitor.mocks, project=PROJECT, stack=stack, preview=preview, monitor=monitor
        )
        settings.ROOT.set(None)
        set_all_config({key: _encode(value) for key, value in config.items()}, list(secrets))
        loop.run_until_complete(run_in_stack(lambda: _run(program)))
    return graph


_NO_STACK: Any = object()
"""Keeps `set_mocks` from making a stack of its own; `run_in_stack` makes the real one."""


def _run(program: Path) -> None:
    runpy.run_path(str(program), run_name="__main__")


def _encode(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)

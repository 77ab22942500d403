"""Google Cloud: the `gcp` half of the simulated cloud."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simcloud import plan
from simcloud.clock import duration
from simcloud.cloud import Checked, Identity, RefusedError, Request, stamp, unstamp
from simcloud.gcp import admission, references
from simcloud.gcp.check import check
from simcloud.gcp.diff import diff
from simcloud.gcp.outputs import CLUSTER, answered, bare, cluster_hosts, made_up, planned
from simcloud.gcp.places import project_number, project_of, with_places
from simcloud.gcp.types import Type, known_types, type_of
from simcloud.plan import Plan
from simcloud.store import Record, Store
from simcloud.values import DEFAULTS, Props, get, nearest, plain, secret, tail, unwrap

# Minutes the provider waits where a type has no limit of its own (its source, 2026-08-21).
_LIMIT = 20.0

TPU_MACHINES = ("ct", "tpu")
"""How the names of their machine types begin (Google Cloud docs, 'TPUs in GKE', read 2026-08)."""


class Gcp:
    """The package `gcp`: every type of tables/gcp-types.json, and no other."""

    name = "gcp"
    version = "10.2.0"

    def type(self, request: Request) -> Type:
        found = type_of(request.type)
        if found is None:
            known = known_types()
            by_class = {token.rpartition(":")[2]: token for token in known}
            hint = nearest(request.type, known)
            if not hint and (token := by_class.get(request.type.rpartition(":")[2])):
                hint = f" Did you mean '{token}'?"
            message = f"the simulated cloud does not know the type {request.type}.{hint}"
            raise RefusedError(message)
        return found

    # Plans

    def check(self, request: Request, news: Props, olds: Props, seed: bytes) -> Checked:
        return check(self.type(request), request.name, news, olds, seed)

    def diff(
        self, request: Request, old_inputs: Props, state: Props, news: Props, ignored: list[str]
    ) -> Plan:
        return diff(
            self.type(request),
            old_inputs=old_inputs,
            state=state,
            news=news,
            ignored=ignored,
            project=request.config.get("project"),
        )

    def diff_config(self, olds: Props, news: Props) -> Plan:
        # No setting replaces the provider; a new project replaces its objects instead.
        return Plan(detail=dict(plan.changes(plain(olds), plain(news), ("version",))))

    def preview(self, request: Request, inputs: Props, state: Props | None) -> Props:
        return planned(self.type(request), request, inputs, state)

    # Operations

    def identify(self, request: Request, inputs: Props, serial: int) -> Identity:
        type_ = self.type(request)
        given = bare(inputs)
        values = {
            **with_places(type_, given, request.config),
            **made_up(request, given, serial),
        }
        if "{version}" in type_.id:
            values["version"] = request.store.next(f"version|{tail(values['secret'])}")
        id_ = re.sub(r"\{(\w+)\}", lambda match: _part(type_, match, values), type_.id)
        name = tail(values.get(type_.name, "")) if type_.name else id_
        return Identity(key=id_, id=id_, name=name)

    def locate(self, request: Request, id_: str) -> str:
        del request
        return unstamp(id_)

    def conflict(self, request: Request, record: Record) -> None:
        if not self.type(request).adopt:
            message = (
                f"googleapi: Error 409: The resource '{record.id}' already exists, alreadyExists"
            )
            raise RefusedError(message)

    def admit(self, request: Request, identity: Identity, inputs: Props, *, new: bool) -> list[str]:
        type_ = self.type(request)
        given = plain(bare(inputs))
        if new:
            admission.api_enabled(request, with_places(type_, given, request.config))
        elif type_.name == "name" and given.get("name") not in (None, identity.name):
            # The provider sends the change to the new name's address.
            missing = identity.id.removesuffix(identity.name) + str(given["name"])
            message = f"googleapi: Error 404: The resource '{missing}' was not found, notFound"
            raise RefusedError(message)
        targets = references.targets(request, type_, given)
        admission.admit(request, identity, given)
        return targets

    def outputs(self, request: Request, identity: Identity, inputs: Props, serial: int) -> Props:
        return answered(self.type(request), request, identity, inputs, serial)

    def minutes(self, request: Request, operation: str, inputs: Props) -> float:
        machine = get(plain(inputs), "nodeConfig.machineType")
        key = f"tpu:{request.type}" if str(machine).startswith(TPU_MACHINES) else request.type
        return float(getattr(duration(key), operation))

    def lasts(self, request: Request, operation: str, inputs: Props) -> float:
        del request, operation, inputs
        return 0.0

    def limit(self, request: Request, operation: str, inputs: Props) -> tuple[float, str]:
        del inputs
        kind = request.type.rpartition(":")[2]
        message = (
            f"Error waiting for {operation} of {kind} {request.name}: timeout while waiting for "
            "state to become 'DONE' (last state: 'RUNNING', timeout: {limit})"
        )
        return self.type(request).timeouts.get(operation, _LIMIT), message

    def held(self, request: Request, record: Record, operation: str) -> str:
        del request, record, operation
        return ""

    def appeared(self, request: Request, record: Record) -> None:
        if record.type == CLUSTER:
            for host in cluster_hosts(record.props):
                request.store.announce(host, record.key)

    def releases(self, request: Request, record: Record, state: Props) -> bool:
        type_, before = self.type(request), plain(state)
        if type_.protect and before.get(type_.protect):
            kind = type_.token.rpartition(":")[2].lower()
            message = (
                f"Cannot destroy {kind} because deletion_protection is set to true. Set it to "
                "false to proceed with instance deletion."
            )
            raise RefusedError(message)
        policy = before.get("deletionPolicy", "DELETE")
        if policy == "PREVENT":
            message = f"cannot destroy {record.id}: deletion_policy is set to PREVENT"
            raise RefusedError(message)
        if type_.forget or policy == "ABANDON":
            return False
        if users := references.users(request.store, record):
            message = (
                f"googleapi: Error 400: The resource '{record.id}' is already being used by "
                f"'{users[0].id}', resourceInUseByAnotherResource"
            )
            raise RefusedError(message)
        return True

    def vanished(self, request: Request, record: Record) -> None:
        for other in references.inhabitants(request.store, record):
            self.vanished(request, other)
            request.store.drop(other.key)
        request.store.drop_scope(record.key)

    def read_inputs(self, request: Request, inputs: Props, live: Props) -> Props:
        if not inputs:
            return {key: live[key] for key in self.type(request).fields if live.get(key)}
        refreshed: Props = _refreshed(inputs, live)
        return refreshed

    def invoke(self, token: str, args: Props, config: Props, store: Store) -> Props:
        del store
        function = token.rpartition(":")[2]
        if function == "getClientConfig":
            return _client_config(config)
        if function == "getProject":
            project = plain(args).get("projectId") or project_of(config)
            return {
                "id": stamp(f"projects/{project}"),
                "projectId": project,
                "name": project,
                "number": project_number(project),
            }
        message = f"the simulated cloud has no answer for {token}"
        raise RefusedError(message)


def _client_config(config: Mapping[str, Any]) -> Props:
    return {
        "id": stamp(project_of(config)),
        "project": project_of(config),
        "region": config.get("region", ""),
        "zone": config.get("zone", ""),
        "accessToken": secret("simulated"),
        "defaultLabels": {},
    }


def _part(type_: Type, match: re.Match[str], values: Props) -> str:
    """One placeholder of an id: a parent's whole id in front, else the name alone."""
    key = match.group(1)
    value = unstamp(str(values.get(key, "")))
    whole = match.start() == 0 and any(ref.path == key for ref in type_.references)
    return value if whole or key in ("role", "member", "service") else tail(value)


def _refreshed(old: Any, live: Any) -> Any:
    """The old inputs with what the cloud now says at the same places."""
    inner, now = unwrap(old), unwrap(live)
    if isinstance(inner, dict) and isinstance(now, dict):
        value: Any = {
            key: item if key == DEFAULTS else _refreshed(item, now[key])
            for key, item in inner.items()
            if key == DEFAULTS or key in now
        }
    elif isinstance(inner, list) and isinstance(now, list):
        value = [
            _refreshed(inner[index], item) if index < len(inner) else item
            for index, item in enumerate(now)
        ]
    else:
        value = live
    return secret(plain(value)) if inner is not old else value

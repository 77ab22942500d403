"""The API of the simulated clusters: the `kubernetes` half of the simulated cloud."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Iterator
from typing import Any

from simcloud import plan
from simcloud.cloud import Checked, Identity, RefusedError, Request, unstamp
from simcloud.kubernetes import behaviours, queueing
from simcloud.kubernetes.behaviours import ESTABLISHED, behaviour, no_such_kind
from simcloud.kubernetes.kinds import (
    RELEASE,
    chart,
    chart_of,
    group_kind,
    immutable,
    installed_by_gke,
    is_builtin,
    is_cluster_scoped,
    is_known,
    is_patch,
    kind_of,
    known_types,
    mistakes,
)
from simcloud.kubernetes.names import OPEN_NAMESPACES, cluster_of, key, plural, server
from simcloud.kubernetes.volumes import mountable
from simcloud.plan import Plan
from simcloud.store import Record, Store
from simcloud.values import (
    Props,
    get,
    has_unknown,
    is_secret,
    nearest,
    pattern,
    plain,
    secret,
    under,
    unwrap,
)

behaviours.BEHAVIOURS.update(queueing.BEHAVIOURS)

AUTONAMED = "pulumi.com/autonamed"


class Kubernetes:
    """The package `kubernetes`: built-in kinds, Helm releases and any custom resource."""

    name = "kubernetes"
    version = "4.34.2"

    # Plans

    def check(self, request: Request, news: Props, olds: Props, seed: bytes) -> Checked:
        if not is_known(request.type):
            hint = nearest(request.type, known_types())
            message = f"the simulated cloud does not know the type {request.type}.{hint}"
            raise RefusedError(message)
        inputs = copy.deepcopy(news)
        failures = [
            f"{reason} Examine values at '{request.name}.{path}'."
            for path, reason in mistakes(request.type, inputs)
        ]
        automatic = f"{request.name}-{seed.hex()[:8] or '00000000'}"
        namespace = request.config.get("namespace") or "default"
        if request.type == RELEASE:
            inputs.setdefault("name", plain(olds.get("name")) or automatic)
            inputs.setdefault("namespace", namespace)
            if not inputs.get("skipAwait"):
                inputs.setdefault("timeout", 300)
            return Checked(inputs=inputs, failures=failures)
        body = unwrap(inputs.setdefault("metadata", {}))
        if isinstance(body, dict):
            if "name" not in body and "generateName" not in body:
                if is_patch(request.type):
                    failures.append(f"patch resources need metadata.name ({request.name})")
                _autoname(body, plain(olds), automatic)
            if not is_cluster_scoped(kind_of(request.type)):
                body.setdefault("namespace", namespace)
        failures.extend(_selector(inputs))
        return Checked(inputs=inputs, failures=failures)

    def diff(
        self, request: Request, old_inputs: Props, state: Props, news: Props, ignored: list[str]
    ) -> Plan:
        old, new = plain(old_inputs) or plain(state), plain(news)
        if request.type == RELEASE:
            replacing: tuple[str, ...] = ("name", "namespace")
        elif is_patch(request.type):
            replacing = ("metadata.name", "metadata.namespace")
        else:
            replacing = ("metadata.name", "metadata.namespace", *immutable(new, request.config))
        detail, replaces = {}, []
        for path, change in plan.changes(old, new, ignored):
            place = pattern(path)
            # The change lies below a replacing field, or takes a whole block with one in it away.
            must = any(under(place, root) for root in replacing) or (
                change != "add" and any(under(root, place) for root in replacing)
            )
            detail[path] = f"{change}-replace" if must else change
            if must:
                replaces.append(path)
        first = bool(replaces) and request.type != RELEASE and _same_name(old, new)
        return Plan(detail=detail, replaces=tuple(replaces), delete_before_replace=first)

    def diff_config(self, olds: Props, news: Props) -> Plan:
        old, new = plain(olds), plain(news)
        detail = dict(plan.changes(old, new, ("version",)))
        before, after = old.get("clusterIdentifier"), new.get("clusterIdentifier")
        replaces: tuple[str, ...] = ()
        if before and after and before != after:
            replaces = ("clusterIdentifier",)
        elif before and before == after:
            pass  # The same cluster, whatever else changed.
        elif has_unknown(new.get("kubeconfig")) or server(old) != server(new):
            replaces = ("kubeconfig",)
        return Plan(detail=detail, replaces=replaces)

    def preview(self, request: Request, inputs: Props, state: Props | None) -> Props:
        del request
        kept = {name: item for name, item in (state or {}).items() if name not in inputs}
        return {**kept, **inputs}

    # Operations

    def identify(self, request: Request, inputs: Props, serial: int) -> Identity:
        del serial
        given = plain(inputs)
        named = given if request.type == RELEASE else given["metadata"]
        namespace, name = named.get("namespace", ""), named["name"]
        id_ = f"{namespace}/{name}" if namespace else name
        cluster = cluster_of(request)
        return Identity(
            key=key(cluster, kind_of(request.type), id_), id=id_, name=name, scope=cluster
        )

    def locate(self, request: Request, id_: str) -> str:
        return key(cluster_of(request), kind_of(request.type), unstamp(id_))

    def conflict(self, request: Request, record: Record) -> None:
        adopts = str(request.config.get("upsertExistingObjects")).lower() == "true"
        if is_patch(request.type) or adopts:
            return
        if request.type == RELEASE:
            message = "cannot re-use a name that is still in use"
        else:
            message = f'{plural(kind_of(request.type))} "{record.name}" already exists'
        raise RefusedError(message)

    def admit(self, request: Request, identity: Identity, inputs: Props, *, new: bool) -> list[str]:
        given = plain(inputs)
        targets = list(self._targets(request, identity, given))
        mountable(request, identity, given)
        behaviour(kind_of(request.type)).admit(request, identity, given, new=new)
        return targets

    def _targets(self, request: Request, identity: Identity, given: Props) -> Iterator[str]:
        store = request.store
        namespace = identity.id.rpartition("/")[0]
        makes_it = request.type == RELEASE and given.get("createNamespace")
        if namespace and namespace not in OPEN_NAMESPACES:
            place = key(identity.scope, "/Namespace", namespace)
            if store.get(place) is not None:
                yield place
            elif not makes_it:
                message = f'namespaces "{namespace}" not found'
                raise RefusedError(message)
        if request.type == RELEASE or is_builtin(str(given.get("apiVersion", ""))):
            return
        kind = group_kind(given["apiVersion"], given["kind"])
        definition = key(identity.scope, ESTABLISHED, kind)
        cluster = store.get(identity.scope)
        if store.get(definition) is not None:
            yield definition
        elif cluster is None or kind not in installed_by_gke(cluster.props):
            raise no_such_kind(given["apiVersion"], given["kind"], request.name)

    def outputs(self, request: Request, identity: Identity, inputs: Props, serial: int) -> Props:
        out: Props = copy.deepcopy(inputs)
        given = plain(inputs)
        if request.type == RELEASE:
            return {**out, **_released(identity, given)}
        body = unwrap(out["metadata"])
        body["uid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{identity.key}|{serial}"))
        body["resourceVersion"] = str(serial)
        body["generation"] = 1
        body["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if status := behaviour(kind_of(request.type)).status(given):
            out["status"] = status
        return out

    def minutes(self, request: Request, operation: str, inputs: Props) -> float:
        return behaviour(kind_of(request.type)).minutes(operation, plain(inputs))

    def lasts(self, request: Request, operation: str, inputs: Props) -> float:
        return behaviour(kind_of(request.type)).lasts(operation, plain(inputs))

    def limit(self, request: Request, operation: str, inputs: Props) -> tuple[float, str]:
        del operation
        return behaviour(kind_of(request.type)).limit(plain(inputs))

    def held(self, request: Request, record: Record, operation: str) -> str:
        return behaviour(kind_of(record.type)).held(request, record, operation)

    def appeared(self, request: Request, record: Record) -> None:
        behaviour(kind_of(record.type)).appeared(request, record)

    def releases(self, request: Request, record: Record, state: Props) -> bool:
        del state
        # Deleting a patch gives up the fields and leaves the object.
        if is_patch(request.type):
            return False
        return behaviour(kind_of(request.type)).releases(request, record)

    def vanished(self, request: Request, record: Record) -> None:
        behaviour(kind_of(record.type)).vanished(request, record)

    def read_inputs(self, request: Request, inputs: Props, live: Props) -> Props:
        del request
        if not inputs:
            return {name: item for name, item in live.items() if name != "status"}
        refreshed: Props = _refreshed(inputs, live)
        return refreshed

    def invoke(self, token: str, args: Props, config: Props, store: Store) -> Props:
        del args, config, store
        message = f"the simulated cloud has no answer for {token}"
        raise RefusedError(message)


def _autoname(body: Props, olds: Props, automatic: str) -> None:
    old = get(olds, "metadata") or {}
    kept = (old.get("annotations") or {}).get(AUTONAMED) == "true"
    body["name"] = old["name"] if kept else automatic
    annotations = body.setdefault("annotations", {})
    if isinstance(unwrap(annotations), dict):
        unwrap(annotations)[AUTONAMED] = "true"


def _selector(inputs: Props) -> Iterator[str]:
    given = plain(inputs)
    if given.get("kind") not in ("Deployment", "StatefulSet", "DaemonSet"):
        return
    want = get(given, "spec.selector.matchLabels") or {}
    have = get(given, "spec.template.metadata.labels") or {}
    if has_unknown(want) or has_unknown(have):
        return
    if any(have.get(label) != value for label, value in want.items()):
        yield "spec.template.metadata.labels: `selector` does not match template `labels`"


def _same_name(old: Props, new: Props) -> bool:
    """An object with an explicit name goes before its successor of that name comes."""
    if (get(new, "metadata.annotations") or {}).get(AUTONAMED) == "true":
        return False
    return all(get(old, f"metadata.{at}") == get(new, f"metadata.{at}") for at in _NAMES)


_NAMES = ("name", "namespace")


def _released(identity: Identity, given: Props) -> Props:
    name = chart_of(given)
    status = {
        "name": identity.name,
        "namespace": given["namespace"],
        "chart": name,
        "version": given.get("version") or chart(name).get("version", "0.0.0"),
        "appVersion": "simulated",
        "revision": 1,
        "status": "deployed",
    }
    return {"status": status, "resourceNames": {}, "manifest": {}}


def _refreshed(old: Any, live: Any) -> Any:
    """The old inputs with the live values at the places the program named."""
    inner, now = unwrap(old), unwrap(live)
    if isinstance(inner, dict) and isinstance(now, dict):
        value: Any = {
            name: _refreshed(item, now[name]) for name, item in inner.items() if name in now
        }
    else:
        value = live
    return secret(plain(value)) if is_secret(old) else value

"""What kinds do beside existing. One class a behaviour, registered by group and kind.

A kind without an entry is stored, answered and deleted; everything else a kind does is here.
"""

from __future__ import annotations

import time
from typing import Any

from simcloud.clock import duration
from simcloud.cloud import Identity, RefusedError, Request
from simcloud.kubernetes.kinds import chart, chart_of, is_builtin
from simcloud.kubernetes.names import key
from simcloud.store import Record
from simcloud.values import Props, get, unwrap

ESTABLISHED = "established"
"""The kind of the records that stand for an established CustomResourceDefinition."""

SKIP_AWAIT = "pulumi.com/skipAwait"
WAIT_FOR = "pulumi.com/waitFor"
TIMEOUT = "pulumi.com/timeoutSeconds"


class Behaviour:
    """The hooks of a kind; each does nothing unless a subclass says otherwise."""

    def admit(self, request: Request, identity: Identity, given: Props, *, new: bool) -> None:
        """RefusedError if the API or a webhook does not take the object."""

    def status(self, given: Props) -> Props:
        """The status of the object once it is ready."""
        del given
        return {}

    def minutes(self, operation: str, given: Props) -> float:
        """Simulated minutes until the provider's operation is over."""
        kind = str(given.get("kind", ""))
        annotations = get(given, "metadata.annotations") or {}
        custom = not is_builtin(str(given.get("apiVersion", "")))
        # Custom resources are not awaited unless the annotation says for what.
        skip = annotations.get(SKIP_AWAIT) == "true" or (custom and WAIT_FOR not in annotations)
        if skip and operation != "delete":
            return 0.0
        asked = f"tpu:{kind}" if wants_tpu(given) else f"kind:{kind}"
        return float(getattr(duration(asked), operation))

    def lasts(self, operation: str, given: Props) -> float:
        """Minutes that `held` goes on after that, when nothing stands in the way."""
        del operation, given
        return 0.0

    def limit(self, given: Props) -> tuple[float, str]:
        """Minutes the provider waits, and what it says then."""
        seconds = (get(given, "metadata.annotations") or {}).get(TIMEOUT)
        kind = given.get("kind", "")
        return float(seconds or 600) / 60, f"{kind} timed out waiting to be Ready after {{limit}}"

    def appeared(self, request: Request, record: Record) -> None:
        """Called when the object is ready or changed."""

    def releases(self, request: Request, record: Record) -> bool:
        """False if a delete only forgets the object; RefusedError if something holds it."""
        del request, record
        return True

    def held(self, request: Request, record: Record, operation: str) -> str:
        """What the provider says if it gives up now; empty when the operation is over."""
        del request, record, operation
        return ""

    def vanished(self, request: Request, record: Record) -> None:
        """Called before the object goes."""


class Namespace(Behaviour):
    """Its objects go with it."""

    def status(self, given: Props) -> Props:
        del given
        return {"phase": "Active"}

    def appeared(self, request: Request, record: Record) -> None:
        # Kubernetes' own controller makes it, so nobody else can.
        appear(request, record, "/ServiceAccount", f"{record.name}/default")

    def vanished(self, request: Request, record: Record) -> None:
        for other in request.store.referrers(record.key):
            remove(request, other)


class Workload(Behaviour):
    """Pods under a controller: ready when all replicas are."""

    def status(self, given: Props) -> Props:
        count = get(given, "spec.replicas")
        count = 1 if count is None else count
        names = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
        return {"observedGeneration": 1, **dict.fromkeys(names, count)}


class Job(Behaviour):
    """Runs to its end before the provider goes on."""

    def status(self, given: Props) -> Props:
        count = get(given, "spec.completions")
        return {"succeeded": 1 if count is None else count, "active": 0}


class Definition(Behaviour):
    """A CustomResourceDefinition: its kind exists from now on, its objects go with it."""

    def appeared(self, request: Request, record: Record) -> None:
        spec = record.props.get("spec") or {}
        establish(request, record, f"{spec.get('group')}/{get(spec, 'names.kind')}")

    def vanished(self, request: Request, record: Record) -> None:
        abolish(request, record)


class Release(Behaviour):
    """A Helm release: waits for its chart, brings the chart's definitions and its namespace."""

    def minutes(self, operation: str, given: Props) -> float:
        if given.get("skipAwait"):
            return 0.0
        return float(getattr(duration(f"helm:{chart_of(given)}"), operation))

    def limit(self, given: Props) -> tuple[float, str]:
        release = f"{given.get('namespace')}/{given.get('name')}"
        return float(given.get("timeout") or 300) / 60, (
            f"Helm release {release} was created, but failed to become ready in {{limit}}: "
            "context deadline exceeded"
        )

    def appeared(self, request: Request, record: Record) -> None:
        if record.props.get("createNamespace"):
            appear(request, record, "/Namespace", str(record.props["namespace"]))
        if not record.props.get("skipCrds"):
            for kind in chart(chart_of(record.props)).get("crds", ()):
                establish(request, record, kind)

    def vanished(self, request: Request, record: Record) -> None:
        # Helm never deletes what a chart keeps in crds/; definitions among the templates go.
        if not chart(chart_of(record.props)).get("keeps"):
            abolish(request, record)


BEHAVIOURS: dict[str, Behaviour] = {
    "/Namespace": Namespace(),
    "apps/Deployment": Workload(),
    "apps/StatefulSet": Workload(),
    "batch/Job": Job(),
    "apiextensions.k8s.io/CustomResourceDefinition": Definition(),
    "helm.sh/Release": Release(),
}

_DEFAULT = Behaviour()


def behaviour(kind: str) -> Behaviour:
    return BEHAVIOURS.get(kind, _DEFAULT)


def appear(request: Request, owner: Record, kind: str, id_: str) -> None:
    """An object that the cluster makes for another one."""
    made = key(owner.scope, kind, id_)
    if request.store.get(made) is None:
        now = time.time()
        record = Record(
            key=made,
            package="kubernetes",
            type=f"simcloud:{kind}",
            name=id_,
            id=id_,
            scope=owner.scope,
            status="ready",
            props={},
            serial=0,
            created=now,
            ready=now,
        )
        request.store.put(record, [owner.key])


def establish(request: Request, owner: Record, kind: str) -> None:
    appear(request, owner, ESTABLISHED, kind)


def abolish(request: Request, owner: Record) -> None:
    """The definitions an object brought go, and with them every object of their kinds."""
    for definition in request.store.referrers(owner.key):
        if definition.type == f"simcloud:{ESTABLISHED}":
            for custom in request.store.referrers(definition.key):
                remove(request, custom)
            request.store.drop(definition.key)


def remove(request: Request, record: Record) -> None:
    """One object goes without anybody asking for it."""
    request.store.drop(record.key)


def wants_tpu(given: Any) -> bool:
    """Whether any container asks for TPU chips."""
    given = unwrap(given)
    if isinstance(given, dict):
        return "google.com/tpu" in given or any(wants_tpu(item) for item in given.values())
    return isinstance(given, list) and any(wants_tpu(item) for item in given)


def no_such_kind(api_version: str, kind: str, name: str) -> RefusedError:
    return RefusedError(
        f'no matches for kind "{kind}" in version "{api_version}": the CustomResourceDefinition '
        f"must exist before {name}; depend on the release or definition that brings it"
    )

"""Kueue and its neighbours: webhooks that answer late, conditions, finalizers."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from simcloud.cloud import Identity, RefusedError, Request
from simcloud.kubernetes import slices
from simcloud.kubernetes.behaviours import WAIT_FOR, Behaviour, Release
from simcloud.kubernetes.kinds import RELEASE, chart_of, kind_of
from simcloud.kubernetes.names import key
from simcloud.store import Record
from simcloud.values import Props, get

TABLE = Path(__file__).parents[1] / "tables" / "queueing.toml"

CONTROLLER = "accelerator.gke.io/slice"
CONTROLLER_DEPLOYMENT = "slice-controller-system/slice-controller-controller-manager"
ANSWERS = "answers"
"""Records of this kind say from when a chart's webhooks answer."""


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text())


class Operator(Release):
    """A chart with webhooks: they answer some time after its pods are ready."""

    def appeared(self, request: Request, record: Record) -> None:
        super().appeared(request, record)
        if hook := _table()["webhook"].get(chart_of(record.props)):
            # After an upgrade the certificate is made anew.
            slices.made(
                request,
                record,
                ANSWERS,
                chart_of(record.props),
                props={},
                ready=time.time() + hook["minutes"] * request.scale,
            )

    def held(self, request: Request, record: Record, operation: str) -> str:
        """Without the controller nobody clears the finalizers of its objects."""
        if operation != "delete" or chart_of(record.props) != "kueue":
            return ""
        left = [
            each
            for kind in (*_table()["in_use"], "kueue.x-k8s.io/ClusterQueue")
            for each in of_kind(request, record.scope, kind)
        ]
        if not left:
            return ""
        return (
            "uninstallation completed with 1 error(s): timed out waiting for the condition: "
            f"{kind_of(left[0].type)} {left[0].id} has the finalizer kueue.x-k8s.io/resource-in-use"
        )


def answers(request: Request, cluster: str, kind: str) -> str:
    """What the API server says when a webhook for this kind does not answer; else nothing."""
    for chart, hook in _table()["webhook"].items():
        if kind not in hook["kinds"]:
            continue
        installed = [
            each for each in request.store.all(RELEASE, cluster) if chart_of(each.props) == chart
        ]
        since = request.store.get(key(cluster, ANSWERS, chart))
        if installed and (since is None or time.time() < since.ready):
            return (
                f'Internal error occurred: failed calling webhook "{hook["hook"]}": failed to call '
                f'webhook: Post "https://{hook["service"]}/?timeout=10s": dial tcp: connect: '
                "connection refused"
            )
    return ""


class Guarded(Behaviour):
    """A kind whose objects go through a webhook."""

    def admit(self, request: Request, identity: Identity, given: Props, *, new: bool) -> None:
        super().admit(request, identity, given, new=new)
        if said := answers(request, identity.scope, kind_of(request.type)):
            raise RefusedError(said)


class InUse(Guarded):
    """An object that stays while others name it."""

    def held(self, request: Request, record: Record, operation: str) -> str:
        if operation != "delete":
            return ""
        use = _table()["in_use"][kind_of(record.type)]
        for other in of_kind(request, record.scope, use["by"]):
            if record.name in _strings(other.props, use["at"]):
                return finalizers(record, "kueue.x-k8s.io/resource-in-use")
        return ""


class Condition(Behaviour):
    """An object that the provider may wait for, until its condition Active is true."""

    def status(self, given: Props) -> Props:
        condition = {"type": "Active", "status": "True", "reason": "Ready", "message": ""}
        return {"conditions": [condition]} if waits(given) else {}

    def held(self, request: Request, record: Record, operation: str) -> str:
        if operation == "delete" or not waits(record.props) or not self.missing(request, record):
            return super().held(request, record, operation)
        # The real provider says no more than this.
        return f"{record.type.rpartition(':')[2]} timed out waiting for condition=Active"

    def missing(self, request: Request, record: Record) -> str:
        """The reason in the condition, empty when it is true."""
        raise NotImplementedError


class AdmissionCheck(Condition, InUse):
    """Active once its controller runs, and may read the checks."""

    def missing(self, request: Request, record: Record) -> str:
        if get(record.props, "spec.controllerName") != CONTROLLER:
            return "NoController"
        running = request.store.get(key(record.scope, "apps/Deployment", CONTROLLER_DEPLOYMENT))
        if running is None or running.status != "ready":
            return "NoController"
        roles = request.store.all("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole")
        may = [
            rule
            for role in roles
            if role.scope == record.scope
            for rule in role.props.get("rules") or ()
            if "admissionchecks" in rule.get("resources", ()) and "watch" in rule.get("verbs", ())
        ]
        return "" if may else "NotWatched"


class ClusterQueue(Condition, Guarded):
    """Active when everything it names is there; stays while workloads hold its quota."""

    def missing(self, request: Request, record: Record) -> str:
        if get(record.props, "spec.stopPolicy") not in (None, "None"):
            return "Stopped"
        for name in _strings(record.props, ["spec.resourceGroups", "flavors", "name"]):
            flavor = find(request, record.scope, "kueue.x-k8s.io/ResourceFlavor", name)
            if flavor is None:
                return "FlavorNotFound"
            topology = get(flavor.props, "spec.topologyName")
            if topology and not find(request, record.scope, "kueue.x-k8s.io/Topology", topology):
                return "TopologyNotFound"
        for name in _strings(
            record.props, ["spec.admissionChecksStrategy.admissionChecks", "name"]
        ):
            check = find(request, record.scope, "kueue.x-k8s.io/AdmissionCheck", name)
            if check is None:
                return "AdmissionCheckNotFound"
            if AdmissionCheck().missing(request, check):
                return "AdmissionCheckInactive"
        return ""

    def held(self, request: Request, record: Record, operation: str) -> str:
        if operation == "delete" and slices.using(request, record):
            return finalizers(record, "kueue.x-k8s.io/resource-in-use")
        return super().held(request, record, operation)


class LocalQueue(Condition):
    """Active with its ClusterQueue."""

    def missing(self, request: Request, record: Record) -> str:
        name = str(get(record.props, "spec.clusterQueue"))
        queue = find(request, record.scope, "kueue.x-k8s.io/ClusterQueue", name)
        if queue is None:
            return "ClusterQueueNotFound"
        return ClusterQueue().missing(request, queue)


class SlicedWorkload(Guarded):
    """A JobSet or LeaderWorkerSet: asks for slices when it is queued, frees them when it goes."""

    def minutes(self, operation: str, given: Props) -> float:
        # Slices take the time, and they are waited for by `held`.
        if slices.shape_of(given):
            return 0.0
        return super().minutes(operation, given)

    def appeared(self, request: Request, record: Record) -> None:
        slices.submit(request, record)

    def releases(self, request: Request, record: Record) -> bool:
        slices.drain(request, record)
        return super().releases(request, record)

    def held(self, request: Request, record: Record, operation: str) -> str:
        if operation == "delete":
            return slices.dismantling(request, record)
        condition = (get(record.props, "metadata.annotations") or {}).get(WAIT_FOR)
        if not condition or not slices.shape_of(record.props):
            return ""
        slices.submit(request, record)
        if slices.formed(request, record):
            return ""
        return f"{record.type.rpartition(':')[2]} timed out waiting for {condition}"

    def vanished(self, request: Request, record: Record) -> None:
        slices.free(request, record)


def waits(given: Props) -> bool:
    return WAIT_FOR in (get(given, "metadata.annotations") or {})


def finalizers(record: Record, name: str) -> str:
    """The real provider's words: it names finalizers, not who holds them."""
    return (
        f"'{record.id}' timed out waiting to be deleted: finalizers might be preventing deletion "
        f"({name})"
    )


def of_kind(request: Request, cluster: str, kind: str) -> Iterator[Record]:
    group, _, name = kind.partition("/")
    for record in request.store.all(scope=cluster):
        if record.type.endswith(f":{name}") and f":{group}/" in record.type:
            yield record


def find(request: Request, cluster: str, kind: str, name: str) -> Record | None:
    return request.store.get(key(cluster, kind, name))


def _strings(value: Any, path: list[str]) -> list[str]:
    """Strings at a path, through the lists on its way."""
    found = get(value, path[0]) if isinstance(value, Mapping) else None
    if len(path) == 1:
        return [] if found is None else [str(found)]
    return [text for item in found or () for text in _strings(item, path[1:])]


BEHAVIOURS: Mapping[str, Behaviour] = {
    "helm.sh/Release": Operator(),
    "kueue.x-k8s.io/Topology": InUse(),
    "kueue.x-k8s.io/ResourceFlavor": InUse(),
    "kueue.x-k8s.io/AdmissionCheck": AdmissionCheck(),
    "kueue.x-k8s.io/Cohort": Guarded(),
    "kueue.x-k8s.io/ClusterQueue": ClusterQueue(),
    "kueue.x-k8s.io/LocalQueue": LocalQueue(),
    "jobset.x-k8s.io/JobSet": SlicedWorkload(),
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": SlicedWorkload(),
}

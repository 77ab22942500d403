"""Kueue and its neighbours: webhooks that answer late, conditions, finalizers."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from simcloud.clock import duration
from simcloud.cloud import Identity, RefusedError, Request
from simcloud.kubernetes import conditions, slices
from simcloud.kubernetes.behaviours import WAIT_FOR, Behaviour, Release
from simcloud.kubernetes.conditions import find, of_kind, strings
from simcloud.kubernetes.kinds import RELEASE, chart_of, kind_of
from simcloud.kubernetes.names import key
from simcloud.store import Record
from simcloud.values import Props, get

TABLE = Path(__file__).parents[1] / "tables" / "queueing.toml"

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
            for each in of_kind(request.store, record.scope, kind)
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
        for other in of_kind(request.store, record.scope, use["by"]):
            if record.name in strings(other.props, use["at"]):
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
        return conditions.check_missing(request.store, record)


class ClusterQueue(Condition, Guarded):
    """Active when everything it names is there; stays while workloads hold its quota."""

    def missing(self, request: Request, record: Record) -> str:
        return conditions.queue_missing(request.store, record)

    def appeared(self, request: Request, record: Record) -> None:
        super().appeared(request, record)
        if get(record.props, "spec.stopPolicy") == "HoldAndDrain":
            slices.send_back(request, record)
        slices.next_turn(request, record.scope)

    def held(self, request: Request, record: Record, operation: str) -> str:
        if operation == "delete" and slices.using(request, record):
            return finalizers(record, "kueue.x-k8s.io/resource-in-use")
        return super().held(request, record, operation)


class LocalQueue(Condition):
    """Active with its ClusterQueue."""

    def missing(self, request: Request, record: Record) -> str:
        name = str(get(record.props, "spec.clusterQueue"))
        queue = find(request.store, record.scope, "kueue.x-k8s.io/ClusterQueue", name)
        if queue is None:
            return "ClusterQueueNotFound"
        return conditions.queue_missing(request.store, queue)


class SlicedWorkload(Guarded):
    """A JobSet or LeaderWorkerSet: asks for slices when it is queued, frees them when it goes."""

    def minutes(self, operation: str, given: Props) -> float:
        # Pods start on slices, and end before those are taken apart: `held` waits for both.
        if slices.shape_of(given) and operation != "update":
            return 0.0
        return super().minutes(operation, given)

    def lasts(self, operation: str, given: Props) -> float:
        if operation != "create" or not slices.shape_of(given) or not waits(given):
            return 0.0
        return duration("kind:Slice").create + _start(given)

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
        since = slices.formed(request, record)
        if since is not None and time.time() >= since + _start(record.props) * request.scale:
            return ""
        return f"{record.type.rpartition(':')[2]} timed out waiting for {condition}"

    def vanished(self, request: Request, record: Record) -> None:
        slices.free(request, record)


def _start(given: Props) -> float:
    """Minutes from the slices to what the provider waits for: pods that are ready, or nothing."""
    return duration(f"tpu:{given['kind']}").create


def waits(given: Props) -> bool:
    return WAIT_FOR in (get(given, "metadata.annotations") or {})


def finalizers(record: Record, name: str) -> str:
    """The real provider's words: it names finalizers, not who holds them."""
    return (
        f"'{record.id}' timed out waiting to be deleted: finalizers might be preventing deletion "
        f"({name})"
    )


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

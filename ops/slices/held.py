"""Which slices are held, by whom, and which of them stay held for ever.

A slice is given back when every pod of its owner is gone. A LeaderWorkerSet whose group was evicted
or scaled away makes new pods at once, which wait behind a gate, and they count: its slice stays
(seen with the slice controller 250d4b3 on Kueue 0.17.0, 2026-11-30).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ops.verify.cluster import condition

OWNER_NAMESPACE = "accelerator.gke.io/owner-workload-namespace"
OWNER_NAME = "accelerator.gke.io/owner-workload-name"
FINALIZER = "accelerator.gke.io/slice"
LWS = "LeaderWorkerSet"

State = Literal[
    "in use",
    "forming",
    "going",
    "held by nobody",
    "held by a deleted workload",
    "held by a finished workload",
    "held by an evicted workload",
    "made by hand",
]


@dataclass(frozen=True, kw_only=True)
class Held:
    """A slice, its state, and the command that frees it when nobody uses it."""

    name: str
    topology: str
    partitions: tuple[str, ...]
    owner: str
    state: State
    advice: str = ""

    @property
    def stuck(self) -> bool:
        return self.state.startswith("held")


def held(slices: Iterable[Mapping[str, Any]], workloads: Iterable[Mapping[str, Any]]) -> list[Held]:
    """Every slice of the cluster, the stuck ones first."""
    known = {_key(each): each for each in workloads}
    found = [_judge(each, known) for each in slices]
    return sorted(found, key=lambda each: (not each.stuck, each.owner, each.name))


def leftovers(
    slices: Iterable[Mapping[str, Any]], workloads: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """Workloads that are being deleted and wait for slices that are gone already."""
    owners = {_owner(each) for each in slices}
    for each in workloads:
        metadata = each.get("metadata") or {}
        waits = FINALIZER in (metadata.get("finalizers") or ())
        if waits and metadata.get("deletionTimestamp") and _key(each) not in owners:
            yield "/".join(_key(each))


def _judge(found: Mapping[str, Any], workloads: Mapping[tuple[str, str], Any]) -> Held:
    metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
    name, owner = str(metadata.get("name")), _owner(found)
    workload = workloads.get(owner)
    state: State = "made by hand"
    advice = ""
    if metadata.get("deletionTimestamp"):
        state = "going"
    # Without a word of its owner a slice is not the queue's, and nobody's to delete here.
    elif any(owner):
        state, advice = _state(found, workload, name)
    return Held(
        name=name,
        topology=str(spec.get("topology") or "?"),
        partitions=tuple(map(str, spec.get("partitionIds") or ())),
        owner="/".join(owner) if any(owner) else "nobody",
        state=state,
        advice=advice,
    )


def _state(
    found: Mapping[str, Any], workload: Mapping[str, Any] | None, name: str
) -> tuple[State, str]:
    if workload is None:
        return "held by nobody", f"kubectl delete slice {name}"
    if (workload.get("metadata") or {}).get("deletionTimestamp"):
        return "held by a deleted workload", _once_left(workload, name)
    if condition(workload, "Finished")[0]:
        return "held by a finished workload", _once_left(workload, name)
    active = (workload.get("spec") or {}).get("active", True)
    evicted, _ = condition(workload, "Evicted")
    admitted, _ = condition(workload, "Admitted")
    if (evicted and not admitted) or active is False:
        return "held by an evicted workload", _free(workload, name)
    ready, _ = condition(found, "Ready")
    return ("in use" if ready else "forming"), ""


def _once_left(workload: Mapping[str, Any], name: str) -> str:
    """Nobody forms it again; but pods that still end there are the reason why it is held."""
    namespace = (workload.get("metadata") or {}).get("namespace")
    return (
        f"it is freed once its pods have ended (kubectl -n {namespace} get pods); where none is "
        f"left of this workload: kubectl delete slice {name}"
    )


def _free(workload: Mapping[str, Any], name: str) -> str:
    """The object to delete is the owner's: a slice deleted alone is formed again for it."""
    metadata = workload.get("metadata") or {}
    namespace = metadata.get("namespace")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == LWS:
            return (
                f"kubectl -n {namespace} delete leaderworkerset {owner.get('name')}, then "
                f"`pulumi refresh` and `pulumi up`; or, to let it form again: kubectl delete slice "
                f"{name}"
            )
    return f"kubectl delete slice {name}"


def _owner(found: Mapping[str, Any]) -> tuple[str, str]:
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    return annotations.get(OWNER_NAMESPACE, ""), annotations.get(OWNER_NAME, "")


def _key(workload: Mapping[str, Any]) -> tuple[str, str]:
    metadata = workload.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))

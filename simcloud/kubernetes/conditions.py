"""Why an object of Kueue is not Active: the reasons its conditions give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcloud.kubernetes.names import key
from simcloud.store import Record, Store
from simcloud.values import get

CONTROLLER = "accelerator.gke.io/slice"
CONTROLLER_DEPLOYMENT = "slice-controller-system/slice-controller-controller-manager"


def check_missing(store: Store, record: Record) -> str:
    """An admission check is Active once its controller runs, and may read the checks."""
    if get(record.props, "spec.controllerName") != CONTROLLER:
        return "NoController"
    running = store.get(key(record.scope, "apps/Deployment", CONTROLLER_DEPLOYMENT))
    if running is None or running.status != "ready":
        return "NoController"
    may = [
        rule
        for role in store.all("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", record.scope)
        for rule in role.props.get("rules") or ()
        if "admissionchecks" in rule.get("resources", ()) and "watch" in rule.get("verbs", ())
    ]
    return "" if may else "NotWatched"


def queue_missing(store: Store, record: Record) -> str:
    """A ClusterQueue is Active when everything it names is there and nobody stopped it."""
    if get(record.props, "spec.stopPolicy") not in (None, "None"):
        return "Stopped"
    for name in strings(record.props, ["spec.resourceGroups", "flavors", "name"]):
        flavor = find(store, record.scope, "kueue.x-k8s.io/ResourceFlavor", name)
        if flavor is None:
            return "FlavorNotFound"
        topology = get(flavor.props, "spec.topologyName")
        if topology and not find(store, record.scope, "kueue.x-k8s.io/Topology", topology):
            return "TopologyNotFound"
    for name in strings(record.props, ["spec.admissionChecksStrategy.admissionChecks", "name"]):
        check = find(store, record.scope, "kueue.x-k8s.io/AdmissionCheck", name)
        if check is None:
            return "AdmissionCheckNotFound"
        if check_missing(store, check):
            return "AdmissionCheckInactive"
    return ""


def of_kind(store: Store, cluster: str, kind: str) -> Iterator[Record]:
    group, _, name = kind.partition("/")
    for record in store.all(scope=cluster):
        if record.type.endswith(f":{name}") and f":{group}/" in record.type:
            yield record


def find(store: Store, cluster: str, kind: str, name: str) -> Record | None:
    return store.get(key(cluster, kind, name))


def strings(value: Any, path: list[str]) -> list[str]:
    """Strings at a path, through the lists on its way."""
    found = get(value, path[0]) if isinstance(value, Mapping) else None
    if len(path) == 1:
        return [] if found is None else [str(found)]
    return [text for item in found or () for text in strings(item, path[1:])]

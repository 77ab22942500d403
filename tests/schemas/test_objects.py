"""Every object of every shipped stack is one the API server would take.

A fresh preview has no server that could refuse a misspelt field, and some are dropped in silence.
"""

from typing import Any

import pytest

from tests.support.lab import lab_config
from tests.support.recorder import Graph, record
from tests.support.schemas import NoSchemaError, mistakes
from tests.support.shipped import NAMES, shipped

UNPUBLISHED = {
    "autoscaling.gke.io/AutoscalingMetric",
    "monitoring.googleapis.com/PodMonitoring",
    "networking.gke.io/GCPBackendPolicy",
    "networking.gke.io/HealthCheckPolicy",
    "secrets-store.csi.x-k8s.io/SecretProviderClass",
}
"""GKE's own kinds, whose definitions are in no package: read from its documentation."""


@pytest.fixture(scope="module", params=NAMES)
def graph(request: pytest.FixtureRequest) -> Graph:
    return shipped(str(request.param))


def _manifests(graph: Graph) -> list[tuple[str, dict[str, Any]]]:
    return [
        (each.name, _sent(each.inputs))
        for each in graph.resources
        if each.type.startswith("kubernetes:") and not each.type.startswith("kubernetes:helm.sh/")
    ]


def _sent(inputs: Any) -> Any:
    """The inputs as the provider sends them: x_kubernetes_list_type becomes its real name."""
    if isinstance(inputs, list):
        return [_sent(each) for each in inputs]
    if not isinstance(inputs, dict):
        return inputs
    return {
        key.replace("_", "-") if key.startswith("x_kubernetes_") else key: _sent(value)
        for key, value in inputs.items()
    }


def test_every_object_is_valid(graph: Graph) -> None:
    wrong, unknown = [], set()
    for name, manifest in _manifests(graph):
        try:
            wrong += [f"{manifest['kind']} {name}: {each}" for each in mistakes(manifest)]
        except NoSchemaError:
            unknown.add(f"{manifest['apiVersion'].rpartition('/')[0]}/{manifest['kind']}")
    assert _manifests(graph) or graph.of("Release") == []
    assert wrong == []
    assert unknown <= UNPUBLISHED


def test_a_wrong_object_is_seen() -> None:
    graph = record(lab_config())
    manifests = dict(_manifests(graph))
    queue = manifests["queues-tpu-queue"]
    old = {**queue, "spec": {**queue["spec"], "cohort": "all", "admissionChecks": ["slices"]}}
    assert sorted(each.split("(")[1].split(" ")[0] for each in mistakes(old)) == [
        "'admissionChecks',"
    ]
    jobset = manifests["smoke-super-slice-jobset"]
    (job,) = jobset["spec"]["replicatedJobs"]
    spoilt = {**jobset, "spec": {"replicatedJobs": [{**job, "replica": 2}]}}
    assert ["replica" in each for each in mistakes(spoilt)] == [True]
    deployment = manifests["slice-controller-manager"]
    assert list(mistakes({**deployment, "spec": {**deployment["spec"], "replica": 2}}))

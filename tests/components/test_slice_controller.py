"""The slice controller: least rights, and a webhook that can stop queued objects only."""

from typing import Any

import pytest

from components.slice_controller import CLUSTER_RULES
from tests.support.lab import lab_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed


@pytest.fixture(scope="module")
def graph() -> Graph:
    return record(lab_config())


def _manager(graph: Graph) -> dict[str, Any]:
    deployment = graph.one("Deployment", "slice-controller-manager")
    (container,) = deployment.inputs["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def test_its_flags_come_from_the_stack_file() -> None:
    settings = {
        "activationMinutes": 9,
        "retrySeconds": 30,
        "partitionHealth": "HEALTHY",
        "image": "example/controller:1.0.0",
    }
    config = changed(lab_config(), {"tpuserve:queueing.sliceController": settings})
    manager = _manager(record(config))
    assert manager["args"] == [
        "--leader-elect",
        "--health-probe-bind-address=:8081",
        "--activation-timeout=9m",
        "--retry-delay-on-slice-failure=30s",
        "--default-slice-health-node-affinity=HEALTHY",
        "--feature-gates=UseRetryMechanismForSliceCreation=true",
    ]
    assert manager["image"] == "example/controller:1.0.0"


def test_it_may_watch_admission_checks(graph: Graph) -> None:
    """A published manifest leaves it out: the check then never becomes Active."""
    rules = graph.one("ClusterRole", "slice-controller-role").inputs["rules"]
    (found,) = [each for each in rules if each["resources"] == ["admissionchecks"]]
    assert {"list", "watch"} <= set(found["verbs"])


def test_it_reads_secrets_of_its_own_namespace_alone(graph: Graph) -> None:
    everywhere = graph.one("ClusterRole", "slice-controller-role").inputs["rules"]
    assert [each for each in everywhere if "secrets" in each["resources"]] == []
    here = graph.one("Role", "slice-controller-local-role").inputs
    assert here["metadata"]["namespace"] == "slice-controller-system"
    assert [each for each in here["rules"] if "secrets" in each["resources"]]


def test_it_changes_no_other_webhook_and_no_workload(graph: Graph) -> None:
    rules = graph.one("ClusterRole", "slice-controller-role").inputs["rules"]
    writes = {"create", "update", "patch", "delete"}
    webhooks = [
        each
        for each in rules
        if each["resources"] == ["mutatingwebhookconfigurations"] and writes & set(each["verbs"])
    ]
    assert [each["resourceNames"] for each in webhooks] == [
        ["slice-controller-mutating-webhook-configuration"]
    ]
    written = {
        resource
        for group, resources, verbs in CLUSTER_RULES
        for resource in resources
        if writes & set(verbs) and group not in ("kueue.x-k8s.io", "accelerator.gke.io")
    }
    assert written == {"events"}
    assert not [each for each in rules if "*" in each["verbs"] or "*" in each["resources"]]


def test_its_certificate_is_its_own_affair(graph: Graph) -> None:
    secret = graph.one("Secret", "slice-controller-certificate")
    assert "data" not in secret.inputs
    assert secret.ignore_changes == ("data", "stringData")
    webhooks = graph.one("MutatingWebhookConfiguration")
    assert webhooks.ignore_changes == tuple(
        f"webhooks[{index}].clientConfig.caBundle" for index in range(3)
    )


class TestWebhook:
    """While it is down only queued objects wait for it; the cluster's own never do."""

    def hooks(self, graph: Graph) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = graph.one("MutatingWebhookConfiguration").inputs["webhooks"]
        return found

    def test_it_sees_objects_with_a_queue_alone(self, graph: Graph) -> None:
        label = {"key": "kueue.x-k8s.io/queue-name", "operator": "Exists"}
        selectors = [each["objectSelector"]["matchExpressions"] for each in self.hooks(graph)]
        assert selectors == [[label]] * 3

    def test_it_stays_out_of_the_clusters_and_the_operators_namespaces(self, graph: Graph) -> None:
        left_out = {
            "kube-system",
            "kueue-system",
            "jobset-system",
            "lws-system",
            "slice-controller-system",
        }
        for each in self.hooks(graph):
            (expression,) = each["namespaceSelector"]["matchExpressions"]
            assert expression["operator"] == "NotIn"
            assert set(expression["values"]) == left_out

    def test_it_asks_when_objects_are_made_and_no_stateful_set(self, graph: Graph) -> None:
        rules = [rule for each in self.hooks(graph) for rule in each["rules"]]
        assert [(rule["resources"], rule["operations"]) for rule in rules] == [
            (["jobs"], ["CREATE"]),
            (["jobsets"], ["CREATE"]),
            (["leaderworkersets"], ["CREATE"]),
        ]


def test_it_starts_after_every_kind_it_watches(graph: Graph) -> None:
    manager = graph.one("Deployment", "slice-controller-manager")
    late = [each.name for each in graph.of("Release") if not graph.depends(manager, each)]
    assert late == []


def test_the_slice_kind_is_left_to_gke(graph: Graph) -> None:
    names = [each.inputs["metadata"]["name"] for each in graph.of("CustomResourceDefinition")]
    assert names
    assert [each for each in names if "accelerator.gke.io" in each] == []


def test_it_runs_beside_the_system_and_as_nobody(graph: Graph) -> None:
    deployment = graph.one("Deployment", "slice-controller-manager")
    pod = deployment.inputs["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"cloud.google.com/gke-nodepool": "system"}
    context = _manager(graph)["securityContext"]
    assert (context["runAsNonRoot"], context["readOnlyRootFilesystem"]) == (True, True)

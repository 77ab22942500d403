"""Replicas follow a gauge of vLLM, in the words of the cluster's version."""

import re
from typing import Any

import pytest

from catalog.vllm import AUTOSCALING_METRICS
from components.serving.autoscaler import quantity, scale_up_period
from tests.support.dev import OLDER_GKE, container, dev, pod
from tests.support.files import stack_config
from tests.support.recorder import Graph

APIS = [
    "v1beta1.custom.metrics.k8s.io",
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
]


def _scaler(graph: Graph) -> dict[str, Any]:
    return dict(graph.one("HorizontalPodAutoscaler").inputs["spec"])


def _metric(graph: Graph) -> tuple[str, str, str]:
    (metric,) = _scaler(graph)["metrics"]
    target = metric["pods"]["target"]
    return metric["pods"]["metric"]["name"], target["type"], target["averageValue"]


@pytest.mark.parametrize(
    ("intent", "name", "value"),
    [
        ("throughput", "autoscaling.gke.io|llama|num-requests-waiting", "10"),
        ("latency", "autoscaling.gke.io|llama|kv-cache-usage-perc", "700m"),
    ],
)
def test_the_metric_follows_from_the_intent(intent: str, name: str, value: str) -> None:
    assert _metric(dev(intent=intent)) == (name, "AverageValue", value)


def test_the_name_is_made_of_the_object_and_its_gauge() -> None:
    graph = dev()
    (exposed,) = graph.of("AutoscalingMetric")
    (pods,) = exposed.inputs["spec"]["metrics"]
    (read,) = pods["pod"]["containers"]
    (gauge,) = read["metrics"]
    name = exposed.inputs["metadata"]["name"]
    assert f"autoscaling.gke.io|{name}|{gauge['gauge']['name']}" == _metric(graph)[0]
    assert gauge["gauge"]["prometheusMetricName"] in AUTOSCALING_METRICS
    assert read["endpoint"] == {"port": 8000, "path": "/metrics"}
    labels = graph.one("Deployment").inputs["spec"]["template"]["metadata"]["labels"]
    selector = pods["pod"]["selector"]["matchLabels"]
    assert selector.items() <= labels.items()
    assert [each for each in selector if not re.fullmatch(r"[A-Za-z0-9_-]+", each)] == []


def test_the_cluster_has_the_profile_that_reads_pods() -> None:
    cluster = dev().one("Cluster", "tpuserve-test-cluster").inputs
    assert cluster["podAutoscaling"] == {"hpaProfile": "PERFORMANCE"}


def test_it_scales_one_at_a_time_and_comes_down_late() -> None:
    behaviour = _scaler(dev())["behavior"]
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] >= 600
    for way in ("scaleUp", "scaleDown"):
        assert [(each["type"], each["value"]) for each in behaviour[way]["policies"]] == [
            ("Pods", 1)
        ]


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B"])
def test_the_next_replica_waits_for_the_last_as_long_as_the_api_allows(model: str) -> None:
    graph = dev(model=model)
    (policy,) = _scaler(graph)["behavior"]["scaleUp"]["policies"]
    start = graph.one("Deployment").inputs["spec"]["progressDeadlineSeconds"]
    probe = container(graph.one("Deployment"), "vllm")["startupProbe"]
    assert start > probe["periodSeconds"] * probe["failureThreshold"]
    assert policy["periodSeconds"] == min(start, 1800)


@pytest.mark.parametrize(("start", "period"), [(240, 240), (1799, 1799), (1801, 1800)])
def test_a_quick_start_is_waited_for_no_longer_than_it_takes(start: int, period: int) -> None:
    assert scale_up_period(start) == period


def test_its_bounds_are_those_of_the_stack_file_and_of_the_pool() -> None:
    graph = dev()
    assert (_scaler(graph)["minReplicas"], _scaler(graph)["maxReplicas"]) == (1, 2)
    pool = graph.one("NodePool", "trillium-pool").inputs["autoscaling"]
    assert _scaler(graph)["maxReplicas"] <= pool["maxNodeCount"]


def test_a_fixed_count_has_no_autoscaler() -> None:
    graph = dev(replicas={"min": 2, "max": 2})
    assert [*graph.of("HorizontalPodAutoscaler"), *graph.of("AutoscalingMetric")] == []
    assert graph.one("Deployment").inputs["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("target", "text"), [(10, "10"), (10.0, "10"), (0.7, "700m"), (2.5, "2500m"), (0.85, "850m")]
)
def test_a_target_is_a_quantity(target: float, text: str) -> None:
    assert quantity(target) == text


class TestAdapter:
    """Clusters that do not read pods themselves get Google's adapter."""

    @pytest.fixture
    def graph(self) -> Graph:
        return dev(OLDER_GKE)

    def test_the_name_has_google_and_the_kind_around_it(self, graph: Graph) -> None:
        name = "prometheus.googleapis.com|vllm:num_requests_waiting|gauge"
        assert _metric(graph)[0] == name
        assert graph.of("AutoscalingMetric") == []

    def test_on_another_channel_too(self) -> None:
        graph = dev({"tpuserve:cluster.channel": "REGULAR"})
        assert len(graph.of("APIService")) == len(APIS)

    def test_as_shipped_there_is_none(self) -> None:
        assert dev().of("APIService") == []

    def test_the_right_to_read_comes_first_and_the_api_last(self, graph: Graph) -> None:
        adapter = graph.one("Deployment", "metrics-adapter-server")
        viewer = graph.one("IAMMember", "metrics-adapter-viewer")
        assert viewer.inputs["role"] == "roles/monitoring.viewer"
        assert viewer.inputs["member"].endswith(
            "/subject/ns/custom-metrics/sa/custom-metrics-stackdriver-adapter"
        )
        assert graph.depends(adapter, viewer)
        assert graph.depends(adapter, graph.one("NodePool", "tpuserve-test-system"))
        services = graph.of("APIService")
        assert sorted(each.inputs["metadata"]["name"] for each in services) == sorted(APIS)
        assert [each.name for each in services if not graph.depends(each, adapter)] == []
        scaler = graph.one("HorizontalPodAutoscaler")
        assert [each.name for each in services if not graph.depends(scaler, each)] == []

    def test_it_has_memory_and_a_version(self, graph: Graph) -> None:
        adapter = container(graph.one("Deployment", "metrics-adapter-server"), "adapter")
        assert adapter["resources"]["requests"]["memory"] == "512Mi"
        assert adapter["image"].endswith(":v0.16.11-gke.0")
        assert "--use-new-resource-model=true" in adapter["command"]

    def test_it_stays_off_tpu_nodes(self, graph: Graph) -> None:
        spec = pod(graph.one("Deployment", "metrics-adapter-server"))
        assert "tolerations" not in spec

    def test_its_roles_are_those_it_needs(self, graph: Graph) -> None:
        bound = {
            each.inputs["metadata"]["name"]: each.inputs["roleRef"]["name"]
            for each in [*graph.of("ClusterRoleBinding"), *graph.of("RoleBinding")]
        }
        assert bound == {
            "custom-metrics:system:auth-delegator": "system:auth-delegator",
            "custom-metrics-resource-reader": "custom-metrics-resource-reader",
            "external-metrics-reader": "external-metrics-reader",
            "custom-metrics-auth-reader": "extension-apiserver-authentication-reader",
        }

    def test_more_metrics_than_the_cluster_hands_over_go_through_it(self) -> None:
        """GKE exposes 20 to autoscalers."""

        def scaled(models: int) -> Graph:
            llama = stack_config("dev")["tpuserve:serving"]["llama"]
            return dev(
                {
                    "tpuserve:tpuPools.trillium.slices.max": 2 * models,
                    "tpuserve:serving": {f"llama-{index}": llama for index in range(models)},
                }
            )

        assert len(scaled(20).of("AutoscalingMetric")) == 20
        assert (scaled(20).of("APIService"), scaled(21).of("AutoscalingMetric")) == ([], [])
        assert len(scaled(21).of("APIService")) == len(APIS)

    def test_there_is_one_for_all_models(self) -> None:
        qwen = {
            "mode": "singleHost",
            "pool": "trillium",
            "model": "Qwen/Qwen3-32B",
            "revision": "0" * 40,
            "replicas": {"min": 1, "max": 2},
        }
        changes = {"tpuserve:tpuPools.trillium.slices.max": 4, "tpuserve:serving.qwen": qwen}
        graph = dev(OLDER_GKE, changes)
        assert len(graph.of("HorizontalPodAutoscaler")) == 2
        assert len(graph.of("APIService")) == len(APIS)

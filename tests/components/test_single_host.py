"""vLLM on one host: what it is started with, how it starts and ends, who reaches it."""

from ipaddress import IPv4Network
from typing import Any

import pytest

from catalog.autopilot import MOST_DISK_GIB
from catalog.serving import METRICS, PORT
from catalog.vllm import environment_error, flag_error, metric_error
from components.network import SERVING_PORTS
from ops.verify.endpoints import endpoints_of
from tests.support.dev import AUTOPILOT, INTERNAL, PUBLIC, container, dev, pod
from tests.support.recorder import Graph, Registered

VARIANTS: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "mounted": {"loader": "fuse"},
    "half the cache": {"kvDtype": "fp8", "utilization": 0.85, "maxNumSeqs": 32},
}


def _server(graph: Graph) -> Registered:
    return graph.one("Deployment", "llama-server")


def _gib(quantity: str) -> int:
    return int(quantity.removesuffix("Gi"))


def _vllm(graph: Graph) -> dict[str, Any]:
    return container(_server(graph), "vllm")


def _environment(graph: Graph) -> dict[str, str]:
    return {each["name"]: each["value"] for each in _vllm(graph)["env"]}


class TestEngine:
    """What vLLM is told exists in the release that is pinned."""

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_every_flag_exists(self, variant: str) -> None:
        arguments = _vllm(dev(**VARIANTS[variant]))["args"]
        assert arguments[0] == "serve"
        assert [error for each in arguments[2:] if (error := flag_error(each))] == []

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_every_environment_name_exists(self, variant: str) -> None:
        names = _environment(dev(**VARIANTS[variant]))
        assert [error for each in names if (error := environment_error(each))] == []

    def test_the_metrics_to_scale_on_exist(self) -> None:
        assert [error for each in METRICS.values() if (error := metric_error(each))] == []

    def test_the_model_has_its_hub_name_and_not_that_of_a_folder(self) -> None:
        arguments = _vllm(dev())["args"]
        assert arguments[1].startswith("gs://my-project-tpuserve-test-weights/models/")
        assert "--served-model-name=meta-llama/Llama-3.1-70B-Instruct" in arguments

    def test_the_tutorials_settings_are_kept(self) -> None:
        arguments = _vllm(dev(maxNumSeqs=79))["args"]
        wanted = {
            "--tensor-parallel-size=8",
            "--max-model-len=4096",
            "--max-num-batched-tokens=512",
            "--max-num-seqs=79",
            "--host=0.0.0.0",
            "--port=8000",
        }
        assert wanted - set(arguments) == set()

    def test_the_engine_may_take_as_long_as_the_probes_allow(self) -> None:
        assert int(_environment(dev())["VLLM_ENGINE_READY_TIMEOUT_S"]) == 2612


class TestLife:
    """A server that loads for half an hour is neither ready too soon nor killed."""

    def test_ready_means_that_the_model_is_listed(self) -> None:
        server = _vllm(dev())
        for probe in ("startupProbe", "readinessProbe"):
            assert server[probe]["httpGet"] == {"path": "/v1/models", "port": "http"}
            assert "tcpSocket" not in server[probe]

    @pytest.mark.parametrize(
        ("model", "seconds"),
        [("meta-llama/Llama-3.1-8B-Instruct", 1800), ("meta-llama/Llama-3.1-70B-Instruct", 2612)],
    )
    def test_the_startup_budget_follows_from_the_size(self, model: str, seconds: int) -> None:
        probe = _vllm(dev(model=model))["startupProbe"]
        assert 0 <= probe["periodSeconds"] * probe["failureThreshold"] - seconds < 10

    def test_the_deployment_waits_longer_than_the_probes(self) -> None:
        deployment = _server(dev()).inputs
        deadline = deployment["spec"]["progressDeadlineSeconds"]
        assert deadline == 2612 + 1800
        timeout = int(deployment["metadata"]["annotations"]["pulumi.com/timeoutSeconds"])
        assert timeout >= 2 * deadline

    def test_a_rollout_needs_no_spare_host(self) -> None:
        strategy = _server(dev()).inputs["spec"]["strategy"]
        assert strategy == {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        }

    def test_requests_end_before_the_server_does(self) -> None:
        graph = dev()
        leave = _vllm(graph)["lifecycle"]["preStop"]["sleep"]["seconds"]
        (finish,) = [a for a in _vllm(graph)["args"] if a.startswith("--shutdown-timeout=")]
        grace = pod(_server(graph))["terminationGracePeriodSeconds"]
        assert grace >= leave + int(finish.partition("=")[2]) + 15

    def test_a_drain_is_possible_and_takes_one_at_a_time(self) -> None:
        (budget,) = dev().of("PodDisruptionBudget")
        assert budget.inputs["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budget.inputs["spec"]

    def test_a_service_called_vllm_cannot_stop_it(self) -> None:
        assert pod(_server(dev()))["enableServiceLinks"] is False

    def test_the_service_is_not_waited_for(self) -> None:
        service = dev().one("Service", "llama-service").inputs
        assert service["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


class TestHost:
    """The pod takes a whole host of its pool, and no other."""

    def test_it_asks_for_all_chips_and_nearly_all_memory(self) -> None:
        resources = _vllm(dev())["resources"]
        assert resources["requests"]["google.com/tpu"] == "8"
        assert resources["limits"]["google.com/tpu"] == "8"
        assert resources["limits"]["memory"] == "1224Gi"
        assert resources["requests"]["cpu"] == "153"

    @pytest.mark.parametrize("loader", ["streamer", "fuse"])
    def test_its_disk_is_asked_for_and_fits_autopilot(self, loader: str) -> None:
        """A pod whose files outgrow what it asked for is evicted."""
        server = _server(dev(AUTOPILOT, loader=loader))
        spec = pod(server)
        asked = {
            each["name"]: {
                kind: _gib(each["resources"][kind]["ephemeral-storage"])
                for kind in ("requests", "limits")
            }
            for each in [*spec["initContainers"], *spec["containers"]]
        }
        assert [name for name, of in asked.items() if of["requests"] != of["limits"]] == []
        on_disk = sum(
            _gib(each["emptyDir"]["sizeLimit"])
            for each in spec["volumes"]
            if "emptyDir" in each and each["emptyDir"].get("medium") != "Memory"
        )
        assert asked["vllm"]["limits"] > on_disk > 0
        sidecar = server.inputs["spec"]["template"]["metadata"].get("annotations", {})
        beside = _gib(sidecar.get("gke-gcsfuse/ephemeral-storage-limit", "0Gi"))
        running = asked["vllm"]["requests"] + asked["publish"]["requests"] + beside
        assert max(running, asked["fetch"]["requests"] + beside) <= MOST_DISK_GIB

    def test_it_finds_its_own_pool(self) -> None:
        spec = pod(_server(dev()))
        assert spec["nodeSelector"] == {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "2x4",
            "cloud.google.com/gke-nodepool": "trillium",
            "cloud.google.com/gke-spot": "true",
        }
        assert {each["key"] for each in spec["tolerations"]} == {
            "google.com/tpu",
            "cloud.google.com/gke-spot",
        }

    @pytest.mark.parametrize(
        ("capacity", "labels"),
        [
            ({"kind": "on-demand"}, {}),
            ({"kind": "spot"}, {"cloud.google.com/gke-spot": "true"}),
            ({"kind": "flex-start"}, {"cloud.google.com/gke-flex-start": "true"}),
            (
                {"kind": "reservation", "name": "mine", "project": "another-project"},
                {
                    "cloud.google.com/reservation-affinity": "specific",
                    "cloud.google.com/reservation-name": "mine",
                    "cloud.google.com/reservation-project": "another-project",
                },
            ),
        ],
    )
    def test_in_autopilot_it_says_which_node_to_make(
        self, capacity: dict[str, str], labels: dict[str, str]
    ) -> None:
        graph = dev(AUTOPILOT, {"tpuserve:tpuPools.trillium.capacity": capacity})
        assert pod(_server(graph))["nodeSelector"] == {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "2x4",
            "topology.kubernetes.io/zone": "us-central1-b",
            **labels,
        }
        assert graph.of("NodePool") == []

    def test_it_gains_no_rights(self) -> None:
        graph = dev()
        context = _vllm(graph)["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in context
        assert pod(_server(graph))["automountServiceAccountToken"] is False
        assert pod(_server(graph))["serviceAccountName"] == "llama"

    def test_shared_memory_is_there_and_counted(self) -> None:
        (shm,) = [e for e in pod(_server(dev()))["volumes"] if e["name"] == "shared-memory"]
        assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}


class TestPrograms:
    """Compiled programs are written by one replica and read by the rest."""

    def test_replicas_share_no_folder(self) -> None:
        """What ended in `RuntimeError: filesystem error: cannot create directories`."""
        graph = dev()
        (mount,) = [m for m in _vllm(graph)["volumeMounts"] if m["mountPath"] == "/cache"]
        (volume,) = [v for v in pod(_server(graph))["volumes"] if v["name"] == mount["name"]]
        assert set(volume) == {"name", "emptyDir"}
        assert _environment(graph)["VLLM_XLA_CACHE_PATH"].startswith(f"{mount['mountPath']}/")

    def test_programs_are_fetched_before_and_published_beside_the_server(self) -> None:
        first, second = pod(_server(dev()))["initContainers"]
        assert (first["name"], "restartPolicy" in first) == ("fetch", False)
        assert (second["name"], second["restartPolicy"]) == ("publish", "Always")

    def test_another_image_model_or_flag_has_another_folder(self) -> None:
        graphs = [
            dev(),
            dev(image=f"docker.io/vllm/vllm-tpu:v0.32.0@sha256:{'1' * 64}"),
            dev(revision="0" * 40),
            dev(maxModelLen=2048),
        ]
        folders = [
            next(e["value"] for e in container(_server(g), "fetch")["env"] if e["name"] == "PREFIX")
            for g in graphs
        ]
        assert len(set(folders)) == len(graphs)
        assert [each for each in folders if not each.startswith("v6e-2x4/")] == []

    def test_an_autoscaler_begins_once_the_first_replica_serves(self) -> None:
        graph = dev()
        assert "replicas" not in _server(graph).inputs["spec"]
        assert graph.depends(graph.one("HorizontalPodAutoscaler"), _server(graph))


class TestMount:
    """Weights through Cloud Storage FUSE, where the streamer does not do."""

    def test_the_sidecar_has_limits(self) -> None:
        template = _server(dev(loader="fuse")).inputs["spec"]["template"]
        limits = template["metadata"]["annotations"]
        assert limits["gke-gcsfuse/volumes"] == "true"
        assert "0" not in limits.values()
        assert limits["gke-gcsfuse/memory-limit"] == "143Gi"  # 131.5 GiB of weights, cached

    def test_the_mount_is_read_only_and_of_one_revision(self) -> None:
        graph = dev(loader="fuse")
        (mount,) = [m for m in _vllm(graph)["volumeMounts"] if m["name"] == "weights"]
        assert mount == {"name": "weights", "mountPath": "/models", "readOnly": True}
        (volume,) = [v for v in pod(_server(graph))["volumes"] if v["name"] == "weights"]
        assert volume["csi"]["readOnly"] is True
        options = volume["csi"]["volumeAttributes"]["mountOptions"]
        assert "only-dir=models/meta-llama/Llama-3.1-70B-Instruct/1605565b" in options
        assert _vllm(graph)["args"][1] == "/models"

    def test_streamed_weights_need_no_sidecar(self) -> None:
        assert "annotations" not in _server(dev()).inputs["spec"]["template"]["metadata"]


class TestReach:
    """Nobody reaches the server unasked."""

    @staticmethod
    def _peers(graph: Graph) -> tuple[set[str], set[str]]:
        policy = graph.one("NetworkPolicy", "llama-callers").inputs["spec"]
        (rule,) = policy["ingress"]
        assert rule["ports"] == [{"port": PORT, "protocol": "TCP"}]
        key = "kubernetes.io/metadata.name"
        namespaces = {
            peer["namespaceSelector"]["matchLabels"][key]
            for peer in rule["from"]
            if "namespaceSelector" in peer
        }
        ranges = {peer["ipBlock"]["cidr"] for peer in rule["from"] if "ipBlock" in peer}
        return namespaces, ranges

    def test_a_namespace_is_closed_by_default(self) -> None:
        policies = [
            each.inputs
            for each in dev().of("NetworkPolicy")
            if each.inputs["metadata"]["name"] == "deny-all"
        ]
        assert {each["metadata"]["namespace"] for each in policies} == {"serving", "model-store"}
        for each in policies:
            assert each["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}

    def test_as_shipped_collectors_and_the_own_namespace_come_in(self) -> None:
        namespaces, ranges = self._peers(dev())
        assert namespaces == {"gmp-system", "gke-gmp-system", "kube-system"}
        assert ranges == set()
        service = dev().one("Service", "llama-service").inputs["spec"]
        assert service["type"] == "ClusterIP"
        assert dev().of("Gateway") == []

    def test_named_namespaces_come_in(self) -> None:
        graph = dev(exposure={"kind": "cluster", "clients": ["my-app"]})
        assert "my-app" in self._peers(graph)[0]

    def test_an_internal_load_balancer_comes_from_its_proxies(self) -> None:
        _, ranges = self._peers(dev(INTERNAL))
        assert ranges == {"172.16.0.0/23", "35.191.0.0/16", "130.211.0.0/22"}

    def test_a_public_one_from_googles_front_ends(self) -> None:
        _, ranges = self._peers(dev(PUBLIC))
        assert ranges == {"35.191.0.0/16", "130.211.0.0/22"}
        assert not any(IPv4Network(each).is_private for each in ranges)

    def test_the_firewall_opens_the_port_that_the_server_has(self) -> None:
        assert str(PORT) in SERVING_PORTS

    def test_the_internal_gateway_has_an_address_and_a_check_that_means_something(self) -> None:
        graph = dev(INTERNAL)
        gateway = graph.one("Gateway", "llama-gateway").inputs
        assert gateway["spec"]["gatewayClassName"] == "gke-l7-rilb"
        (address,) = graph.of("Address")
        assert address.inputs["addressType"] == "INTERNAL"
        assert gateway["spec"]["addresses"][0]["type"] == "NamedAddress"
        assert gateway["metadata"]["annotations"]["pulumi.com/waitFor"] == "condition=Programmed"
        health = graph.one("HealthCheckPolicy").inputs["spec"]["default"]
        assert health["config"]["httpHealthCheck"] == {"port": PORT, "requestPath": "/v1/models"}
        backend = graph.one("GCPBackendPolicy").inputs["spec"]["default"]
        assert backend["timeoutSec"] == 3600
        assert graph.stack_outputs["endpoints"]["llama"]["url"] == "http://10.0.0.9"

    def test_the_route_comes_last(self) -> None:
        graph = dev(INTERNAL)
        route = graph.one("HTTPRoute")
        for kind, name in [
            ("Gateway", "llama-gateway"),
            ("HealthCheckPolicy", "llama-health"),
            ("GCPBackendPolicy", "llama-backend"),
            ("Service", "llama-service"),
        ]:
            assert graph.depends(route, graph.one(kind, name)), name
        assert graph.depends(graph.one("Gateway", "llama-gateway"), graph.one(
            "Subnetwork", "tpuserve-test-proxies"))  # fmt: skip

    def test_the_internet_gets_tls_and_a_check_without_a_key(self) -> None:
        graph = dev(PUBLIC)
        gateway = graph.one("Gateway", "llama-gateway").inputs
        assert gateway["spec"]["gatewayClassName"] == "gke-l7-global-external-managed"
        (listener,) = gateway["spec"]["listeners"]
        assert (listener["protocol"], listener["port"]) == ("HTTPS", 443)
        assert listener["hostname"] == "llm.example.com"
        assert gateway["metadata"]["annotations"]["networking.gke.io/certmap"] == "my-map"
        health = graph.one("HealthCheckPolicy").inputs["spec"]["default"]
        assert health["config"]["httpHealthCheck"]["requestPath"] == "/health"
        assert graph.stack_outputs["endpoints"]["llama"]["url"] == "https://llm.example.com"

    def test_a_rate_limit_reaches_the_backend(self) -> None:
        limited = {"tpuserve:serving.llama.exposure.securityPolicy": "limit"}
        graph = dev(PUBLIC, limited)
        assert graph.one("GCPBackendPolicy").inputs["spec"]["default"]["securityPolicy"] == "limit"


def test_the_output_says_how_to_reach_it() -> None:
    found = dev().stack_outputs["endpoints"]["llama"]
    assert found == {
        "model": "meta-llama/Llama-3.1-70B-Instruct",
        "basePath": "/v1",
        "chat": True,
        "startupSeconds": 2612,
        "service": {"namespace": "serving", "name": "llama", "port": 8000},
        "reach": "kubectl -n serving port-forward service/llama 8000",
    }


def test_verify_understands_the_output() -> None:
    (endpoint,) = endpoints_of(dev().stack_outputs)
    assert endpoint.expects_chat is True
    assert endpoint.wait_seconds == 2612
    assert str(endpoint.service) == "serving/llama:8000"
    (behind,) = endpoints_of(dev(INTERNAL).stack_outputs)
    assert behind.url == "http://10.0.0.9"

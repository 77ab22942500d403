"""The operators: pinned charts, sized managers, definitions that follow, gates before use."""

import json
from typing import Any

import pytest
import yaml

from catalog import operator_sizes
from catalog.releases import RELEASE_SETS, definition
from tests.support.lab import lab_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed


@pytest.fixture(scope="module")
def graph() -> Graph:
    return record(lab_config())


@pytest.fixture(scope="module")
def codelab() -> Graph:
    releases = {"kueue": "0.17.4", "jobset": "0.11.1", "lws": "0.8.0"}
    return record(changed(lab_config(), {"tpuserve:queueing.releases": releases}))


def manager_config(graph: Graph) -> dict[str, Any]:
    values = graph.one("Release", "operators-kueue").inputs["values"]
    found: dict[str, Any] = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    return found


class TestCharts:
    """One tested set of versions, each chart once, from Kubernetes' own registry."""

    def test_the_default_is_the_newest_tested_set(self, graph: Graph) -> None:
        found = {each.inputs["name"]: each.inputs["version"] for each in graph.of("Release")}
        assert found == {"kueue": "0.18.6", "jobset": "0.12.0", "lws": "0.8.0"}

    def test_the_codelabs_set_can_be_chosen(self, codelab: Graph) -> None:
        found = {each.inputs["name"]: each.inputs["version"] for each in codelab.of("Release")}
        assert found == {"kueue": "0.17.4", "jobset": "0.11.1", "lws": "0.8.0"}

    def test_charts_have_full_addresses_and_namespaces_the_stack_owns(self, graph: Graph) -> None:
        owned = {each.inputs["metadata"]["name"] for each in graph.of("Namespace")}
        wrong = [
            each.name
            for each in graph.of("Release")
            if not each.inputs["chart"].startswith("oci://registry.k8s.io/")
            or each.inputs["namespace"] not in owned
            or each.inputs.get("createNamespace")
        ]
        assert graph.of("Release")
        assert wrong == []

    def test_a_failed_chart_is_cleaned_up_and_awaited(self, graph: Graph) -> None:
        for each in graph.of("Release"):
            assert each.inputs["cleanupOnFail"] is True
            assert "skipAwait" not in each.inputs
            assert each.inputs["timeout"] == 600


class TestKueue:
    """Its configuration is one text, replaced as a whole: nothing is left to the chart."""

    def test_it_is_complete_and_keeps_its_own_addresses(self, graph: Graph) -> None:
        config = manager_config(graph)
        assert (config["apiVersion"], config["kind"]) == (
            "config.kueue.x-k8s.io/v1beta2",
            "Configuration",
        )
        assert config["health"]["healthProbeBindAddress"] == ":8081"
        assert config["metrics"]["bindAddress"] == ":8443"
        assert config["webhook"]["port"] == 9443
        assert config["leaderElection"]["resourceName"] == "c1f6bfd2.kueue.x-k8s.io"

    def test_only_jobs_that_use_slices_are_seen(self, graph: Graph) -> None:
        assert manager_config(graph)["integrations"]["frameworks"] == [
            "batch/job",
            "jobset.x-k8s.io/jobset",
            "leaderworkerset.x-k8s.io/leaderworkerset",
        ]

    def test_its_webhooks_see_the_queues_namespaces_alone(self, graph: Graph) -> None:
        (only,) = manager_config(graph)["managedJobsNamespaceSelector"]["matchExpressions"]
        assert (only["key"], only["operator"], only["values"]) == (
            "kubernetes.io/metadata.name",
            "In",
            ["lab"],
        )

    def test_servers_have_hours_to_load_and_no_recovery_evicts_them(self, graph: Graph) -> None:
        ready = manager_config(graph)["waitForPodsReady"]
        assert ready["timeout"] == "300m"
        assert ready["blockAdmission"] is False
        assert "recoveryTimeout" not in ready

    @pytest.mark.parametrize(
        ("nodes", "cpus", "memory"), [(10, 2, 4096), (128, 2, 4096), (2310, 10, 73920)]
    )
    def test_it_grows_with_the_nodes_it_keeps_in_memory(
        self, nodes: int, cpus: int, memory: int
    ) -> None:
        size = operator_sizes.kueue(nodes)
        assert (size.cpus, size.memory_mib) == (cpus, memory)

    def test_the_size_reaches_the_chart(self) -> None:
        cubes = {
            "tpuserve:tpuPools.cubes.cubes": 144,
            "tpuserve:cluster.systemPool.machine": "e2-highmem-16",
        }
        values = record(changed(lab_config(), cubes)).one("Release", "operators-kueue").inputs
        manager = values["values"]["controllerManager"]["manager"]["resources"]
        assert manager["requests"] == {"cpu": "10", "memory": "73920Mi"}
        assert manager["limits"] == {"cpu": "20", "memory": "73920Mi"}

    def test_two_replicas_have_a_disruption_budget_and_one_has_none(self, graph: Graph) -> None:
        one = changed(lab_config(), {"tpuserve:cluster.systemPool.min": 1})
        counts = {}
        for label, found in (("two", graph), ("one", record(one))):
            manager = found.one("Release", "operators-kueue").inputs["values"]["controllerManager"]
            counts[label] = (manager["replicas"], manager["podDisruptionBudget"]["enabled"])
        assert counts == {"two": (2, True), "one": (1, False)}


def test_no_operator_runs_on_a_tpu_node(graph: Graph) -> None:
    def selectors(value: Any) -> list[Any]:
        if not isinstance(value, dict):
            return []
        found = [value["nodeSelector"]] if "nodeSelector" in value else []
        return found + [each for below in value.values() for each in selectors(below)]

    wrong = {
        each.name: selectors(each.inputs["values"])
        for each in graph.of("Release")
        if selectors(each.inputs["values"]) != [{"cloud.google.com/gke-nodepool": "system"}]
    }
    assert wrong == {}


class TestDefinitions:
    """Helm never upgrades what JobSet's and LWS's charts keep in crds/, so the program does."""

    def test_helm_leaves_them_alone(self, graph: Graph) -> None:
        found = {each.inputs["name"]: each.inputs.get("skipCrds") for each in graph.of("Release")}
        assert found == {"jobset": True, "lws": True, "kueue": False}

    def test_they_are_there_before_their_operators_start(self, graph: Graph) -> None:
        definitions = graph.of("CustomResourceDefinition")
        assert sorted(each.inputs["metadata"]["name"] for each in definitions) == [
            "jobsets.jobset.x-k8s.io",
            "leaderworkersets.leaderworkerset.x-k8s.io",
        ]
        late = [
            (release.name, each.name)
            for release in graph.of("Release")
            for each in definitions
            if not graph.depends(release, each)
        ]
        assert late == []

    def test_another_version_is_an_update_in_place(self, graph: Graph, codelab: Graph) -> None:
        name = "operators-jobsets.jobset.x-k8s.io"
        new, old = (each.one("CustomResourceDefinition", name) for each in (graph, codelab))
        assert new.urn == old.urn
        actions = [
            each.inputs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
                "properties"
            ]["failurePolicy"]["properties"]["rules"]["items"]["properties"]["action"]["enum"]
            for each in (new, old)
        ]
        assert set(actions[0]) - set(actions[1]) == {"RestartJob", "RestartJobAndIgnoreMaxRestarts"}

    def test_every_tested_version_has_its_definition(self) -> None:
        for each in RELEASE_SETS:
            jobs = definition("jobsets.jobset.x-k8s.io", each.jobset)
            groups = definition("leaderworkersets.leaderworkerset.x-k8s.io", each.lws)
            assert jobs["names"]["kind"] == "JobSet"
            assert groups["versions"][0]["subresources"]["scale"]

    def test_they_hold_no_prose(self) -> None:
        for each in RELEASE_SETS:
            text = json.dumps(definition("jobsets.jobset.x-k8s.io", each.jobset))
            assert len(text) < 100_000

    def test_the_provider_gets_its_own_spelling(self, graph: Graph) -> None:
        text = json.dumps([each.inputs for each in graph.of("CustomResourceDefinition")])
        assert "x_kubernetes_list_type" in text
        assert "x-kubernetes-" not in text


class TestGates:
    """An object of each operator is sent until its webhook takes it; the rest waits for that."""

    GATES = ("operators-kueue-gate", "operators-jobset-gate", "operators-lws-gate")

    def gates(self, graph: Graph) -> dict[str, Any]:
        return {each.name: each for each in graph.resources if each.name in self.GATES}

    def test_each_follows_its_release(self, graph: Graph) -> None:
        for key, kind in (("kueue", "ResourceFlavor"), ("jobset", "JobSet"),
                          ("lws", "LeaderWorkerSet")):  # fmt: skip
            gate = graph.one(kind, f"operators-{key}-gate")
            assert graph.depends(gate, graph.one("Release", f"operators-{key}"))

    def test_they_ask_for_nothing(self, graph: Graph) -> None:
        gates = self.gates(graph)
        assert gates["operators-jobset-gate"].inputs["spec"]["suspend"] is True
        assert "replicatedJobs" not in gates["operators-jobset-gate"].inputs["spec"]
        assert gates["operators-lws-gate"].inputs["spec"]["replicas"] == 0
        assert "spec" not in gates["operators-kueue-gate"].inputs

    def test_they_ask_again_after_another_version_or_other_values(
        self, graph: Graph, codelab: Graph
    ) -> None:
        def marks(found: Graph) -> dict[str, str]:
            return {
                name: gate.inputs["metadata"]["annotations"]["tpuserve/release"]
                for name, gate in self.gates(found).items()
            }

        larger = record(changed(lab_config(), {"tpuserve:queueing.podsReadyMinutes": 60}))
        same = record(lab_config())
        assert marks(graph) == marks(same)
        assert [name for name in self.GATES if marks(graph)[name] != marks(codelab)[name]] == [
            "operators-kueue-gate",
            "operators-jobset-gate",
        ]
        assert [name for name in self.GATES if marks(graph)[name] != marks(larger)[name]] == [
            "operators-kueue-gate"
        ]

    def test_workloads_wait_for_every_gate_and_queues_for_kueues(self, graph: Graph) -> None:
        gates = self.gates(graph)
        jobs = [each for each in graph.of("JobSet") if each.name.startswith("smoke-")]
        assert len(jobs) == 2
        early = [
            (job.name, name)
            for job in jobs
            for name, gate in gates.items()
            if not graph.depends(job, gate)
        ]
        assert early == []
        topology = graph.one("Topology")
        waits = [name for name, gate in gates.items() if graph.depends(topology, gate)]
        assert waits == ["operators-kueue-gate"]


class TestOrder:
    """Operators and queues are ready while TPU pools are still being made."""

    def test_nothing_in_the_cluster_but_workloads_waits_for_tpu_pools(self, graph: Graph) -> None:
        pools = [each for each in graph.of("NodePool") if each.name.startswith("cubes-")]
        assert len(pools) == 2
        waiting = {
            each.name
            for each in graph.resources
            if each.type.startswith("kubernetes:")
            and any(graph.depends(each, pool) for pool in pools)
        }
        assert waiting == {"smoke-sub-slices-jobset", "smoke-super-slice-jobset"}

    def test_operators_wait_for_the_system_pool_and_not_for_each_other(self, graph: Graph) -> None:
        system = graph.one("NodePool", "tpuserve-test-system")
        releases = graph.of("Release")
        assert [each.name for each in releases if not graph.depends(each, system)] == []
        assert [
            (one.name, other.name)
            for one in releases
            for other in releases
            if one is not other and graph.depends(one, other)
        ] == []

    def test_nothing_in_the_cluster_is_forgotten_with_it(self, graph: Graph) -> None:
        kept = [
            each.name
            for each in graph.resources
            if each.deleted_with and each.type.startswith("kubernetes:")
        ]
        assert kept == []

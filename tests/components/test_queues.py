"""Queues: the levels that are needed, the chips that exist, the order things are replaced in."""

import itertools
from typing import Any, ClassVar

import pytest

from components.queues import Queues, QueuesArgs, Share
from config.tpu_pools import cube
from tests.support.lab import lab_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed

TEAMS = {
    "tpuserve:queueing.namespaces": [],
    "tpuserve:queueing.cohort": "tpus",
    "tpuserve:queueing.teams": {
        "serving": {"namespaces": ["lab"], "chips": 96},
        "research": {"namespaces": ["papers", "theses"], "chips": 32},
    },
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return record(lab_config())


@pytest.fixture(scope="module")
def teams() -> Graph:
    return record(changed(lab_config(), TEAMS))


def _quotas(graph: Graph, name: str) -> dict[str, dict[str, Any]]:
    spec = graph.one("ClusterQueue", name).inputs["spec"]
    (group,) = spec["resourceGroups"]
    assert group["coveredResources"] == ["google.com/tpu", "cpu", "memory"]
    return {
        flavor["name"].partition("-")[0]: {
            each["name"]: each["nominalQuota"] for each in flavor["resources"]
        }
        for flavor in group["flavors"]
    }


def _slices(graph: Graph) -> str:
    name: str = graph.one("Topology").inputs["metadata"]["name"]
    return name


class TestTopology:
    def test_it_has_the_levels_of_the_shapes_and_no_other(self) -> None:
        shapes = {"tpuserve:queueing.shapes": ["4x4x8", "2x2x2"]}
        topology = record(changed(lab_config(), shapes)).one("Topology")
        assert [each["nodeLabel"] for each in topology.inputs["spec"]["levels"]] == [
            "cloud.google.com/gce-topology-block",
            "cloud.google.com/gke-tpu-partition-4x4x4-id",
            "cloud.google.com/gke-tpu-partition-2x2x2-id",
            "kubernetes.io/hostname",
        ]


class TestQuota:
    """What exists: the codelab promises 999999 chips."""

    def test_one_queue_has_all_chips_and_the_whole_of_their_hosts(self, graph: Graph) -> None:
        quotas = _quotas(graph, "queues-tpu-queue")
        # 32 hosts of 224 vCPUs and 960 GiB.
        assert quotas["slices"] == {"google.com/tpu": "128", "cpu": "7168", "memory": "30Ti"}
        assert quotas["cpu"] == {"google.com/tpu": "0", "cpu": "16", "memory": "64Gi"}

    def test_it_follows_the_cubes(self) -> None:
        config = changed(lab_config(), {"tpuserve:tpuPools.cubes.cubes": 3})
        assert _quotas(record(config), "queues-tpu-queue")["slices"]["google.com/tpu"] == "192"

    def test_teams_have_their_shares_and_lend_through_a_cohort(self, teams: Graph) -> None:
        shares = {
            key: _quotas(teams, f"queues-{key}-queue")["slices"]["google.com/tpu"]
            for key in ("serving", "research")
        }
        assert shares == {"serving": "96", "research": "32"}
        cohorts = {each.inputs["spec"]["cohortName"] for each in teams.of("ClusterQueue")}
        assert cohorts == {"tpus"}

    def test_jobs_without_tpus_draw_on_the_cohort_once(self, teams: Graph) -> None:
        (group,) = teams.one("Cohort").inputs["spec"]["resourceGroups"]
        cpu = group["flavors"][1]["resources"]
        assert {each["name"]: each["nominalQuota"] for each in cpu} == {
            "google.com/tpu": "0",
            "cpu": "16",
            "memory": "64Gi",
        }
        own = _quotas(teams, "queues-research-queue")["cpu"]
        assert own == {"google.com/tpu": "0", "cpu": "0", "memory": "0"}

    def test_shares_without_a_cohort_are_refused_before_anything_is_made(self) -> None:
        args = QueuesArgs(
            queue="tpu",
            shares={key: Share(namespaces=[key], chips=64) for key in ("first", "second")},
            cohort=None,
            shapes=["2x2x2"],
            cube=cube(),
            cpu="1",
            memory="1Gi",
            priorities={"low": 1},
            stop="None",
            kueue=[],
            slice_controller=None,  # type: ignore[arg-type]
            after=[],
        )
        with pytest.raises(ValueError, match="use one flavour without a cohort"):
            Queues("queues", args)


class TestFlavours:
    def test_slices_have_a_topology_and_keep_other_jobs_away(self, graph: Graph) -> None:
        spec = graph.one("ResourceFlavor", "queues-slices-flavor").inputs["spec"]
        assert spec == {
            "nodeLabels": {"cloud.google.com/gke-tpu-accelerator": "tpu7x"},
            "nodeTaints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}],
            "topologyName": _slices(graph),
        }

    def test_jobs_without_tpus_go_to_the_system_pool(self, graph: Graph) -> None:
        spec = graph.one("ResourceFlavor", "queues-cpu-flavor").inputs["spec"]
        assert spec == {"nodeLabels": {"cloud.google.com/gke-nodepool": "system"}}

    def test_the_check_is_asked_for_slices_alone(self, graph: Graph) -> None:
        """With no `onFlavors` a job without TPUs waits for ever with an empty message."""
        spec = graph.one("ClusterQueue").inputs["spec"]
        assert spec["admissionChecksStrategy"] == {
            "admissionChecks": [{"name": "slices", "onFlavors": [_slices(graph)]}]
        }
        check = graph.one("AdmissionCheck").inputs["spec"]
        assert check == {"controllerName": "accelerator.gke.io/slice"}


class TestPriorities:
    def test_there_are_three_classes(self, graph: Graph) -> None:
        values = {
            each.inputs["metadata"]["name"]: each.inputs["value"]
            for each in graph.of("WorkloadPriorityClass")
        }
        assert values == {"low": 1000, "medium": 2000, "high": 3000}

    def test_a_lower_priority_is_pushed_out_and_servers_never_by_reclaiming(
        self, graph: Graph, teams: Graph
    ) -> None:
        alone = graph.one("ClusterQueue").inputs["spec"]["preemption"]
        assert alone == {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Never"}
        for each in teams.of("ClusterQueue"):
            assert each.inputs["spec"]["preemption"]["reclaimWithinCohort"] == "LowerPriority"


class TestNamespaces:
    def test_each_has_a_queue_of_the_same_name(self, teams: Graph) -> None:
        leads = {
            each.inputs["metadata"]["namespace"]: (
                each.inputs["metadata"]["name"],
                each.inputs["spec"]["clusterQueue"],
            )
            for each in teams.of("LocalQueue")
        }
        assert leads == {
            "lab": ("tpu", "serving"),
            "papers": ("tpu", "research"),
            "theses": ("tpu", "research"),
        }

    def test_they_go_before_the_operators(self, teams: Graph) -> None:
        """Jobs in them have finalizers that only a running Kueue and slice controller remove."""
        later = [
            *(teams.one("Release", f"operators-{key}") for key in ("kueue", "jobset", "lws")),
            teams.one("Deployment", "slice-controller-manager"),
        ]
        early = [
            (each.name, other.name)
            for each in teams.of("Namespace")
            if each.name.startswith("queues-")
            for other in later
            if not teams.depends(each, other)
        ]
        assert early == []

    def test_a_cluster_queue_takes_its_own_namespaces_only(self, teams: Graph) -> None:
        selector = teams.one("ClusterQueue", "queues-research-queue").inputs["spec"][
            "namespaceSelector"
        ]
        assert selector["matchExpressions"][0]["values"] == ["papers", "theses"]


class TestWaiting:
    def test_check_and_queues_are_waited_for_with_a_limit(self, graph: Graph) -> None:
        wrong = [
            each.name
            for kind in ("AdmissionCheck", "ClusterQueue", "LocalQueue")
            for each in graph.of(kind)
            if each.inputs["metadata"].get("annotations")
            != {"pulumi.com/waitFor": "condition=Active", "pulumi.com/timeoutSeconds": "300"}
        ]
        assert graph.of("ClusterQueue")
        assert wrong == []

    def test_a_queue_on_hold_is_not_waited_for(self) -> None:
        stopped = {"tpuserve:queueing.stop": "HoldAndDrain", "tpuserve:queueing.smoke": None}
        config = changed(lab_config(), stopped)
        queue = record(config).one("ClusterQueue").inputs
        assert queue["spec"]["stopPolicy"] == "HoldAndDrain"
        assert "annotations" not in queue["metadata"]


class TestReplacement:
    """Kueue changes no level, no flavour's labels and no queue of a queue; what is in use stays."""

    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {
        "AdmissionCheck": ("spec.controllerName",),
        "LocalQueue": ("spec.clusterQueue",),
    }

    def test_fixed_fields_replace_and_the_old_object_goes_first(self, graph: Graph) -> None:
        for kind, fields in self.FIXED.items():
            for each in graph.of(kind):
                assert (each.replace_on_changes, each.delete_before_replace) == (fields, True)

    def test_other_levels_are_another_topology_and_another_flavour(self, graph: Graph) -> None:
        fewer = {"tpuserve:queueing.shapes": ["2x2x2", "4x4x8"]}
        other = record(changed(lab_config(), fewer))
        assert _slices(graph) != _slices(other)
        for found in (graph, other):
            flavor = found.one("ResourceFlavor", "queues-slices-flavor")
            assert flavor.inputs["metadata"]["name"] == _slices(found)
            assert not flavor.delete_before_replace
            assert not found.one("Topology").delete_before_replace

    def test_the_order_of_shapes_is_no_matter(self, graph: Graph) -> None:
        shapes = lab_config()["tpuserve:queueing"]["shapes"][::-1]
        other = record(changed(lab_config(), {"tpuserve:queueing.shapes": shapes}))
        assert _slices(graph) == _slices(other)

    def test_each_names_the_next_by_its_output(self, graph: Graph) -> None:
        chain = ["LocalQueue", "ClusterQueue", "ResourceFlavor", "Topology"]
        names = {"ResourceFlavor": "queues-slices-flavor"}
        found = [graph.one(kind, names.get(kind)) for kind in chain]
        for user, used in itertools.pairwise(found):
            assert used.urn in user.dependencies

    def test_only_current_field_names_are_used(self, graph: Graph, teams: Graph) -> None:
        old = [
            (each.name, field)
            for found in (graph, teams)
            for each in found.of("ClusterQueue")
            for field in ("cohort", "admissionChecks")
            if field in each.inputs["spec"]
        ]
        assert old == []
        versions = {
            each.type.split(":")[1]
            for each in graph.resources
            if each.type.startswith("kubernetes:kueue.x-k8s.io/")
        }
        assert versions == {"kueue.x-k8s.io/v1beta2"}

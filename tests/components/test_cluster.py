"""The cluster: upkeep computed from what the stack says, access that asks IAM, two locks."""

import json
from typing import Any

import pytest

from tests.support.files import stack_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed


def _cluster(base: str, changes: dict[str, Any]) -> dict[str, Any]:
    graph = record(changed(stack_config(base), changes))
    return graph.one("Cluster", "tpuserve-test-cluster").inputs


class TestMaintenance:
    """A window and exclusions are computed; none is a literal date of the program."""

    def test_an_exclusion_of_some_days_ends_when_they_are_over(self) -> None:
        inputs = _cluster(
            "dev",
            {
                "tpuserve:cluster.maintenance": {
                    "exclusions": {
                        "launch": {"scope": "NO_UPGRADES", "from": "2126-12-01", "days": 31}
                    }
                }
            },
        )
        (exclusion,) = inputs["maintenancePolicy"]["maintenanceExclusions"]
        assert exclusion == {
            "exclusionName": "launch",
            "startTime": "2126-12-01T00:00:00Z",
            "endTime": "2127-01-01T00:00:00Z",
            "exclusionOptions": {"scope": "NO_UPGRADES"},
        }

    def test_an_exclusion_without_days_lasts_until_end_of_support(self) -> None:
        inputs = _cluster("prod", {})
        (exclusion,) = inputs["maintenancePolicy"]["maintenanceExclusions"]
        assert "endTime" not in exclusion
        assert exclusion["exclusionOptions"] == {
            "scope": "NO_MINOR_OR_NODE_UPGRADES",
            "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
        }

    def test_a_window_past_midnight_ends_on_the_next_day(self) -> None:
        window = {"window": {"start": "22:00", "hours": 8, "days": ["SU"]}}
        inputs = _cluster("dev", {"tpuserve:cluster.maintenance": window})
        assert inputs["maintenancePolicy"]["recurringWindow"] == {
            "startTime": "2024-01-01T22:00:00Z",
            "endTime": "2024-01-02T06:00:00Z",
            "recurrence": "FREQ=WEEKLY;BYDAY=SU",
        }


class TestAccess:
    """Addresses of the control plane are off unless somebody is authorised by name."""

    def test_without_authorised_networks_only_the_dns_endpoint_answers(self) -> None:
        inputs = _cluster("dev", {})
        assert inputs["controlPlaneEndpointsConfig"]["ipEndpointsConfig"] == {"enabled": False}
        assert "masterAuthorizedNetworksConfig" not in inputs

    def test_authorised_networks_open_the_addresses_to_themselves_alone(self) -> None:
        networks = {"authorizedNetworks": {"office": "203.0.113.0/24"}}
        inputs = _cluster("dev", {"tpuserve:cluster.access": networks})
        assert inputs["controlPlaneEndpointsConfig"]["ipEndpointsConfig"] == {"enabled": True}
        assert inputs["masterAuthorizedNetworksConfig"] == {
            "gcpPublicCidrsAccessEnabled": False,
            "cidrBlocks": [{"displayName": "office", "cidrBlock": "203.0.113.0/24"}],
        }

    def test_the_kubernetes_provider_holds_no_credential(self) -> None:
        provider = _provider(record(stack_config("dev")))
        kubeconfig = json.loads(provider["kubeconfig"])
        assert [each["user"].keys() for each in kubeconfig["users"]] == [{"exec"}]
        assert kubeconfig["clusters"][0]["cluster"]["server"].startswith("https://gke-")

    def test_the_kubernetes_provider_is_known_by_its_cluster(self) -> None:
        provider = _provider(record(stack_config("dev")))
        assert provider["clusterIdentifier"] == "tpuserve-test-cluster-id"


class TestNodes:
    """Nodes run as the stack's own account from the first minute."""

    @pytest.mark.parametrize("base", ["bare-dev", "bare-prod"])
    def test_the_nodes_a_cluster_starts_with_are_no_strangers(self, base: str) -> None:
        graph = record(stack_config(base))
        cluster = graph.one("Cluster", "tpuserve-test-cluster")
        system = graph.one("NodePool", "tpuserve-test-system")
        first = cluster.inputs["nodeConfig"]
        assert first["serviceAccount"] == system.inputs["nodeConfig"]["serviceAccount"]
        assert first["shieldedInstanceConfig"] == {
            "enableSecureBoot": True,
            "enableIntegrityMonitoring": True,
        }
        assert "nodeConfig" in cluster.ignore_changes

    def test_a_cluster_waits_for_the_roles_of_its_nodes(self) -> None:
        graph = record(stack_config("bare-dev"))
        cluster = graph.one("Cluster", "tpuserve-test-cluster")
        roles = [each for each in graph.of("IAMMember") if "-nodes-" in each.name]
        assert len(roles) == 2
        assert [each.name for each in roles if not graph.depends(cluster, each)] == []

    @pytest.mark.parametrize(
        ("machine", "disk"),
        [("e2-standard-8", "pd-balanced"), ("n4-standard-8", "hyperdisk-balanced")],
    )
    def test_the_boot_disk_fits_the_family(self, machine: str, disk: str) -> None:
        config = changed(stack_config("bare-dev"), {"tpuserve:cluster.systemPool.machine": machine})
        node = record(config).one("NodePool", "tpuserve-test-system").inputs["nodeConfig"]
        assert (node["machineType"], node["diskType"]) == (machine, disk)


class TestExtra:
    """Arguments of a stack lie over the program's own, leaf by leaf."""

    def test_another_add_on_stands_beside_the_programs(self) -> None:
        extra = {
            "addons_config": {"gke_backup_agent_config": {"enabled": True}},
            "monitoring_config": {"enable_components": ["SYSTEM_COMPONENTS", "APISERVER"]},
        }
        plain = _cluster("bare-dev", {})
        laid = _cluster("bare-dev", {"tpuserve:cluster.extra": extra})
        added = {"gkeBackupAgentConfig": {"enabled": True}}
        assert laid["addonsConfig"] == {**plain["addonsConfig"], **added}
        assert laid["monitoringConfig"] == {
            "enableComponents": ["SYSTEM_COMPONENTS", "APISERVER"],
            "managedPrometheus": {"enabled": True},
        }


class TestLocks:
    """`protect: true` turns on both locks; `false` leaves neither."""

    @pytest.mark.parametrize("protect", [True, False])
    def test_both_locks_follow_one_word(self, protect: bool) -> None:
        graph = record(changed(stack_config("prod"), {"tpuserve:protect": protect}))
        guarded = [
            each
            for kind in ("Network", "Cluster", "NodePool", "ResourcePolicy")
            for each in graph.of(kind)
            if each.custom
        ]
        assert len(guarded) == 6
        assert {each.protect for each in guarded} == {protect}
        cluster = graph.one("Cluster", "tpuserve-test-cluster")
        assert cluster.inputs["deletionProtection"] is protect


def _provider(graph: Graph) -> dict[str, Any]:
    (provider,) = (each for each in graph.resources if each.type == "pulumi:providers:kubernetes")
    return provider.inputs

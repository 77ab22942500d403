"""Placement, counts and capacity of TPU pools, per generation and number of hosts."""

from typing import Any

import pytest

from tests.support.files import stack_config
from tests.support.recorder import Registered, record
from tests.support.variants import changed

ONE = {"min": 1, "max": 1}
RESERVED = {"kind": "reservation", "name": "r", "block": "b"}


def _pool(**fields: Any) -> Registered:
    """The node pool of a stack with one pool called `pool`."""
    pool = {"slices": ONE, "capacity": {"kind": "on-demand"}, **fields}
    config = changed(stack_config("bare-prod"), {"tpuserve:tpuPools": {"pool": pool}})
    return record(config).one("NodePool", "pool-pool")


class TestPlacement:
    """Single hosts carry none; Ironwood needs a named policy, older slices a topology."""

    @pytest.mark.parametrize(
        "shape",
        [
            {"accelerator": "tpu7x", "topology": "2x2x1"},
            {"accelerator": "v6e", "topology": "2x4", "chipsPerHost": 8},
            {"accelerator": "v6e", "topology": "1x1"},
            {"accelerator": "v5e", "topology": "2x2"},
        ],
    )
    def test_a_single_host_pool_has_no_placement(self, shape: dict[str, Any]) -> None:
        pool = _pool(**shape)
        assert pool.inputs["nodeConfig"]["machineType"]
        assert "placementPolicy" not in pool.inputs

    @pytest.mark.parametrize(
        ("accelerator", "topology"), [("v6e", "4x4"), ("v5e", "4x4"), ("v5p", "4x4x4")]
    )
    def test_many_hosts_before_ironwood_are_compact_with_their_topology(
        self, accelerator: str, topology: str
    ) -> None:
        pool = _pool(accelerator=accelerator, topology=topology)
        assert pool.inputs["placementPolicy"] == {"type": "COMPACT", "tpuTopology": topology}
        assert pool.ignore_changes == ()
        assert "placementPolicy.tpuTopology" in pool.replace_on_changes

    def test_many_ironwood_hosts_name_a_workload_policy_and_leave_the_type_empty(self) -> None:
        pool = _pool(accelerator="tpu7x", topology="4x4x8")
        assert pool.inputs["placementPolicy"] == {
            "type": "",
            "policyName": "tpuserve-test-pool-4x4x8-auto",
        }
        assert set(pool.ignore_changes) == {"placementPolicy.type", "placementPolicy.tpuTopology"}

    def test_another_topology_makes_another_policy_and_so_another_pool(self) -> None:
        names = {
            _pool(accelerator="tpu7x", topology=each).inputs["placementPolicy"]["policyName"]
            for each in ("2x2x2", "4x4x4", "4x4x8")
        }
        assert len(names) == 3


class TestCounts:
    """Many hosts scale between nothing and everything; single hosts one by one."""

    def test_a_fixed_pool_has_a_node_count_and_no_autoscaler(self) -> None:
        pool = _pool(accelerator="v6e", topology="4x8")
        assert pool.inputs["nodeCount"] == 8
        assert "autoscaling" not in pool.inputs
        assert "initialNodeCount" not in pool.inputs

    def test_a_slice_of_many_hosts_scales_per_zone_from_zero_to_all(self) -> None:
        pool = _pool(accelerator="v6e", topology="4x8", slices={"min": 0, "max": 1})
        assert pool.inputs["autoscaling"] == {
            "minNodeCount": 0,
            "maxNodeCount": 8,
            "locationPolicy": "ANY",
        }
        assert pool.inputs["initialNodeCount"] == 0
        assert "initialNodeCount" in pool.ignore_changes
        assert "nodeCount" not in pool.inputs


class TestPodLimit:
    """The pod limit is fixed at a pool's creation, so nothing that grows moves it."""

    def test_a_pool_keeps_its_limit_over_every_size(self) -> None:
        limits = {
            slices: self._limit("10.64.0.0/20", {"min": 1, "max": slices}) for slices in (1, 32, 40)
        }
        assert set(limits.values()) == {32}

    def test_a_smaller_range_has_the_smaller_limit_from_the_start(self) -> None:
        assert self._limit("10.64.0.0/21", ONE) == 16

    def _limit(self, pods: str, slices: dict[str, int]) -> int:
        pool = {
            "accelerator": "v6e",
            "topology": "2x4",
            "chipsPerHost": 8,
            "slices": slices,
            "capacity": {"kind": "spot"},
        }
        changes = {"tpuserve:network.pods": pods, "tpuserve:tpuPools": {"pool": pool}}
        inputs = record(changed(stack_config("bare-dev"), changes)).one("NodePool", "pool-pool")
        return int(inputs.inputs["maxPodsPerNode"])


class TestExtra:
    """Arguments of a stack lie over the program's own, leaf by leaf."""

    def test_they_reach_into_objects_and_leave_the_rest(self) -> None:
        extra = {
            "node_config": {
                "labels": {"team": "ml"},
                "disk_size_gb": 500,
                "metadata": {"team": "ml"},
                "secondary_boot_disks": [{"disk_image": "global/images/weights"}],
            },
            "network_config": {"pod_range": "other"},
        }
        plain = _pool(accelerator="v6e", topology="4x4").inputs
        laid = _pool(accelerator="v6e", topology="4x4", extra=extra).inputs
        assert laid["networkConfig"] == {"enablePrivateNodes": True, "podRange": "other"}
        assert laid["nodeConfig"] == {
            **plain["nodeConfig"],
            "labels": {"team": "ml"},
            "diskSizeGb": 500,
            "metadata": {"disable-legacy-endpoints": "true", "team": "ml"},
            "secondaryBootDisks": [{"diskImage": "global/images/weights"}],
        }

    def test_a_key_of_a_map_keeps_its_spelling(self) -> None:
        extra = {"node_config": {"labels": {"my_team": "ml"}}}
        pool = _pool(accelerator="v6e", topology="4x4", extra=extra)
        assert pool.inputs["nodeConfig"]["labels"] == {"my_team": "ml"}


class TestCapacity:
    """Each kind of capacity sends its own settings and none of the others'."""

    @pytest.mark.parametrize(
        ("capacity", "present"),
        [
            ({"kind": "on-demand"}, set()),
            ({"kind": "spot"}, {"spot"}),
            (RESERVED, {"reservationAffinity"}),
            ({"kind": "flex-start"}, {"flexStart", "maxRunDuration", "reservationAffinity"}),
        ],
    )
    def test_a_kind_sends_its_own_settings(
        self, capacity: dict[str, Any], present: set[str]
    ) -> None:
        pool = _pool(
            accelerator="v6e", topology="2x2", capacity=capacity, slices={"min": 0, "max": 1}
        )
        sent = {"spot", "flexStart", "maxRunDuration", "reservationAffinity"}
        assert sent & set(pool.inputs["nodeConfig"]) == present

    def test_flex_start_turns_repair_off_and_limits_the_run(self) -> None:
        pool = _pool(
            accelerator="v6e",
            topology="2x2",
            capacity={"kind": "flex-start", "maxRunHours": 24},
            slices={"min": 0, "max": 1},
        )
        assert pool.inputs["management"] == {"autoRepair": False, "autoUpgrade": True}
        assert pool.inputs["nodeConfig"]["maxRunDuration"] == "86400s"
        affinity = pool.inputs["nodeConfig"]["reservationAffinity"]
        assert affinity == {"consumeReservationType": "NO_RESERVATION"}

    def test_a_reservation_of_another_project_is_named_by_its_path(self) -> None:
        pool = _pool(
            accelerator="v6e", topology="2x2", capacity={**RESERVED, "project": "owner-project"}
        )
        assert pool.inputs["nodeConfig"]["reservationAffinity"]["values"] == [
            "projects/owner-project/reservations/r/reservationBlocks/b"
        ]

    def test_a_reserved_pool_is_deleted_before_it_is_made_again(self) -> None:
        pool = _pool(accelerator="v6e", topology="2x2", capacity=RESERVED)
        assert pool.delete_before_replace
        assert pool.inputs["upgradeSettings"]["maxSurge"] == 0

    def test_pools_wait_at_least_two_hours(self) -> None:
        assert _pool(accelerator="v6e", topology="2x2").create_timeout == "3h"


class TestCubes:
    """Dynamic slicing: one policy, one pool per cube, no links between them."""

    def test_sub_blocks_go_to_one_cube_each(self) -> None:
        config = changed(
            stack_config("bare-prod"), {"tpuserve:tpuPools.cubes.capacity.subBlocks": ["s1", "s2"]}
        )
        pools = [each for each in record(config).of("NodePool") if each.name.startswith("cubes")]
        paths = [each.inputs["nodeConfig"]["reservationAffinity"]["values"][0] for each in pools]
        assert [path.rsplit("/", 1)[1] for path in sorted(paths)] == ["s1", "s2"]

    def test_more_cubes_change_nothing_of_the_first_ones(self) -> None:
        config = stack_config("bare-prod")
        few = {each.urn: each.inputs for each in record(config).of("NodePool")}
        many = record(changed(config, {"tpuserve:tpuPools.cubes.cubes": 144})).of("NodePool")
        kept = {each.urn: each.inputs for each in many if each.urn in few}
        assert len(many) == 145
        assert kept == few

    def test_cubes_are_made_side_by_side(self) -> None:
        graph = record(stack_config("bare-prod"))
        first, second = (graph.one("NodePool", f"cubes-00{index}") for index in (0, 1))
        assert not graph.depends(first, second)
        assert not graph.depends(second, first)


def test_kernel_parameters_reach_every_node_of_a_pool() -> None:
    given = {"vm.max_map_count": "8388608"}
    config = changed(stack_config("bare-prod"), {"tpuserve:tpuPools.cubes.sysctls": given})
    pools = record(config).of("NodePool")
    set_by = {
        each.name: each.inputs["nodeConfig"].get("linuxNodeConfig", {}).get("sysctls")
        for each in pools
    }
    assert {name for name, sysctls in set_by.items() if sysctls == given} == {
        "cubes-000",
        "cubes-001",
    }

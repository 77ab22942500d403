"""What a change of a stack file makes the engine do."""

from collections.abc import Iterator
from typing import Any

import pytest

from simcloud.engine import Sim
from tests.support.engine import Steps, simulated
from tests.support.files import stack_config

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with simulated(tmp_path_factory.mktemp("prod"), "prod", {"protect": False}) as sim:
        sim.up()
        yield sim


def _preview(sim: Sim, section: str, value: Any) -> Steps:
    """The steps a preview would take with one section changed; the section is put back."""
    sim.set_config({section: value})
    steps = Steps()
    try:
        sim.preview(on_event=steps)
    finally:
        sim.set_config({section: stack_config("prod").get(f"tpuserve:{section}")})
    return steps


def _section(name: str, **fields: Any) -> dict[str, Any]:
    return {**stack_config("prod")[f"tpuserve:{name}"], **fields}


def _cubes(**fields: Any) -> dict[str, Any]:
    return {"cubes": {**stack_config("prod")["tpuserve:tpuPools"]["cubes"], **fields}}


def test_another_version_updates_the_cluster_alone(sim: Sim) -> None:
    steps = _preview(sim, "cluster", _section("cluster", version="1.36.1-gke.1000000"))
    assert steps.changes == [("update", "tpuserve-prod-cluster")]
    assert steps.reasons["tpuserve-prod-cluster"] == ["minMasterVersion"]


def test_a_larger_proxy_range_replaces_that_subnet_alone(sim: Sim) -> None:
    steps = _preview(sim, "network", _section("network", proxyOnly="172.20.0.0/23"))
    touched = {name for _, name in steps.changes}
    assert touched == {"tpuserve-prod-proxies", "tpuserve-prod-serving"}
    assert ("update", "tpuserve-prod-serving") in steps.changes


def test_a_third_cube_is_made_and_the_others_are_left_alone(sim: Sim) -> None:
    steps = _preview(sim, "tpuPools", _cubes(cubes=3))
    assert steps.changes == [("create", "cubes-002")]


def test_one_cube_less_deletes_the_last(sim: Sim) -> None:
    steps = _preview(sim, "tpuPools", _cubes(cubes=1))
    assert steps.changes == [("delete", "cubes-001")]


def test_another_placement_type_is_no_change_on_pools_that_exist(sim: Sim) -> None:
    assert _preview(sim, "tpuPools", _cubes(placementType="COMPACT")).changes == []


def test_another_block_replaces_the_cubes(sim: Sim) -> None:
    capacity = {"kind": "reservation", "name": "my-reservation", "block": "my-block-0002"}
    steps = _preview(sim, "tpuPools", _cubes(capacity=capacity))
    replaced = {name for operation, name in steps.changes if operation == "replace"}
    assert replaced == {"cubes-000", "cubes-001"}


def test_a_replaced_pool_is_deleted_before_it_is_made_again(sim: Sim) -> None:
    capacity = {"kind": "reservation", "name": "my-reservation", "block": "my-block-0002"}
    sim.set_config({"tpuPools": _cubes(capacity=capacity)})
    before = len(sim.cloud.log())
    sim.up()
    calls = [
        (each.method, each.name)
        for each in sim.cloud.log()[before:]
        if each.method in ("Create", "Delete") and not each.error
    ]
    assert sorted(calls) == sorted(
        (method, f"cubes-00{index}") for method in ("Create", "Delete") for index in (0, 1)
    )
    for pool in ("cubes-000", "cubes-001"):
        assert calls.index(("Delete", pool)) < calls.index(("Create", pool))
    live = sim.cloud.find("gcp:container/nodePool:NodePool", "cubes-000").props
    values = live["nodeConfig"]["reservationAffinity"]["values"]
    assert values == [
        "projects/my-project/reservations/my-reservation/reservationBlocks/my-block-0002"
    ]


def test_an_edit_behind_the_back_of_the_program_is_shown_and_undone(sim: Sim) -> None:
    kind = "gcp:compute/network:Network"
    (vpc,) = sim.cloud.resources(kind)
    sim.cloud.drift(kind, vpc.name, "mtu", 1460)
    found = dict(sim.refresh().summary.resource_changes or {})
    assert found["update"] == 1
    steps = Steps()
    sim.preview(on_event=steps)
    assert steps.changes == [("update", "tpuserve-prod-vpc")]
    assert steps.reasons["tpuserve-prod-vpc"] == ["mtu"]
    sim.up()
    assert sim.cloud.find(kind, vpc.name).props["mtu"] == 8896

"""What a change of a stack file makes the engine do to what the stack stands on."""

from collections.abc import Iterator
from typing import Any

import pytest

from simcloud.engine import Sim
from tests.support.engine import Steps, simulated
from tests.support.files import stack_config

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with simulated(
        tmp_path_factory.mktemp("prod"), "bare-prod", {"tpuserve:protect": False}
    ) as sim:
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


MEASURED: dict[str, tuple[str, dict[str, Any], dict[str, tuple[str, str]]]] = {
    "another version": (
        "cluster",
        {"version": "1.36.1-gke.1000000"},
        {"tpuserve-prod-cluster": ("update", "minMasterVersion")},
    ),
    "another machine for the system pool": (
        "cluster",
        {"systemPool": {"machine": "n2-standard-16", "min": 3, "max": 9}},
        {"tpuserve-prod-system": ("update", "nodeConfig.machineType")},
    ),
    "another range of proxies": (
        "network",
        {"proxyOnly": "172.20.0.0/23"},
        {
            "tpuserve-prod-proxies": ("replace", "ipCidrRange"),
            "tpuserve-prod-serving": ("update", "sourceRanges[1]"),
        },
    ),
    "smaller frames": ("network", {"mtu": 1460}, {"tpuserve-prod-vpc": ("update", "mtu")}),
    "more pods": (
        "network",
        {"pods": "10.64.0.0/13"},
        {
            "tpuserve-prod-nodes": ("update", "secondaryIpRanges[0].ipCidrRange"),
            "tpuserve-prod-inside": ("update", "sourceRanges[1]"),
            "cubes-000": ("replace", "maxPodsPerNode"),
            "cubes-001": ("replace", "maxPodsPerNode"),
        },
    ),
    "another range of the control plane": (
        "network",
        {"controlPlane": "172.16.3.0/28"},
        {
            "tpuserve-prod-webhooks": ("update", "sourceRanges[0]"),
            "tpuserve-prod-cluster": ("replace", "privateClusterConfig.masterIpv4CidrBlock"),
            "tpuserve-prod-system": ("replace", "cluster"),
            "cubes-000": ("replace", "cluster"),
            "cubes-001": ("replace", "cluster"),
        },
    ),
    "fewer nodes": (
        "network",
        {"nodes": "10.0.0.0/19"},
        {
            "tpuserve-prod-nodes": ("replace", "ipCidrRange"),
            "tpuserve-prod-inside": ("update", "sourceRanges[0]"),
            "tpuserve-prod-nat": ("update", "subnetworks[0].name"),
            "tpuserve-prod-cluster": ("replace", "subnetwork"),
            "tpuserve-prod-system": ("replace", "cluster"),
            "cubes-000": ("replace", "cluster"),
            "cubes-001": ("replace", "cluster"),
        },
    ),
    "a third cube": ("tpuPools", {"cubes": 3}, {"cubes-002": ("create", "")}),
    "one cube less": ("tpuPools", {"cubes": 1}, {"cubes-001": ("delete", "")}),
    "another placement type": ("tpuPools", {"placementType": "COMPACT"}, {}),
    "another block": (
        "tpuPools",
        {"capacity": {"kind": "reservation", "name": "my-reservation", "block": "other"}},
        {
            "cubes-000": ("replace", "nodeConfig.reservationAffinity.values[0]"),
            "cubes-001": ("replace", "nodeConfig.reservationAffinity.values[0]"),
        },
    ),
}
"""What the real Terraform plan engine behind the real Pulumi bridge answered on 2026-11-30 to the
same changes of the Google half: per resource the operation and the property that causes it."""


@pytest.mark.parametrize("change", MEASURED)
def test_a_change_plans_as_the_real_plan_engine_does(sim: Sim, change: str) -> None:
    section, fields, expected = MEASURED[change]
    value = _cubes(**fields) if section == "tpuPools" else _section(section, **fields)
    steps = _preview(sim, section, value)
    google = {
        name: operation
        for operation, name in steps.changes
        if operation not in ("create-replacement", "delete-replaced") and name in steps.google
    }
    assert google == {name: operation for name, (operation, _) in expected.items()}
    unexplained = [
        f"{name}: {steps.reasons[name]}, not {cause}"
        for name, (_, cause) in expected.items()
        if cause and cause not in steps.reasons[name]
    ]
    assert unexplained == []


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

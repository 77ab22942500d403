"""Cost of pools, stacks and diffs."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from catalog.prices import HOURS_PER_MONTH, Price
from catalog.source import READ, Source
from ops.cost import app, of_plan, of_state, over_budget, pool_cost
from ops.cost.stack import dollars
from tests.ops.previews import EVENTS, UNKNOWN, plan, pool_inputs, recorded, step

POOL = "gcp:container/nodePool:NodePool"
SOURCE = Source("a test", READ)


def price(accelerator: str, region: str, capacity: str) -> Price | None:
    """A chip costs a dollar an hour, spot a quarter; flex-start and Mars are unknown."""
    assert accelerator in {"v5e", "v5p", "v6e", "tpu7x"}
    if capacity == "flex-start" or region == "mars":
        return None
    amount = 0.25 if capacity == "spot" else 1.0
    return Price(usd_per_chip_hour=amount, source=SOURCE, assumed=capacity == "reservation")


def per_hour(**inputs: Any) -> tuple[float, float] | None:
    found = pool_cost("p", pool_inputs(**inputs), price)
    assert found
    return (found.per_hour.low, found.per_hour.high) if found.per_hour else None


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, (4, 4)),
        ({"nodeCount": 3}, (12, 12)),
        ({"nodeCount": 3.0}, (12, 12)),
        ({"nodeLocations": ["us-central1-a", "us-central1-b"]}, (8, 8)),
        ({"nodeLocations": [], "location": "us-central1-b"}, (4, 4)),
        ({"nodeLocations": []}, (12, 12)),
        ({"node": {"machineType": "ct6e-standard-8t"}}, (8, 8)),
        ({"node": {"machineType": "tpu7x-standard-4t"}, "nodeCount": 16}, (64, 64)),
        ({"node": {"spot": True}}, (1, 1)),
        ({"node": {"preemptible": True}}, (1, 1)),
        ({"node": {"flexStart": True}}, None),
        ({"queuedProvisioning": {"enabled": True}}, None),
        ({"queuedProvisioning": {"enabled": False}}, (4, 4)),
        ({"nodeCount": UNKNOWN}, None),
        ({"nodeLocations": ["mars-a"], "location": "mars"}, None),
        ({"autoscaling": {"minNodeCount": 0, "maxNodeCount": 4}}, (0, 16)),
        (
            {
                "autoscaling": {"minNodeCount": 1, "maxNodeCount": 4},
                "nodeLocations": ["us-central1-a", "us-central1-b"],
            },
            (8, 32),
        ),
        ({"autoscaling": {"totalMinNodeCount": 1, "totalMaxNodeCount": 2}}, (4, 8)),
        ({"autoscaling": {"maxNodeCount": UNKNOWN}}, None),
    ],
)
def test_a_pool_costs_its_chips(
    inputs: dict[str, Any], expected: tuple[float, float] | None
) -> None:
    assert per_hour(**inputs) == expected


def test_the_initial_count_is_used_where_no_other_is() -> None:
    inputs = pool_inputs(initialNodeCount=16)
    del inputs["nodeCount"]
    found = pool_cost("p", inputs, price)
    assert found
    assert found.chips
    assert found.chips.high == 64


@pytest.mark.parametrize("kind", ["SPECIFIC_RESERVATION", "ANY_RESERVATION_THEN_FAIL"])
def test_a_reservation_is_said_to_be_billed_anyway(kind: str) -> None:
    affinity = {"reservationAffinity": {"consumeReservationType": kind}}
    found = pool_cost("p", pool_inputs(node=affinity), price)
    assert found
    assert found.capacity == "reservation"
    assert any("billed with or without" in note for note in found.notes)
    assert "price assumed" in found.notes


def test_a_pool_without_tpus_has_no_tpu_cost() -> None:
    assert pool_cost("p", pool_inputs(node={"machineType": "e2-standard-8"}), price) is None


def test_a_tpu_nobody_catalogued_has_an_unknown_cost_not_none() -> None:
    found = pool_cost("p", pool_inputs(node={"machineType": "ct9-hyper-4t"}), price)
    assert found
    assert found.per_hour is None
    assert "not in the catalogue" in found.notes[0]


def test_a_diff_costs_the_difference_at_full_size() -> None:
    made = plan(
        step("same", POOL, "kept", old=pool_inputs(), new=pool_inputs()),
        step("update", POOL, "grown", old=pool_inputs(), new=pool_inputs(nodeCount=3)),
        step("delete", POOL, "gone", old=pool_inputs(nodeCount=2)),
        step("create", POOL, "new", new=pool_inputs(node={"spot": True})),
    )
    cost = of_plan(made, price)
    assert cost.per_hour == 8 - 8 + 1
    assert cost.after.per_hour == 4 + 12 + 1
    assert cost.per_month == cost.per_hour * HOURS_PER_MONTH


def test_a_replacement_at_the_same_size_costs_nothing_more() -> None:
    cost = of_plan(recorded("replace-cluster"))
    assert cost.per_hour == 0
    assert cost.after.per_hour > 0


def test_an_unknown_price_stays_unknown_and_is_named() -> None:
    made = plan(
        step("update", POOL, "p", old=pool_inputs(), new=pool_inputs(node={"flexStart": True})),
        step("create", POOL, "q", new=pool_inputs()),
    )
    cost = of_plan(made, price)
    assert cost.unknown == ("p",)
    assert cost.per_hour == 4
    assert [each.pool for each in cost.after.unpriced] == ["p"]


def test_an_unknown_price_that_does_not_change_is_no_unknown_difference() -> None:
    flex = pool_inputs(node={"flexStart": True})
    cost = of_plan(plan(step("same", POOL, "p", old=flex, new=flex)), price)
    assert cost.unknown == ()
    assert not cost.changes


def test_a_budget_is_a_month_at_full_size() -> None:
    made = plan(step("create", POOL, "p", new=pool_inputs(autoscaling={"maxNodeCount": 2})))
    stack = of_plan(made, price).after
    assert over_budget(stack, 8 * HOURS_PER_MONTH) is None
    assert "its budget is $5,839" in (over_budget(stack, 8 * HOURS_PER_MONTH - 1) or "")


def test_the_cost_of_a_state_counts_what_exists() -> None:
    state = {
        "deployment": {
            "resources": [
                {"type": POOL, "urn": "a::b::c::p", "inputs": pool_inputs()},
                {"type": POOL, "urn": "a::b::c::dying", "inputs": pool_inputs(), "delete": True},
                {"type": "gcp:storage/bucket:Bucket", "urn": "a::b::c::w", "inputs": {}},
            ]
        }
    }
    cost = of_state(json.dumps(state), price)
    assert [each.pool for each in cost.pools] == ["p"]
    assert cost.per_hour == 4


@pytest.mark.parametrize(
    ("amount", "signed", "text"),
    [
        (10.8, True, "+$10.80"),
        (-48, True, "-$48.00"),
        (0, True, "+$0.00"),
        (1530, False, "$1,530"),
        (1_121_280, False, "$1,121,280"),
    ],
)
def test_money_reads_as_money(amount: float, signed: bool, text: str) -> None:
    assert dollars(amount, signed=signed) == text


def test_the_command_prices_a_preview_and_refuses_past_a_budget() -> None:
    result = CliRunner().invoke(app, [str(EVENTS / "resize.jsonl")])
    assert result.exit_code == 0, result.output
    assert "trillium-pool" in result.output
    assert "$21.60/h (+$10.80/h); left on for a month (730 h)" in result.output
    assert "read 2026" in result.output
    over = CliRunner().invoke(app, [str(EVENTS / "resize.jsonl"), "--budget", "100"])
    assert over.exit_code == 1
    assert "over budget" in over.output


def test_the_command_prices_an_exported_state(tmp_path: Path) -> None:
    state = {
        "version": 3,
        "deployment": {"resources": [{"type": POOL, "urn": "a::p", "inputs": pool_inputs()}]},
    }
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state, indent=4))
    result = CliRunner().invoke(app, [str(path), "--json"])
    told = json.loads(result.output)
    assert told["perHour"] == pytest.approx(10.8)
    assert told["changePerHour"] == 0

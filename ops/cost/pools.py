"""What one GKE node pool costs, from the inputs of its resource alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.accelerators import MACHINES
from catalog.prices import HOURS_PER_MONTH, Price, price
from catalog.zones import region_of
from ops.preview.values import UNKNOWN

NODE_POOL = "gcp:container/nodePool:NodePool"
PriceOf = Callable[[str, str, str], Price | None]

# GKE spreads a regional pool without zones over the cluster's own, three by default.
_ZONES_OF_A_REGION = 3


@dataclass(frozen=True, kw_only=True)
class Range:
    """A smallest and a largest amount; equal where nothing scales."""

    low: float
    high: float

    def times(self, factor: float) -> "Range":
        return Range(low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, kw_only=True)
class PoolCost:
    """A TPU node pool's size and list price per hour; `per_hour` is None when unknown."""

    pool: str
    machine: str
    accelerator: str
    capacity: str
    region: str
    nodes: Range | None
    chips: Range | None
    price: Price | None
    per_hour: Range | None
    notes: tuple[str, ...] = ()

    @property
    def per_month(self) -> Range | None:
        return self.per_hour.times(HOURS_PER_MONTH) if self.per_hour else None


def pool_cost(pool: str, inputs: Mapping[str, Any], price_of: PriceOf = price) -> PoolCost | None:
    """The cost of a TPU pool; None for a pool without TPUs, which no table here prices."""
    node = _mapping(inputs.get("nodeConfig"))
    machine_type = node.get("machineType")
    if not isinstance(machine_type, str) or machine_type not in MACHINES:
        return _unknown_machine(pool, machine_type)
    accelerator, machine = MACHINES[machine_type]
    capacity = _capacity(inputs, node)
    region, zones, notes = _place(inputs)
    nodes = _nodes(inputs, zones)
    if nodes is None:
        notes.append("its size is not known yet")
    found = price_of(accelerator.name, region, capacity) if region else None
    if found is None:
        notes.append(f"no price known for {accelerator.name} {capacity} in {region or '?'}")
    elif found.assumed:
        notes.append("price assumed")
    if capacity == "reservation":
        notes.append("a reservation is billed with or without the pool")
    chips = nodes.times(machine.chips) if nodes else None
    return PoolCost(
        pool=pool,
        machine=machine_type,
        accelerator=accelerator.name,
        capacity=capacity,
        region=region,
        nodes=nodes,
        chips=chips,
        price=found,
        per_hour=chips.times(found.usd_per_chip_hour) if chips and found else None,
        notes=tuple(notes),
    )


def _unknown_machine(pool: str, machine_type: object) -> PoolCost | None:
    """A machine that is named like a TPU but stands in no table has a cost nobody here knows."""
    if not isinstance(machine_type, str) or not machine_type.startswith(("ct", "tpu")):
        return None
    return PoolCost(
        pool=pool,
        machine=machine_type,
        accelerator="?",
        capacity="?",
        region="",
        nodes=None,
        chips=None,
        price=None,
        per_hour=None,
        notes=(f"{machine_type} is not in the catalogue",),
    )


def _capacity(inputs: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    affinity = _mapping(node.get("reservationAffinity"))
    if node.get("spot") is True or node.get("preemptible") is True:
        return "spot"
    if (
        node.get("flexStart") is True
        or _mapping(inputs.get("queuedProvisioning")).get("enabled") is True
    ):
        return "flex-start"
    if affinity.get("consumeReservationType") in (
        "SPECIFIC_RESERVATION",
        "ANY_RESERVATION_THEN_FAIL",
    ):
        return "reservation"
    return "on-demand"


def _place(inputs: Mapping[str, Any]) -> tuple[str, int, list[str]]:
    location = inputs.get("location")
    location = location if isinstance(location, str) and location not in UNKNOWN else ""
    zones = [zone for zone in inputs.get("nodeLocations") or [] if isinstance(zone, str)]
    if zones:
        return region_of(zones[0]) or location, len(zones), []
    if region := region_of(location):
        return region, 1, []
    return location, _ZONES_OF_A_REGION, [f"{_ZONES_OF_A_REGION} zones assumed"]


def _nodes(inputs: Mapping[str, Any], zones: int) -> Range | None:
    scaling = _mapping(inputs.get("autoscaling"))
    if scaling:
        total = _count(scaling, "totalMaxNodeCount")
        if total is not None:
            return Range(low=_count(scaling, "totalMinNodeCount") or 0, high=total)
        most = _count(scaling, "maxNodeCount")
        if most is None:
            return None
        return Range(low=(_count(scaling, "minNodeCount") or 0) * zones, high=most * zones)
    for field in ("nodeCount", "initialNodeCount"):
        if field in inputs:
            fixed = _count(inputs, field)
            return None if fixed is None else Range(low=fixed * zones, high=fixed * zones)
    return None


def _count(inputs: Mapping[str, Any], field: str) -> int | None:
    value = inputs.get(field)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

"""What a stack costs before and after a diff, and whether it keeps to a budget."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.prices import HOURS_PER_MONTH, price
from ops.cost.pools import NODE_POOL, PoolCost, PriceOf, pool_cost
from ops.preview.plan import Plan

NOT_COUNTED = (
    "Counted: TPU chips at list price. Not counted: control plane, other nodes, disks, "
    "network, storage, discounts."
)


@dataclass(frozen=True, kw_only=True)
class StackCost:
    """The TPU pools of a stack; sums are at fixed or largest size."""

    pools: tuple[PoolCost, ...]

    @property
    def per_hour(self) -> float:
        return sum(pool.per_hour.high for pool in self.pools if pool.per_hour)

    @property
    def least_per_hour(self) -> float:
        return sum(pool.per_hour.low for pool in self.pools if pool.per_hour)

    @property
    def per_month(self) -> float:
        return self.per_hour * HOURS_PER_MONTH

    @property
    def unpriced(self) -> tuple[PoolCost, ...]:
        return tuple(pool for pool in self.pools if pool.per_hour is None)


@dataclass(frozen=True, kw_only=True)
class PoolDelta:
    """One pool before and after; None where it does not exist."""

    before: PoolCost | None
    after: PoolCost | None

    @property
    def pool(self) -> str:
        return (self.after or self.before or _NOBODY).pool

    @property
    def per_hour(self) -> float | None:
        """The change of the hourly price; None when either side is unknown."""
        sides = [0.0 if side is None else _high(side) for side in (self.after, self.before)]
        after, before = sides
        return None if after is None or before is None else after - before

    @property
    def changes(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, kw_only=True)
class CostDelta:
    """What a diff does to the bill."""

    pools: tuple[PoolDelta, ...]

    @property
    def before(self) -> StackCost:
        return StackCost(pools=tuple(each.before for each in self.pools if each.before))

    @property
    def after(self) -> StackCost:
        return StackCost(pools=tuple(each.after for each in self.pools if each.after))

    @property
    def per_hour(self) -> float:
        """The sum of what is known."""
        return sum(each.per_hour or 0.0 for each in self.pools)

    @property
    def per_month(self) -> float:
        return self.per_hour * HOURS_PER_MONTH

    @property
    def unknown(self) -> tuple[str, ...]:
        """Changed pools whose difference nobody knows."""
        return tuple(each.pool for each in self.pools if each.changes and each.per_hour is None)

    @property
    def changes(self) -> bool:
        return any(each.changes for each in self.pools)


_NOBODY = PoolCost(
    pool="",
    machine="",
    accelerator="",
    capacity="",
    region="",
    nodes=None,
    chips=None,
    price=None,
    per_hour=None,
)


def of_plan(plan: Plan, price_of: PriceOf = price) -> CostDelta:
    """The cost of every TPU pool a preview names, before and after."""
    pools = []
    for change in plan.changes:
        if change.type != NODE_POOL:
            continue
        before, after = (
            pool_cost(change.name, state.inputs, price_of) if state else None
            for state in (change.old, change.new)
        )
        if before or after:
            pools.append(PoolDelta(before=before, after=after))
    return CostDelta(pools=tuple(pools))


def of_state(text: str, price_of: PriceOf = price) -> StackCost:
    """The cost of what `pulumi stack export` says exists."""
    deployment = json.loads(text).get("deployment") or {}
    return StackCost(pools=tuple(_pools(deployment.get("resources") or [], price_of)))


def _pools(resources: Iterable[Mapping[str, Any]], price_of: PriceOf) -> Iterable[PoolCost]:
    for resource in resources:
        if resource.get("type") == NODE_POOL and not resource.get("delete"):
            name = str(resource.get("urn", "")).rsplit("::", 1)[-1]
            if found := pool_cost(name, resource.get("inputs") or {}, price_of):
                yield found


def over_budget(cost: StackCost, monthly_usd: float) -> str | None:
    """Why a stack left on for a month breaks its budget; None when it keeps to it."""
    if cost.per_month <= monthly_usd:
        return None
    return (
        f"left on for a month at full size the stack costs {dollars(cost.per_month)}, its budget "
        f"is {dollars(monthly_usd)}"
    )


def dollars(amount: float, *, signed: bool = False) -> str:
    """`$1,530`, `+$10.80`, `-$48.00`: cents below a thousand."""
    size = abs(amount)
    text = f"${size:,.0f}" if size >= 1000 else f"${size:,.2f}"
    if amount < 0:
        return f"-{text}"
    return f"+{text}" if signed else text


def _high(cost: PoolCost) -> float | None:
    return cost.per_hour.high if cost.per_hour else None

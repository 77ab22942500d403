"""What TPU pools cost: per pool, per stack, per diff."""

from ops.cost.cli import app, cost
from ops.cost.pools import PoolCost, pool_cost
from ops.cost.stack import CostDelta, StackCost, of_plan, of_state, over_budget

__all__ = [
    "CostDelta",
    "PoolCost",
    "StackCost",
    "app",
    "cost",
    "of_plan",
    "of_state",
    "over_budget",
    "pool_cost",
]

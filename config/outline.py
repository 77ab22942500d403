"""A stack's pools in a reader's terms: what they are made of and what they cost."""

from typing import Any

from catalog.prices import price
from config.stack import Stack
from config.tpu_pools import DynamicPool, TpuPool


def describe(pool: TpuPool) -> dict[str, Any]:
    """Machine, hosts, chips and devices of a pool at its full size."""
    shape = pool.slice
    return {
        "accelerator": pool.accelerator,
        "machine": shape.machine.name,
        "topology": shape.shape,
        "slicing": pool.slicing,
        "slices": slice_counts(pool)[1],
        "hosts": pool.max_hosts,
        "chips": pool.max_chips,
        "devices": pool.max_chips * shape.accelerator.devices_per_chip,
        "capacity": pool.capacity.kind,
    }


def slice_counts(pool: TpuPool) -> tuple[int, int]:
    """Fewest and most slices (cubes, where they are dynamic) a pool may have."""
    if isinstance(pool, DynamicPool):
        return pool.cubes, pool.cubes
    return pool.slices.min, pool.slices.max


def cost_per_hour(stack: Stack) -> dict[str, Any]:
    """USD per hour of all TPU pools at their smallest and largest; pools of unknown price apart."""
    low = high = 0.0
    assumed, unknown = [], []
    for key, pool in stack.tpu_pools.items():
        found = price(pool.accelerator, stack.location.region, pool.capacity.kind)
        if found is None:
            unknown.append(key)
            continue
        fewest, most = slice_counts(pool)
        each = pool.slice.chips * found.usd_per_chip_hour
        low, high = low + fewest * each, high + most * each
        if found.assumed:
            assumed.append(key)
    return {
        "usdLow": round(low, 2),
        "usdHigh": round(high, 2),
        "assumed": assumed,
        "unknown": unknown,
    }

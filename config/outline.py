"""A stack's pools in a reader's terms: what they are made of and what they cost."""

from collections.abc import Mapping
from typing import Any

from catalog.partitions import partition, slice_of
from catalog.prices import price
from catalog.serving import PORT
from config.queueing import QUEUE, Queueing
from config.servers import Server
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


def endpoint(key: str, server: Server) -> dict[str, Any]:
    """How a served model is reached from a terminal, but for the address of a load balancer."""
    home = server.said.namespace
    secret = server.said.api_key_secret
    return {
        "model": server.engine.model.id,
        "basePath": "/v1",
        "chat": server.said.chat,
        **({} if secret is None else {"apiKeySecret": secret}),
        "startupSeconds": server.engine.startup_seconds,
        "service": {"namespace": home, "name": key, "port": PORT},
        "reach": f"kubectl -n {home} port-forward service/{key} {PORT}",
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


def slice_table(queueing: Queueing, tpu_pools: Mapping[str, TpuPool]) -> dict[str, Any]:
    """What a slice of each shape is made of, and how many fit at once."""
    rules = queueing.queue(tpu_pools)
    table = {}
    for shape in queueing.shapes:
        of = slice_of(shape)
        table[shape] = {
            "pods": of.hosts,
            "chips": of.chips,
            "devices": of.devices,
            "partition": partition(of).shape,
            "partitions": partition(of).count,
            "atMost": rules.room(of),
        }
    return table


def queue_table(queueing: Queueing, tpu_pools: Mapping[str, TpuPool]) -> dict[str, Any]:
    """How a job gets to the chips: its namespace's queue, the label, the priorities."""
    return {
        "label": f"kueue.x-k8s.io/queue-name: {QUEUE}",
        "priorities": dict(queueing.priorities),
        "servingPriority": queueing.serving_priority,
        "clusterQueues": {
            key: {"namespaces": list(namespaces), "chips": share}
            for key, (namespaces, share) in queueing.shares(tpu_pools).items()
        },
    }

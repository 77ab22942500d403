"""Every rule of the pack, in the order of the catalogue."""

from __future__ import annotations

from rules import (
    access,
    capacity,
    cluster,
    cost,
    gateway,
    helm,
    identity,
    kubernetes,
    maintenance,
    network,
    node_pools,
    pod_security,
    pods,
    queues,
    serving,
    storage,
    tpu_cluster,
    tpu_pods,
    tpu_pools,
)
from rules.model import Rule

MODULES = (
    network,
    cluster,
    node_pools,
    tpu_pools,
    tpu_cluster,
    maintenance,
    cost,
    storage,
    identity,
    access,
    kubernetes,
    pod_security,
    pods,
    helm,
    tpu_pods,
    capacity,
    serving,
    queues,
    gateway,
)
RULES: tuple[Rule, ...] = tuple(rule for module in MODULES for rule in module.RULES)

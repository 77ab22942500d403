"""Rules on Autopilot, where GKE makes the nodes that pods ask for."""

from collections.abc import Iterator

from catalog.autopilot import AUTOPILOT_TPUS, FLOORS
from catalog.source import docs
from catalog.versions import GkeVersion
from config.cluster import Cluster
from config.problem import Problem
from config.tpu_pools import DynamicPool, TpuPool

POOLS = "tpuserve:tpuPools"
PATH = "tpuserve:cluster"

DECIDED = ("enable_autopilot", "cluster_autoscaling", "node_pool_auto_config")
"""Arguments of the provider's Cluster that Autopilot needs for itself."""


def autopilot_has_no_system_pool(cluster: Cluster) -> Iterator[Problem]:
    if cluster.autopilot and "system_pool" in cluster.model_fields_set:
        yield Problem(
            path=f"{PATH}.systemPool",
            value=None,
            rule="Autopilot makes its nodes itself",
            fix="remove it, or set mode: standard",
            source=docs("Autopilot overview"),
        )


def autopilot_slices_nothing_dynamically(
    cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for name, pool in tpu_pools.items():
        if cluster.autopilot and isinstance(pool, DynamicPool):
            yield Problem(
                path=f"{POOLS}.{name}.slicing",
                value=pool.slicing,
                rule="dynamic slicing needs a Standard cluster",
                fix="set cluster.mode: standard",
                source=docs("Schedule dynamic slices with Kueue and TAS"),
            )


def autopilot_begins_at_zero(cluster: Cluster, tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in tpu_pools.items():
        if cluster.autopilot and not isinstance(pool, DynamicPool) and pool.slices.min:
            yield Problem(
                path=f"{POOLS}.{name}.slices.min",
                value=pool.slices.min,
                rule="Autopilot makes nodes when pods ask and keeps none without pods",
                fix="set min: 0",
                source=AUTOPILOT_TPUS,
            )


def autopilot_has_no_arguments_of_pools(
    cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for name, pool in tpu_pools.items():
        for field, given in (("extra", pool.extra), ("sysctls", pool.sysctls)):
            if not (cluster.autopilot and given):
                continue
            yield Problem(
                path=f"{POOLS}.{name}.{field}",
                value=", ".join(given),
                rule="Autopilot makes its node pools itself: these reach nothing",
                fix="remove them",
                source=AUTOPILOT_TPUS,
            )


def the_version_carries_tpus_in_autopilot(
    cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    version = GkeVersion.parse(cluster.version)
    for name, pool in tpu_pools.items():
        floor = FLOORS[pool.accelerator]
        if cluster.autopilot and version < floor.version:
            yield Problem(
                path=f"{PATH}.version",
                value=cluster.version,
                rule=f"{floor.feature} (tpuPools.{name}) needs {floor.version}",
                fix=f"raise it to {floor.version} or later",
                source=floor.source,
            )


def the_mode_is_said_by_its_field(cluster: Cluster) -> Iterator[Problem]:
    for key in sorted(set(DECIDED) & set(cluster.extra)):
        if cluster.autopilot or key == "enable_autopilot":
            yield Problem(
                path=f"{PATH}.extra.{key}",
                value=cluster.extra[key],
                rule="follows from cluster.mode",
                fix="remove it and set mode: autopilot or standard",
                source="arguments of pulumi_gcp 10.2.0",
            )


CHECKS = (
    autopilot_has_no_system_pool,
    autopilot_slices_nothing_dynamically,
    autopilot_begins_at_zero,
    autopilot_has_no_arguments_of_pools,
    the_version_carries_tpus_in_autopilot,
    the_mode_is_said_by_its_field,
)

"""Rules on versions, maintenance and access."""

from collections.abc import Iterator
from datetime import date
from ipaddress import IPv4Network

from catalog.accelerators import MACHINES
from catalog.provider_inputs import CLUSTER
from catalog.source import docs
from catalog.versions import NODE_FLOORS, SUB_SLICING, Floor, GkeVersion
from config.cluster import WINDOWS, Cluster
from config.problem import Problem, nearest
from config.tpu_pools import DynamicPool, TpuPool

PATH = "tpuserve:cluster"
EXCLUSIONS = f"{PATH}.maintenance.exclusions"
AUTHORIZED = docs("Customize your network isolation in GKE")
DYNAMIC = docs("Schedule dynamic slices with Kueue and TAS")

LONGEST_FREEZE = 90
MOST_FREEZES = 3
AVAILABILITY_HOURS = 48
AVAILABILITY_DAYS = 32

OWNED = frozenset(
    """
    addons_config control_plane_endpoints_config cost_management_config datapath_provider
    deletion_protection enable_shielded_nodes gateway_api_config initial_node_count
    ip_allocation_policy location logging_config maintenance_policy
    master_authorized_networks_config min_master_version monitoring_config name network
    networking_mode node_locations node_pool_defaults pod_autoscaling private_cluster_config
    project rbac_binding_config release_channel remove_default_node_pool resource_labels
    secret_manager_config security_posture_config service_external_ips_config subnetwork
    workload_identity_config master_auth
    """.split()
)
"""Arguments of the provider's Cluster that the program sets itself."""


def the_version_carries_what_is_used(
    cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    version = GkeVersion.parse(cluster.version)
    for floor, users in _floors(tpu_pools).items():
        if version < floor.version:
            yield Problem(
                path=f"{PATH}.version",
                value=cluster.version,
                rule=f"{floor.feature} ({', '.join(users)}) needs {floor.version}",
                fix=f"raise it to {floor.version} or later",
                source=floor.source,
                severity="error" if floor.source.firm else "warning",
            )


def _floors(tpu_pools: dict[str, TpuPool]) -> dict[Floor, list[str]]:
    floors: dict[Floor, list[str]] = {}
    for name, pool in tpu_pools.items():
        needed = [NODE_FLOORS[pool.accelerator]]
        if isinstance(pool, DynamicPool):
            needed.append(SUB_SLICING)
        for floor in needed:
            floors.setdefault(floor, []).append(f"tpuPools.{name}")
    return floors


def dynamic_slicing_lives_on_rapid(
    cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    users = [name for name, pool in tpu_pools.items() if isinstance(pool, DynamicPool)]
    if users and cluster.channel != "RAPID":
        yield Problem(
            path=f"{PATH}.channel",
            value=cluster.channel,
            rule=f"dynamic slicing (tpuPools.{users[0]}) needs the RAPID channel",
            fix="set channel: RAPID",
            source=DYNAMIC,
        )


def exclusions_are_ahead(cluster: Cluster, today: date) -> Iterator[Problem]:
    for name, exclusion in cluster.maintenance.exclusions.items():
        if exclusion.ends is not None and exclusion.ends.date() <= today:
            yield Problem(
                path=f"{EXCLUSIONS}.{name}",
                value=f"{exclusion.start} + {exclusion.days} days",
                rule=f"ended on {exclusion.ends.date()}: it protects nothing",
                fix="move `from`, or remove it",
                source=WINDOWS,
            )


def exclusions_keep_their_limits(cluster: Cluster) -> Iterator[Problem]:
    freezes = []
    for name, exclusion in cluster.maintenance.exclusions.items():
        if exclusion.scope != "NO_UPGRADES":
            continue
        freezes.append(name)
        if exclusion.days is None or exclusion.days > LONGEST_FREEZE:
            yield Problem(
                path=f"{EXCLUSIONS}.{name}.days",
                value=exclusion.days,
                rule=f"NO_UPGRADES lasts at most {LONGEST_FREEZE} days",
                fix=f"set days: {LONGEST_FREEZE} or less, or scope: NO_MINOR_OR_NODE_UPGRADES, "
                "which may last until end of support",
                source=WINDOWS,
            )
    if len(freezes) > MOST_FREEZES:
        yield Problem(
            path=EXCLUSIONS,
            value=", ".join(freezes),
            rule=f"a cluster has at most {MOST_FREEZES} exclusions of scope NO_UPGRADES",
            fix="remove some, or narrow their scope",
            source=WINDOWS,
        )


def upgrades_have_time(cluster: Cluster) -> Iterator[Problem]:
    window = cluster.maintenance.window
    hours = window.hours * len(set(window.days)) * AVAILABILITY_DAYS // 7
    if hours < AVAILABILITY_HOURS:
        yield Problem(
            path=f"{PATH}.maintenance.window",
            value=f"{len(set(window.days))} days a week, {window.hours} h",
            rule=f"GKE asks for {AVAILABILITY_HOURS} h in {AVAILABILITY_DAYS} days, "
            f"these are {hours}",
            fix="add a day or lengthen `hours`",
            source=docs("Maintenance windows and exclusions", firm=False),
            severity="warning",
        )


def system_nodes_have_no_tpus(cluster: Cluster) -> Iterator[Problem]:
    if cluster.system_pool.machine in MACHINES:
        yield Problem(
            path=f"{PATH}.systemPool.machine",
            value=cluster.system_pool.machine,
            rule="TPU nodes are tainted: operators and gateways cannot land on them",
            fix="use e2-standard-8, say",
            source=docs("Plan TPUs in GKE"),
        )


def the_control_plane_is_not_open_to_all(cluster: Cluster) -> Iterator[Problem]:
    for name, found in cluster.access.authorized_networks.items():
        if found == IPv4Network("0.0.0.0/0"):
            yield Problem(
                path=f"{PATH}.access.authorizedNetworks.{name}",
                value=found,
                rule="opens the control plane to everybody",
                fix="name your own ranges, or none: the DNS endpoint asks IAM",
                source=AUTHORIZED,
            )


def cluster_extras_exist_and_are_free(cluster: Cluster) -> Iterator[Problem]:
    yield from extras(f"{PATH}.extra", cluster.extra, known=CLUSTER, owned=OWNED)


def extras(
    path: str, given: dict[str, object], *, known: frozenset[str], owned: frozenset[str]
) -> Iterator[Problem]:
    """Arguments passed to the provider as they are: they exist, and the program leaves them."""
    source = "arguments of pulumi_gcp 10.2.0"
    for key, value in given.items():
        if key not in known:
            fix = nearest(key, known)
            rule = "the provider has no such argument"
        elif key in owned:
            fix = "remove it; a field of this schema decides it"
            rule = "the program sets this argument itself"
        else:
            continue
        yield Problem(path=f"{path}.{key}", value=value, rule=rule, fix=fix, source=source)


CHECKS = (
    the_version_carries_what_is_used,
    dynamic_slicing_lives_on_rapid,
    exclusions_are_ahead,
    exclusions_keep_their_limits,
    upgrades_have_time,
    system_nodes_have_no_tpus,
    the_control_plane_is_not_open_to_all,
    cluster_extras_exist_and_are_free,
)

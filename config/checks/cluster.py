"""Rules on versions, maintenance and access."""

from collections.abc import Iterator
from datetime import date
from ipaddress import collapse_addresses

from catalog.accelerators import SUB_CUBE, parse_topology
from catalog.machines import GPU_FAMILIES, family, is_arm, is_tpu
from catalog.maintenance import Calendar
from catalog.source import docs
from catalog.versions import (
    HPA_PROFILE,
    NODE_FLOORS,
    SECRET_FILES,
    SIDECARS,
    SLEEP,
    SUB_SLICING,
    SUPER_SLICING,
    Floor,
    GkeVersion,
)
from config.checks.extras import CLUSTER, extras
from config.cluster import WEEK, WINDOWS, Cluster
from config.location import Location
from config.problem import Problem
from config.queueing import Queueing
from config.serving import ServedModel, disaggregated, single_hosts
from config.storage import Storage
from config.tpu_pools import DynamicPool, TpuPool

PATH = "tpuserve:cluster"
EXCLUSIONS = f"{PATH}.maintenance.exclusions"
AUTHORIZED = docs("Customize your network isolation in GKE")
DYNAMIC = docs("Schedule dynamic slices with Kueue and TAS")
PLAN_TPUS = docs("Plan TPUs in GKE")
GPUS = docs("About GPUs in GKE")
ARM = docs("Arm workloads on GKE")

TAINTED = "nodes are tainted: operators and gateways cannot land on them"

ALL_ADDRESSES = 1 << 32
WIDEST = 8
"""Shortest prefix anybody's own network has."""

LONGEST_FREEZE = 90
MOST_FREEZES = 3
AVAILABILITY_HOURS = 48
AVAILABILITY_DAYS = (32, 92)
"""The page names one or the other, by its age."""


def the_version_carries_what_is_used(
    cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for floor, users in _floors(tpu_pools).items():
        yield from _below(floor, cluster, users)


def the_version_carries_the_slices(
    cluster: Cluster,
    tpu_pools: dict[str, TpuPool],
    queueing: Queueing | None,
    serving: dict[str, ServedModel],
) -> Iterator[Problem]:
    users = list(_sub_slices(queueing, serving))
    if users and any(isinstance(pool, DynamicPool) for pool in tpu_pools.values()):
        yield from _below(SUB_SLICING, cluster, users)


def the_version_carries_the_servers(
    cluster: Cluster, serving: dict[str, ServedModel], storage: Storage, secrets: frozenset[str]
) -> Iterator[Problem]:
    every = [f"serving.{key}" for key in serving]
    keyed = [f"serving.{key}.apiKeySecret" for key, said in serving.items() if said.api_key_secret]
    token = ["the hub's token"] if secrets or storage.hugging_face_secret else []
    hosts = single_hosts(serving)
    scaled = [f"serving.{key}" for key, said in hosts.items() if said.replicas.scale]
    for floor, users in (
        (SIDECARS, every),
        (SLEEP, every),
        (SECRET_FILES, keyed + token if every else []),
        (HPA_PROFILE, scaled),
    ):
        if users:
            yield from _below(floor, cluster, users)


def _sub_slices(queueing: Queueing | None, serving: dict[str, ServedModel]) -> Iterator[str]:
    """Where slices smaller than a cube are asked for."""
    said = {f"serving.{key}": model.slice for key, model in disaggregated(serving).items()}
    if queueing is not None:
        said |= {f"queueing.jobs.{key}": job.shape for key, job in queueing.jobs.items()}
        said |= {f"queueing.shapes {shape}": shape for shape in queueing.shapes}
    return (where for where, shape in said.items() if parse_topology(shape) in SUB_CUBE)


def _below(floor: Floor, cluster: Cluster, users: list[str]) -> Iterator[Problem]:
    if GkeVersion.parse(cluster.version) < floor.version:
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
            needed.append(SUPER_SLICING)
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


def upgrades_have_time(cluster: Cluster, today: date) -> Iterator[Problem]:
    window = cluster.maintenance.window
    freezes = {
        name: (each.start, each.ends.date())
        for name, each in cluster.maintenance.exclusions.items()
        if each.scope == "NO_UPGRADES" and each.ends and each.ends.date() > today
        # A longer one is refused anyway.
        if (each.ends - each.starts).days <= LONGEST_FREEZE
    }
    calendar = Calendar(
        weekdays=frozenset(WEEK.index(day) for day in window.days),
        start=window.start,
        hours=window.hours,
        freezes=list(freezes.values()),
    )
    least = {days: calendar.least_hours(days) for days in AVAILABILITY_DAYS}
    short = [days for days, (hours, _) in least.items() if hours < AVAILABILITY_HOURS]
    if not short:
        return
    sure = len(short) == len(AVAILABILITY_DAYS)
    days = max(short)
    hours, begins = least[days]
    spans = " or ".join(map(str, AVAILABILITY_DAYS))
    yield Problem(
        path=EXCLUSIONS if freezes else f"{PATH}.maintenance.window",
        value=", ".join(freezes) or f"{len(set(window.days))} days a week, {window.hours} h",
        rule=f"GKE asks for {AVAILABILITY_HOURS} h of windows outside NO_UPGRADES in every "
        f"{spans} days (its pages disagree); {days} days"
        + (f" from {begins}" if freezes else "")
        + f" have {hours:g}",
        fix=("shorten or move an exclusion, " if freezes else "")
        + "add a day to the window or lengthen its `hours`",
        source=docs("Maintenance windows and exclusions", firm=sure),
        severity="error" if sure else "warning",
    )


def system_nodes_have_no_accelerators(cluster: Cluster) -> Iterator[Problem]:
    machine = cluster.system_pool.machine
    if is_tpu(machine):
        rule, source = f"TPU {TAINTED}", PLAN_TPUS
    elif family(machine) in GPU_FAMILIES:
        rule, source = "GPU nodes are tainted and cost many times as much", GPUS
    elif is_arm(machine):
        rule, source = f"Arm {TAINTED}", ARM
    else:
        return
    yield Problem(
        path=f"{PATH}.systemPool.machine",
        value=machine,
        rule=rule,
        fix="use e2-standard-8, say",
        source=source,
    )


def system_nodes_start_in_every_zone(cluster: Cluster, location: Location) -> Iterator[Problem]:
    zones = len(location.system_zones)
    if not cluster.autopilot and cluster.system_pool.max < zones:
        yield Problem(
            path=f"{PATH}.systemPool.max",
            value=cluster.system_pool.max,
            rule=f"the pool starts with a node in each of the {zones} location.systemZones",
            fix=f"raise it to {zones}, or name fewer zones",
            source=docs("About GKE cluster autoscaling"),
        )


def the_control_plane_is_not_open_to_all(cluster: Cluster) -> Iterator[Problem]:
    path, known = f"{PATH}.access.authorizedNetworks", cluster.access.authorized_networks
    fix = "name your own ranges, or none: the DNS endpoint asks IAM"
    wide = {name for name, found in known.items() if found.prefixlen < WIDEST}
    for name in sorted(wide):
        yield Problem(
            path=f"{path}.{name}",
            value=known[name],
            rule=f"opens the control plane to {_share(known[name].num_addresses)} of all addresses",
            fix=fix,
            source=AUTHORIZED,
        )
    together = sum(each.num_addresses for each in collapse_addresses(known.values()))
    if not wide and together >= ALL_ADDRESSES // 2:
        yield Problem(
            path=path,
            value=f"{len(known)} ranges",
            rule=f"together they open the control plane to {_share(together)} of all addresses",
            fix=fix,
            source=AUTHORIZED,
        )


def _share(addresses: int) -> str:
    return f"{100 * addresses / ALL_ADDRESSES:.3g} %"


def cluster_extras_exist_and_are_free(cluster: Cluster) -> Iterator[Problem]:
    yield from extras(f"{PATH}.extra", cluster.extra, CLUSTER)


CHECKS = (
    the_version_carries_what_is_used,
    the_version_carries_the_slices,
    the_version_carries_the_servers,
    dynamic_slicing_lives_on_rapid,
    exclusions_are_ahead,
    exclusions_keep_their_limits,
    upgrades_have_time,
    system_nodes_have_no_accelerators,
    system_nodes_start_in_every_zone,
    the_control_plane_is_not_open_to_all,
    cluster_extras_exist_and_are_free,
)

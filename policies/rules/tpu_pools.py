"""TPU node pools: topology, placement, capacity, zones, upgrades."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.kinds import RESOURCE_POLICY
from rules.model import DROP, Guard, Resource, Setting, Severity, Stack, rule
from rules.pools import (
    TPU_POOL,
    capacity_kind,
    hosts,
    machine_of,
    topology_of,
)

RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_RESERVATION = re.compile(
    r"(projects/[^/]+/reservations/)?[a-z]([-a-z0-9]*[a-z0-9])?"
    r"(/reservationBlocks/[^/]+(/reservationSubBlocks/[^/]+)?)?"
)
WORKLOAD_POLICY = RESOURCE_POLICY.where("workload policies", lambda p: p.has("workloadPolicy"))
RESERVED_POOL = TPU_POOL.where(
    "TPU pools on a reservation", lambda p: capacity_kind(p) == "reservation"
)


def _multi_host(pool: Resource) -> bool:
    topology, machine = pool.text("placementPolicy.tpuTopology"), machine_of(pool)
    return bool(topology and machine and hosts(topology, machine) > 1)


@rule(
    "TPU-01",
    "A TPU topology exists for its generation.",
    severity=Severity.HIGH,
    on=TPU_POOL | WORKLOAD_POLICY,
    fix="Choose a topology the machine type offers.",
    url=links.PLAN_TPUS,
    guards=[
        Guard("placementPolicy.tpuTopology", "3x5", on=TPU_POOL.where(
            "pools with a topology", lambda p: p.has("placementPolicy.tpuTopology"))),
        Guard("workloadPolicy.acceleratorTopology", "4x4x5", on=WORKLOAD_POLICY),
        Guard("workloadPolicy.acceleratorTopology", "8x4x4", on=WORKLOAD_POLICY),
    ],
)  # fmt: skip
def topology_exists(thing: Resource) -> Iterator[str]:
    path = "workloadPolicy.acceleratorTopology"
    generation = facts.TPU7X  # the one generation that takes workload policies
    if thing.has("nodeConfig"):
        path, machine = "placementPolicy.tpuTopology", machine_of(thing)
        if machine is None:
            return
        generation = machine.generation
    topology = thing.text(path)
    if topology:
        fault = facts.topology_fault(topology, generation)
        if fault:
            yield f"{path} {topology} {fault}: choose one of the generation's topologies"


@rule(
    "TPU-02",
    "A single-host pool names no topology and no policy.",
    severity=Severity.MEDIUM,
    on=TPU_POOL,
    fix="Remove placementPolicy; the API refuses a topology on a single-host pool.",
    url=links.PLAN_TPUS,
    guards=[
        Guard("placementPolicy", {"type": "COMPACT", "tpuTopology": "2x4"},
              when=lambda p: bool((m := machine_of(p)) and m.single_host_only)),
    ],
)  # fmt: skip
def single_host_has_no_topology(pool: Resource) -> Iterator[str]:
    machine, topology = machine_of(pool), pool.text("placementPolicy.tpuTopology")
    if machine is None or not pool.has("placementPolicy"):
        return
    if machine.single_host_only or (topology and hosts(topology, machine) == 1):
        yield "placementPolicy is set on a single-host pool, which the API refuses: remove it"


def _is_multi(pool: Resource) -> bool:
    return pool.has("placementPolicy.policyName") or _multi_host(pool)


@rule(
    "TPU-03",
    "A multi-host pool has exactly the hosts of its slice.",
    severity=Severity.HIGH,
    on=TPU_POOL,
    whole_stack=True,
    fix="Set nodeCount to chips / chips per host; with autoscaling 0 or all hosts, per zone.",
    url=links.PLAN_TPUS,
    guards=[
        Guard("nodeCount", lambda n: n + 1, when=lambda p: _is_multi(p) and p.has("nodeCount")),
        Guard("initialNodeCount", lambda n: n + 1,
              when=lambda p: _is_multi(p) and bool(p.number("initialNodeCount"))),
        Guard("autoscaling", {"totalMaxNodeCount": 2, "locationPolicy": "ANY"},
              when=_is_multi),
        Guard("autoscaling.maxNodeCount", lambda n: n - 1,
              when=lambda p: _is_multi(p) and p.has("autoscaling.maxNodeCount")),
        Guard("autoscaling.minNodeCount", 1,
              when=lambda p: _is_multi(p) and p.has("autoscaling.maxNodeCount")),
    ],
)  # fmt: skip
def hosts_of_the_slice(pool: Resource, stack: Stack) -> Iterator[str]:
    machine, topology = machine_of(pool), topology_of(pool, stack)
    if machine is None or topology is None:
        return
    need = hosts(topology, machine)
    if need <= 1:
        return
    scaling = pool.node("autoscaling")
    if scaling.value is None:
        for path in ("nodeCount", "initialNodeCount"):
            count = pool.number(path)
            if count is not None and count != need:
                yield f"{path} is {count}: a {topology} slice has {need} hosts; set {need}"
        if not pool.has("nodeCount") and not pool.has("initialNodeCount"):
            yield f"no node count: a {topology} slice has {need} hosts; set nodeCount {need}"
        return
    first = pool.number("initialNodeCount")
    if first not in {None, 0, need}:
        yield f"initialNodeCount must be 0 or {need}: a slice has all hosts or none"
    for field in ("totalMinNodeCount", "totalMaxNodeCount"):
        if scaling.number(field):
            yield f"{scaling.at(field)} is refused for multi-host pools: use maxNodeCount {need}"
    if scaling.number("maxNodeCount") not in {None, need}:
        yield f"{scaling.at('maxNodeCount')} must be {need}, all hosts of {topology}"
    if scaling.number("minNodeCount") not in {None, 0, need}:
        yield f"{scaling.at('minNodeCount')} must be 0 or {need}: a slice has all hosts or none"
    if scaling.text("locationPolicy") != "ANY":
        yield f"{scaling.at('locationPolicy')} must be ANY"


@rule(
    "TPU-04",
    "A multi-host pool has the placement its generation needs.",
    severity=Severity.HIGH,
    on=TPU_POOL,
    fix="TPU7x: policyName of a workload policy. Earlier ones: type COMPACT with tpuTopology.",
    url=links.PLAN_TPUS,
    guards=[
        Guard("placementPolicy", {"type": "COMPACT", "tpuTopology": "4x4x4"},
              when=lambda p: (m := machine_of(p)) is not None and m.generation is facts.TPU7X
              and p.has("placementPolicy.policyName")),
        Guard("placementPolicy.policyName", "projects/p/regions/r/resourcePolicies/n",
              when=lambda p: p.has("placementPolicy.policyName")),
        Guard("placementPolicy.type", "",
              when=lambda p: _multi_host(p) and not p.has("placementPolicy.policyName")),
        Guard("@ignore_changes", ("placementPolicy",)),
    ],
)  # fmt: skip
def placement_form(pool: Resource) -> Iterator[str]:
    machine, placement = machine_of(pool), pool.node("placementPolicy")
    name = placement.text("policyName")
    if name and "/" in name:
        yield f"{placement.at('policyName')} is a path: give the bare name of the policy"
    if "placementPolicy" in pool.options.ignore_changes:
        yield (
            "ignoreChanges hides all of placementPolicy, so a new policy would never be seen: "
            "ignore placementPolicy.type and placementPolicy.tpuTopology only"
        )
    if machine is None:
        return
    if machine.generation is facts.TPU7X:
        if not name and (placement.text("type") == "COMPACT" or _multi_host(pool)):
            yield "COMPACT placement of TPU7x ends in ERROR: name a workload policy in policyName"
    elif _multi_host(pool) and not name and placement.text("type") != "COMPACT":
        yield f"{placement.at('type')} must be COMPACT for a multi-host pool of this generation"


@rule(
    "TPU-09",
    "TPU pools take the fast network interface and small pod ranges.",
    severity=Severity.LOW,
    on=TPU_POOL,
    fix="Set gvnic.enabled and maxPodsPerNode to 32 or less.",
    url=links.POD_CIDR,
    settings={
        "maxPodsPerNode": Setting("integer", 32, "most pods per TPU node; 0 does not judge"),
        "networkProfile": Setting(
            "string", "", 'acceleratorNetworkProfile to demand ("auto"); empty does not judge'
        ),
    },
    guards=[
        Guard("nodeConfig.gvnic.enabled", False),
        Guard("maxPodsPerNode", DROP),
        Guard("maxPodsPerNode", 110),
    ],
)
def tpu_network(pool: Resource, settings: dict[str, Any]) -> Iterator[str]:
    if pool.flag("nodeConfig.gvnic.enabled") is not True:
        yield "nodeConfig.gvnic.enabled is off: set it to true"
    limit, count = settings["maxPodsPerNode"], pool.number("maxPodsPerNode")
    if limit and (count is None or count > limit):
        yield f"maxPodsPerNode is {count or 'unset (110)'}: pod addresses run out; set {limit}"
    profile = settings["networkProfile"]
    if profile and pool.text("networkConfig.acceleratorNetworkProfile") != profile:
        yield f"networkConfig.acceleratorNetworkProfile is not {profile}: set it"


@rule(
    "TPU-25",
    "A pool buys its machines in one way, completely stated.",
    severity=Severity.HIGH,
    on=TPU_POOL,
    fix="Choose reservation, on-demand, spot, flex-start or queued, with the fields it needs.",
    url=links.TPUS,
    settings={
        "kinds": Setting(
            "array",
            ["reservation", "on-demand", "spot", "flex-start", "queued"],
            "ways to buy that this environment may use",
        )
    },
    guards=[
        Guard("nodeConfig.spot", True, when=lambda p: capacity_kind(p) == "reservation"),
        Guard("nodeConfig.reservationAffinity.values", [], on=RESERVED_POOL),
        Guard("nodeConfig.reservationAffinity.values", ["a", "b"], on=RESERVED_POOL),
        Guard("nodeConfig.reservationAffinity.key", "name", on=RESERVED_POOL),
        Guard("nodeConfig.reservationAffinity.values", ["my res/x"], on=RESERVED_POOL),
        Guard("nodeConfig.flexStart", True, when=lambda p: capacity_kind(p) == "on-demand"),
        Guard("queuedProvisioning.enabled", True, when=lambda p: capacity_kind(p) == "on-demand"),
    ],
)
def one_way_to_buy(pool: Resource, settings: dict[str, Any]) -> Iterator[str]:
    kind = capacity_kind(pool)
    if "+" in kind:
        yield f"the pool asks for {kind.replace('+', ' and ')} at once: choose one"
        return
    if kind not in settings["kinds"]:
        yield f"the pool is {kind}: this environment allows {', '.join(settings['kinds'])}"
    affinity = pool.node("nodeConfig.reservationAffinity")
    form = affinity.text("consumeReservationType")
    if form == "SPECIFIC_RESERVATION":
        values = affinity.texts("values")
        if affinity.text("key") != RESERVATION_KEY:
            yield f"{affinity.at('key')} must be {RESERVATION_KEY}"
        if len(values) != 1:
            yield f"{affinity.at('values')} must name exactly one reservation"
        elif not _RESERVATION.fullmatch(values[0]):
            yield (
                f"{affinity.at('values')} is not a reservation path such as "
                "projects/P/reservations/R"
            )
    if kind in {"flex-start", "queued"}:
        yield from _on_demand_queue(pool, kind)


def _on_demand_queue(pool: Resource, kind: str) -> Iterator[str]:
    if pool.text("nodeConfig.reservationAffinity.consumeReservationType") != "NO_RESERVATION":
        yield f"{kind} needs nodeConfig.reservationAffinity.consumeReservationType NO_RESERVATION"
    scaling = pool.node("autoscaling")
    least = scaling.number("minNodeCount") or scaling.number("totalMinNodeCount") or 0
    if scaling.value is None or least > 0:
        yield f"{kind} needs autoscaling with minNodeCount 0"
    if pool.number("nodeCount") or pool.number("initialNodeCount"):
        yield f"{kind} starts at 0 nodes: remove nodeCount and set initialNodeCount 0"
    if kind == "flex-start" and pool.flag("management.autoRepair") is not False:
        yield "flex-start needs management.autoRepair false"


@rule(
    "TPU-28",
    "A TPU pool names its zone, inside the region of its cluster.",
    severity=Severity.MEDIUM,
    on=TPU_POOL,
    fix="Set nodeLocations to one zone that has the TPUs.",
    url=links.PLAN_TPUS,
    guards=[
        Guard("nodeLocations", DROP),
        Guard("nodeLocations", ["us-central1-a", "us-central1-b"],
              when=lambda p: p.has("placementPolicy")),
        Guard("nodeLocations", ["asia-east1-a"]),
    ],
)  # fmt: skip
def explicit_zone(pool: Resource) -> Iterator[str]:
    location, zones = pool.text("location") or "", pool.texts("nodeLocations")
    if not zones and not facts.ZONE.fullmatch(location):
        yield "nodeLocations is missing: name the zone that has the TPUs; AI zones are never chosen"
    for zone in zones:
        if not facts.ZONE.fullmatch(zone):
            yield f"nodeLocations has {zone}, which is not a zone"
        elif location and facts.region_of(zone) != facts.region_of(location):
            yield f"nodeLocations has {zone}, which is outside the cluster's {location}"
    if len(zones) > 1 and pool.has("placementPolicy"):
        yield "nodeLocations has several zones: a slice lies in one; name one"


@rule(
    "TPU-29",
    "An upgrade of a TPU pool needs no machines that do not exist.",
    severity=Severity.MEDIUM,
    on=TPU_POOL,
    fix="On a reservation set upgradeSettings.maxSurge 0 and maxUnavailable 1 or more.",
    url=links.DYNAMIC_SLICING,
    guards=[
        Guard("upgradeSettings.strategy", "BLUE_GREEN",
              when=lambda p: p.has("placementPolicy") or capacity_kind(p) == "reservation"),
        Guard("upgradeSettings.maxSurge", 1, on=RESERVED_POOL),
        Guard("upgradeSettings", DROP, on=RESERVED_POOL),
        Guard("upgradeSettings.maxUnavailable", 0, on=RESERVED_POOL),
        Guard("upgradeSettings", {"maxSurge": 5, "maxUnavailable": 16}),
    ],
)  # fmt: skip
def upgrade_fits(pool: Resource) -> Iterator[str]:
    settings = pool.node("upgradeSettings")
    reserved = capacity_kind(pool) == "reservation"
    if settings.text("strategy") == "BLUE_GREEN" and (pool.has("placementPolicy") or reserved):
        yield f"{settings.at('strategy')} BLUE_GREEN needs a second set of machines: use SURGE"
    extra, down = settings.number("maxSurge"), settings.number("maxUnavailable")
    if reserved and extra != 0:
        yield f"{settings.at('maxSurge')} must be 0: the reservation has no spare machine"
    if reserved and (down or 0) < 1:
        yield f"{settings.at('maxUnavailable')} must be 1 or more, 16 for a cube"
    if (extra or 0) + (down or 0) > 20:
        yield f"{settings.at('maxSurge')} + maxUnavailable is above 20, which the API refuses"


@rule(
    "TPU-31",
    "Pools do not repeat the taint GKE adds.",
    severity=Severity.LOW,
    on=TPU_POOL,
    fix="Remove google.com/tpu from nodeConfig.taints.",
    url=links.TPUS,
    guards=[
        Guard("nodeConfig.taints", [{"key": "google.com/tpu", "value": "present",
                                     "effect": "NO_SCHEDULE"}]),
    ],
)  # fmt: skip
def no_repeated_taint(pool: Resource) -> Iterator[str]:
    for taint in pool.each("nodeConfig.taints"):
        if taint.text("key") == "google.com/tpu":
            yield f"{taint.at()} repeats the taint GKE adds to TPU nodes: remove it"


@rule(
    "TPU-32",
    "A TPU pool is given the time it takes, and makes room before it is replaced.",
    severity=Severity.MEDIUM,
    on=TPU_POOL,
    fix="Leave the create timeout at two hours, or above one; set deleteBeforeReplace.",
    url=links.RESOURCE_OPTIONS,
    guards=[
        Guard("@create_timeout_seconds", 1800),
        Guard("@delete_before_replace", False, on=RESERVED_POOL),
        Guard("name", DROP, on=RESERVED_POOL, when=lambda p: not p.options.delete_before_replace),
    ],
)
def patient(pool: Resource) -> Iterator[str]:
    seconds = pool.options.create_timeout_seconds
    if 0 < seconds < 3600:
        yield f"the create timeout is {seconds / 60:.0f} min: a slice may take longer; set 120 min"
    first_new = pool.options.delete_before_replace is False or (
        pool.options.delete_before_replace is None and _auto_named(pool)
    )
    if capacity_kind(pool) == "reservation" and first_new:
        yield "the new pool would be made first, and the reservation cannot hold two: name the pool"


def _auto_named(pool: Resource) -> bool:
    """Whether Pulumi made up the name; a pool with a name of its own is always deleted first."""
    name = pool.text("name")
    return name is None or bool(re.fullmatch(re.escape(pool.name) + r"-[0-9a-f]{7}", name))


@rule(
    "TPU-34",
    "The TPU machine type is one the rules know.",
    severity=Severity.LOW,
    on=TPU_POOL,
    fix="Check the name; for a new type add a row to policies/rules/facts.py.",
    url=links.PLAN_TPUS,
    guards=[Guard("nodeConfig.machineType", "ct9x-standard-4t")],
)
def known_machine(pool: Resource) -> Iterator[str]:
    if machine_of(pool) is None:
        name = pool.text("nodeConfig.machineType")
        yield (
            f"nodeConfig.machineType {name} is not in the table of {facts.READ_ON}: check the name"
        )


@rule(
    "TPU-35",
    "The zone is listed for the TPU generation.",
    severity=Severity.LOW,
    on=TPU_POOL,
    fix="Ask the API which zones have the machine type; the list changes often.",
    url=links.PLAN_TPUS,
    guards=[Guard("nodeLocations", ["us-west2-a"], when=lambda p: machine_of(p) is not None)],
)
def listed_zone(pool: Resource) -> Iterator[str]:
    machine = machine_of(pool)
    if machine is None:
        return
    label = machine.generation.label
    for zone in pool.texts("nodeLocations"):
        if zone not in facts.ZONES[label]:
            yield f"{zone} is not listed for {label} ({facts.READ_ON}): check that it has capacity"


RULES = [
    topology_exists,
    single_host_has_no_topology,
    hosts_of_the_slice,
    placement_form,
    tpu_network,
    one_way_to_buy,
    explicit_zone,
    upgrade_fits,
    no_repeated_taint,
    patient,
    known_machine,
    listed_zone,
]

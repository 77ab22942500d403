"""What GKE refuses of a pool of TPU nodes although the provider's plan lets it pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simcloud.values import Props, get

# TPU machine types and chips of one host (Google Cloud docs, "TPUs in GKE", read 2026-08).
CHIPS = {
    **{f"tpu7x-standard-{chips}t": chips for chips in (1, 4)},
    **{f"ct6e-standard-{chips}t": chips for chips in (1, 4, 8)},
    **{f"ct5p-hightpu-{chips}t": chips for chips in (1, 2, 4)},
    **{f"ct5lp-hightpu-{chips}t": chips for chips in (1, 4, 8)},
    "ct4p-hightpu-4t": 4,
}

# The chips of these hosts are never joined to those of others (same page).
_SINGLE = frozenset(name for name, chips in CHIPS.items() if chips != 4)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The inputs of a node pool, and the workload policy it names; {} for none."""

    given: Props
    policy: Props

    @property
    def machine(self) -> str:
        return str(get(self.given, "nodeConfig.machineType"))

    @property
    def topology(self) -> str:
        """What the workload policy says; the pool's own word where it names none."""
        own = get(self.given, "placementPolicy.tpuTopology")
        return str(get(self.policy, "acceleratorTopology") or own or "")

    @property
    def hosts(self) -> int:
        """Hosts of one slice."""
        edges = self.topology.split("x")
        chips = math.prod(map(int, edges)) if all(edge.isdigit() for edge in edges) else 0
        return max(1, chips // CHIPS[self.machine])

    @property
    def nodes(self) -> int:
        """Nodes in each zone when the pool is made or resized; 0 where a pool starts empty."""
        return int(get(self.given, "nodeCount") or get(self.given, "initialNodeCount") or 0)

    @property
    def dynamic(self) -> bool:
        """Whether its hosts are made without links, for dynamic slicing."""
        return bool(get(self.policy, "acceleratorTopologyMode") == "PROVISION_ONLY")

    def is_7x(self) -> bool:
        return self.machine.startswith("tpu7x")

    def has(self, path: str) -> bool:
        return bool(get(self.given, path))


def refusals(pool: Pool) -> Iterator[str]:
    """Every reason for which the API does not take the pool."""
    for holds, reason in _REFUSALS:
        if holds(pool):
            yield reason.format(pool=pool)


_REFUSALS: tuple[tuple[Callable[[Pool], bool], str], ...] = (
    # AI-Hypercomputer/xpk PR 825.
    (
        lambda pool: pool.machine in _SINGLE and pool.has("placementPolicy"),
        "a TPU topology or placement policy cannot be specified with a single-host slice pool "
        "({pool.machine})",
    ),
    # Google Cloud docs, "TPUs in GKE": a multi-host pool is one whole slice.
    (
        lambda pool: pool.hosts > 1 and pool.nodes not in (0, pool.hosts),
        "a multi-host TPU pool of {pool.machine} with topology {pool.topology} has "
        "{pool.hosts} nodes, not {pool.nodes}",
    ),
    # vllm-project/ci-infra PR 547.
    (
        lambda pool: (
            pool.is_7x()
            and get(pool.given, "placementPolicy.type") == "COMPACT"
            and not pool.has("placementPolicy.policyName")
        ),
        "managed instance groups of tpu7x machines with a placement policy are not supported; "
        "use a workload policy",
    ),
    # GoogleCloudPlatform/cluster-toolkit 1047080, pkg/config/hardware.go.
    (
        lambda pool: pool.is_7x() and str(get(pool.given, "nodeConfig.diskType")).startswith("pd-"),
        "{pool.machine} does not boot from Persistent Disk; use hyperdisk-balanced",
    ),
    # vllm-project/ci-infra PR 545.
    (
        lambda pool: pool.hosts > 1 and pool.has("autoscaling.totalMaxNodeCount"),
        "maximum node count 0 is invalid for topology {pool.topology}: limit the nodes by zone "
        "(maxNodeCount)",
    ),
    # Google Cloud docs, "Schedule dynamic slices with Kueue and TAS"; cluster-toolkit 1047080.
    (
        lambda pool: pool.dynamic and pool.has("nodeConfig.spot"),
        "a PROVISION_ONLY workload policy cannot be used with spot VMs",
    ),
    (
        lambda pool: pool.dynamic and pool.has("nodeConfig.flexStart"),
        "a PROVISION_ONLY workload policy cannot be used with flex-start",
    ),
    (
        lambda pool: pool.dynamic and pool.has("queuedProvisioning.enabled"),
        "a PROVISION_ONLY workload policy cannot be used with queued provisioning",
    ),
    (
        lambda pool: pool.dynamic and get(pool.given, _RESERVATION) != "SPECIFIC_RESERVATION",
        "a PROVISION_ONLY workload policy needs a SPECIFIC_RESERVATION",
    ),
)

_RESERVATION = "nodeConfig.reservationAffinity.consumeReservationType"

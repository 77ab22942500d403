"""TPU node pools: slices of a fixed shape, and cubes for dynamic slicing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_gcp as gcp

from catalog.accelerators import Slice
from catalog.names import PROVISION_ONLY, cube_pool, workload_policy
from catalog.upgrades import surge
from components.cluster import hardened
from components.extra import with_extra

DISK_GB = 200
TIMEOUT = "3h"
"""Pools of 16 hosts queue behind each other's operations; the provider's own limit is 2 h."""

RESERVATION_NAME = "compute.googleapis.com/reservation-name"

DRIFTING = ["placementPolicy.type", "placementPolicy.tpuTopology"]
"""Beside a workload policy the API answers these as it likes, and the provider cannot update
them (vllm-project/ci-infra PR 547; GoogleCloudPlatform/magic-modules PR 17643)."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where the pools of a stack stand and what their nodes run as."""

    project: str
    region: str
    zone: str
    stack: str
    cluster: pulumi.Input[str]
    node_account: pulumi.Input[str]
    labels: Mapping[str, str]
    after: Sequence[pulumi.Resource] = ()
    """What a workload policy waits for; pools wait for the cluster anyway."""


@dataclass(frozen=True, kw_only=True)
class PoolArgs:
    """What both kinds of TPU pool need to know."""

    site: Site
    slice: Slice
    pods_per_node: int
    placement_type: str
    """Sent beside a workload policy: empty or COMPACT; sources disagree which is right."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    """Kernel parameters of every node."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TpuPoolArgs(PoolArgs):
    min_slices: int
    max_slices: int
    reservation: str | None
    """Path projects/P/reservations/R, down to a block or sub-block."""
    spot: bool
    flex_start_hours: int | None


@dataclass(frozen=True, kw_only=True)
class DynamicSlicePoolsArgs(PoolArgs):
    reservations: Sequence[str]
    """One reservation path per cube, with its block."""


class TpuPool(pulumi.ComponentResource):
    """One node pool of one slice shape."""

    pool_name: pulumi.Output[str]

    def __init__(
        self, name: str, args: TpuPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:tpu_pool:TpuPool", name, None, opts)

        policy = None
        if args.slice.needs_policy:
            policy = _workload_policy(self, f"{name}-policy", name, args, mode=None)
        fixed = args.min_slices == args.max_slices
        pool = _pool(
            self,
            f"{name}-pool",
            name,
            args,
            policy=policy,
            reservation=args.reservation,
            spot=args.spot or None,
            flex_start_hours=args.flex_start_hours,
            nodes={"node_count": args.slice.hosts * args.max_slices}
            if fixed
            else {
                "initial_node_count": args.slice.hosts * args.min_slices,
                # A total limit reads as a limit of 0 per zone where slices have many hosts
                # (vllm-project/ci-infra PR 545).
                "autoscaling": gcp.container.NodePoolAutoscalingArgs(
                    min_node_count=args.slice.hosts * args.min_slices,
                    max_node_count=args.slice.hosts * args.max_slices,
                    location_policy="ANY",
                ),
            },
        )

        self.pool_name = pool.name
        self.register_outputs({"pool_name": self.pool_name})


class DynamicSlicePools(pulumi.ComponentResource):
    """One node pool per cube, made without links; slices join their chips later."""

    pool_names: pulumi.Output[Sequence[str]]

    def __init__(
        self, name: str, args: DynamicSlicePoolsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:tpu_pool:DynamicSlicePools", name, None, opts)

        policy = _workload_policy(self, f"{name}-policy", name, args, mode=PROVISION_ONLY)
        pools = [
            _pool(
                self,
                cube_pool(name, index),
                cube_pool(name, index),
                args,
                policy=policy,
                reservation=reservation,
                nodes={"node_count": args.slice.hosts},
                host_maintenance="AS_NEEDED",
            )
            for index, reservation in enumerate(args.reservations)
        ]

        self.pool_names = pulumi.Output.all(*(pool.name for pool in pools))
        self.register_outputs({"pool_names": self.pool_names})


def _workload_policy(
    parent: pulumi.Resource, name: str, pool: str, args: PoolArgs, *, mode: str | None
) -> gcp.compute.ResourcePolicy:
    return gcp.compute.ResourcePolicy(
        name,
        name=workload_policy(args.site.stack, pool, args.slice.shape, mode),
        project=args.site.project,
        region=args.site.region,
        workload_policy=gcp.compute.ResourcePolicyWorkloadPolicyArgs(
            type="HIGH_THROUGHPUT",
            accelerator_topology=args.slice.shape,
            accelerator_topology_mode=mode,
        ),
        opts=pulumi.ResourceOptions(
            parent=parent, delete_before_replace=True, depends_on=list(args.site.after)
        ),
    )


def _pool(
    parent: pulumi.Resource,
    name: str,
    physical: str,
    args: PoolArgs,
    *,
    policy: gcp.compute.ResourcePolicy | None,
    reservation: str | None,
    nodes: Mapping[str, Any],
    spot: bool | None = None,
    flex_start_hours: int | None = None,
    host_maintenance: str | None = None,
) -> gcp.container.NodePool:
    flex = flex_start_hours is not None
    upgrade = surge(args.slice, reserved=reservation is not None)
    return gcp.container.NodePool(
        name,
        with_extra(
            gcp.container.NodePoolArgs(
                name=physical,
                project=args.site.project,
                location=args.site.region,
                # Never left to GKE: it picks no AI zone by itself.
                node_locations=[args.site.zone],
                cluster=args.site.cluster,
                max_pods_per_node=args.pods_per_node,
                placement_policy=_placement(args, policy),
                # Repair would replace nodes that flex-start cannot get again.
                management=gcp.container.NodePoolManagementArgs(
                    auto_repair=not flex, auto_upgrade=True
                ),
                upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(
                    strategy="SURGE",
                    max_surge=upgrade.max_surge,
                    max_unavailable=upgrade.max_unavailable,
                ),
                network_config=gcp.container.NodePoolNetworkConfigArgs(enable_private_nodes=True),
                node_config=gcp.container.NodePoolNodeConfigArgs(
                    machine_type=args.slice.machine.name,
                    disk_type=args.slice.accelerator.boot_disk,
                    disk_size_gb=DISK_GB,
                    service_account=args.site.node_account,
                    spot=spot,
                    flex_start=flex or None,
                    max_run_duration=None
                    if flex_start_hours is None
                    else f"{flex_start_hours * 3600}s",
                    reservation_affinity=_reservation(reservation, flex=flex),
                    host_maintenance_policy=None
                    if host_maintenance is None
                    else gcp.container.NodePoolNodeConfigHostMaintenancePolicyArgs(
                        maintenance_interval=host_maintenance
                    ),
                    linux_node_config=gcp.container.NodePoolNodeConfigLinuxNodeConfigArgs(
                        sysctls=dict(args.sysctls)
                    )
                    if args.sysctls
                    else None,
                    **hardened(args.site.stack, args.site.labels),
                ),
                **nodes,
            ),
            args.extra,
        ),
        opts=pulumi.ResourceOptions(
            parent=parent,
            # There are no hosts for a second pool beside the first one.
            delete_before_replace=True,
            ignore_changes=[
                *(DRIFTING if policy is not None else []),
                *(["initialNodeCount"] if "initial_node_count" in nodes else []),
            ],
            replace_on_changes=[] if policy is not None else DRIFTING,
            custom_timeouts=pulumi.CustomTimeouts(create=TIMEOUT, update=TIMEOUT, delete=TIMEOUT),
        ),
    )


def _placement(
    args: PoolArgs, policy: gcp.compute.ResourcePolicy | None
) -> gcp.container.NodePoolPlacementPolicyArgs | None:
    # GKE refuses any placement on a pool of single hosts (AI-Hypercomputer/xpk PR 825).
    if not args.slice.multi_host:
        return None
    if policy is None:
        return gcp.container.NodePoolPlacementPolicyArgs(
            type="COMPACT", tpu_topology=args.slice.shape
        )
    return gcp.container.NodePoolPlacementPolicyArgs(
        type=args.placement_type, policy_name=policy.name
    )


def _reservation(
    path: str | None, *, flex: bool
) -> gcp.container.NodePoolNodeConfigReservationAffinityArgs | None:
    if path is not None:
        return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="SPECIFIC_RESERVATION", key=RESERVATION_NAME, values=[path]
        )
    if flex:
        return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="NO_RESERVATION"
        )
    return None

"""What every stack stands on: APIs, a network, a cluster, pools of TPU hosts."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from catalog.names import node_tag
from catalog.zones import is_ai_zone
from components.cluster import Cluster, ClusterArgs, Exclusion
from components.kubernetes import cluster_provider
from components.network import Network, NetworkArgs
from components.project import ProjectServices, ProjectServicesArgs
from components.tpu_pool import (
    DynamicSlicePools,
    DynamicSlicePoolsArgs,
    Site,
    TpuPool,
    TpuPoolArgs,
)
from config.sizes import pods_per_node
from config.stack import Stack
from config.tpu_pools import DynamicPool


@dataclass(frozen=True, kw_only=True)
class Foundation:
    services: ProjectServices
    network: Network
    cluster: Cluster
    pools: Mapping[str, pulumi.Resource]
    """By key of the stack file; Autopilot makes its own."""
    on_google: pulumi.ResourceOptions
    """Protected, in a stack that is."""
    on_cluster: pulumi.ResourceOptions


def foundation(stack: Stack) -> Foundation:
    google = gcp.Provider("google", project=stack.project, region=stack.location.region)
    on_google = pulumi.ResourceOptions(providers=[google], protect=stack.protect)
    services = ProjectServices(
        "services",
        ProjectServicesArgs(project=stack.project, ai_zones=is_ai_zone(stack.location.zone)),
        pulumi.ResourceOptions(providers=[google]),
    )
    network = _network(stack, services, on_google)
    cluster = _cluster(stack, services, network, on_google)
    pools = {} if stack.cluster.autopilot else _pools(stack, services, cluster, on_google)
    kubernetes = cluster_provider("kubernetes", cluster)
    return Foundation(
        services=services,
        network=network,
        cluster=cluster,
        pools=pools,
        on_google=on_google,
        on_cluster=pulumi.ResourceOptions(providers=[google, kubernetes]),
    )


def _network(stack: Stack, services: ProjectServices, opts: pulumi.ResourceOptions) -> Network:
    return Network(
        stack.name,
        NetworkArgs(
            project=stack.project,
            region=stack.location.region,
            mtu=stack.network.mtu,
            nodes=stack.network.nodes,
            pods=stack.network.pods,
            services=stack.network.services,
            proxy_only=stack.network.proxy_only,
            control_plane=stack.network.control_plane,
            node_tag=node_tag(stack.name),
            extra=stack.network.extra.model_dump(),
            after=[services.services["compute"]],
        ),
        opts,
    )


def _cluster(
    stack: Stack, services: ProjectServices, network: Network, opts: pulumi.ResourceOptions
) -> Cluster:
    return Cluster(
        stack.name,
        ClusterArgs(
            project=stack.project,
            region=stack.location.region,
            system_zones=stack.location.system_zones,
            network=network.network,
            subnetwork=network.subnetwork,
            autopilot=stack.cluster.autopilot,
            control_plane=stack.network.control_plane,
            channel=stack.cluster.channel,
            version=stack.cluster.version,
            slice_controller=stack.slices_dynamically,
            external_access=stack.cluster.access.external,
            authorized_networks=stack.cluster.access.authorized_networks,
            window_starts=stack.cluster.maintenance.window.starts,
            window_ends=stack.cluster.maintenance.window.ends,
            window_recurrence=stack.cluster.maintenance.window.recurrence,
            exclusions=[
                Exclusion(name=key, scope=each.scope, starts=each.starts, ends=each.ends)
                for key, each in stack.cluster.maintenance.exclusions.items()
            ],
            system_machine=stack.cluster.system_pool.machine,
            system_min=stack.cluster.system_pool.min,
            system_max=stack.cluster.system_pool.max,
            labels=stack.resource_labels,
            deletion_protection=stack.protect,
            extra=stack.cluster.extra,
            after=[services],
        ),
        opts,
    )


def _pools(
    stack: Stack, services: ProjectServices, cluster: Cluster, opts: pulumi.ResourceOptions
) -> dict[str, pulumi.Resource]:
    site = Site(
        project=stack.project,
        region=stack.location.region,
        zone=stack.location.zone,
        stack=stack.name,
        cluster=cluster.cluster_id,
        node_account=cluster.node_account,
        labels=stack.resource_labels,
        after=[services.services["compute"]],
    )
    pools: dict[str, pulumi.Resource] = {}
    for key, pool in stack.tpu_pools.items():
        if isinstance(pool, DynamicPool):
            pools[key] = DynamicSlicePools(
                key,
                DynamicSlicePoolsArgs(
                    site=site,
                    slice=pool.slice,
                    pods_per_node=pods_per_node(pool, stack.network.pods),
                    placement_type=pool.placement_type,
                    sysctls=pool.sysctls,
                    reservations=pool.reservations(stack.project),
                    extra=pool.extra,
                ),
                opts,
            )
        else:
            pools[key] = TpuPool(
                key,
                TpuPoolArgs(
                    site=site,
                    slice=pool.slice,
                    pods_per_node=pods_per_node(pool, stack.network.pods),
                    placement_type=pool.placement_type,
                    sysctls=pool.sysctls,
                    min_slices=pool.slices.min,
                    max_slices=pool.slices.max,
                    reservation=pool.reservation(stack.project),
                    spot=pool.capacity.kind == "spot",
                    flex_start_hours=pool.flex_start_hours,
                    extra=pool.extra,
                ),
                opts,
            )
    return pools

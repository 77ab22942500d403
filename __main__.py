"""The stack, in the order it is built: configuration, components, outputs."""

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
from config.load import load
from config.outline import cost_per_hour, describe
from config.sizes import pods_per_node
from config.tpu_pools import DynamicPool

stack = load()
project, region = stack.project, stack.location.region

google = gcp.Provider("google", project=project, region=region)
shared = pulumi.ResourceOptions(providers=[google], protect=stack.protect)

services = ProjectServices(
    "services",
    ProjectServicesArgs(project=project, ai_zones=is_ai_zone(stack.location.zone)),
    pulumi.ResourceOptions(providers=[google]),
)

network = Network(
    stack.name,
    NetworkArgs(
        project=project,
        region=region,
        mtu=stack.network.mtu,
        nodes=stack.network.nodes,
        pods=stack.network.pods,
        services=stack.network.services,
        proxy_only=stack.network.proxy_only,
        control_plane=stack.network.control_plane,
        node_tag=node_tag(stack.name),
        after=[services.services["compute"]],
    ),
    shared,
)

cluster = Cluster(
    stack.name,
    ClusterArgs(
        project=project,
        region=region,
        system_zones=stack.location.system_zones,
        network=network.network,
        subnetwork=network.subnetwork,
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
    shared,
)

site = Site(
    project=project,
    region=region,
    zone=stack.location.zone,
    stack=stack.name,
    cluster=cluster.cluster_id,
    node_account=cluster.node_account,
    labels=stack.resource_labels,
)
for key, pool in stack.tpu_pools.items():
    if isinstance(pool, DynamicPool):
        DynamicSlicePools(
            key,
            DynamicSlicePoolsArgs(
                site=site,
                slice=pool.slice,
                pods_per_node=pods_per_node(pool, stack.network.pods),
                placement_type=pool.placement_type,
                reservations=pool.reservations(project),
                extra=pool.extra,
            ),
            shared,
        )
    else:
        TpuPool(
            key,
            TpuPoolArgs(
                site=site,
                slice=pool.slice,
                pods_per_node=pods_per_node(pool, stack.network.pods),
                placement_type=pool.placement_type,
                min_slices=pool.slices.min,
                max_slices=pool.slices.max,
                reservation=pool.reservation(project),
                spot=pool.capacity.kind == "spot",
                flex_start_hours=pool.flex_start_hours,
                extra=pool.extra,
            ),
            shared,
        )

kubernetes = cluster_provider("kubernetes", cluster)

pulumi.export(
    "cluster",
    {
        "project": project,
        "name": cluster.cluster_name,
        "location": region,
        "endpoint": cluster.endpoint,
        "credentials": pulumi.Output.concat(
            "gcloud container clusters get-credentials ",
            cluster.cluster_name,
            f" --location={region} --project={project} --dns-endpoint",
        ),
    },
)
pulumi.export(
    "network",
    {
        "network": network.network,
        "subnetwork": network.subnetwork,
        "proxyOnlySubnetwork": network.proxy_only_subnetwork,
    },
)
pulumi.export("tpuPools", {key: describe(pool) for key, pool in stack.tpu_pools.items()})
pulumi.export("costPerHour", cost_per_hour(stack))
pulumi.export("versions", {"gke": stack.cluster.version, "channel": stack.cluster.channel})

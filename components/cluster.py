"""The GKE cluster: control plane, the identity its nodes run as, and nodes without TPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network
from typing import Any

import pulumi
import pulumi_gcp as gcp

from catalog.addresses import SYSTEM_PODS_PER_NODE
from catalog.machines import boot_disk
from catalog.names import SYSTEM_POOL, node_account, node_tag
from components.extra import with_extra
from components.network import PODS_RANGE, SERVICES_RANGE

NODE_ROLES = {
    "logs-and-metrics": "roles/container.defaultNodeServiceAccount",
    "images": "roles/artifactregistry.reader",
}
"""Least roles of a node (GKE docs 'Harden your cluster's security', read 2026-08)."""


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """A time without upgrades; without an end it lasts until the version's end of support."""

    name: str
    scope: str
    starts: datetime
    ends: datetime | None


@dataclass(frozen=True, kw_only=True)
class ClusterArgs:
    project: str
    region: str
    autopilot: bool
    """GKE makes the nodes; the fields of system nodes are then left alone."""
    system_zones: Sequence[str]
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    control_plane: IPv4Network
    channel: str
    version: str
    slice_controller: bool
    external_access: bool
    """Whether the DNS endpoint answers outside Google Cloud; IAM decides either way."""
    authorized_networks: Mapping[str, IPv4Network]
    window_starts: datetime
    window_ends: datetime
    window_recurrence: str
    exclusions: Sequence[Exclusion]
    system_machine: str
    system_min: int
    system_max: int
    labels: Mapping[str, str]
    deletion_protection: bool
    extra: Mapping[str, Any] = field(default_factory=dict)
    after: Sequence[pulumi.Resource] = ()


class Cluster(pulumi.ComponentResource):
    """A regional cluster with private nodes: Standard with a system pool, or Autopilot."""

    cluster_id: pulumi.Output[str]
    cluster_name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    """DNS name of the control plane; asks IAM, serves a public certificate."""
    node_account: pulumi.Output[str]
    ready: pulumi.Resource
    """Exists once pods without TPUs can run."""

    def __init__(
        self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:cluster:Cluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.after)))

        account = gcp.serviceaccount.Account(
            f"{name}-nodes",
            project=args.project,
            account_id=node_account(name),
            display_name=f"Nodes of GKE cluster {name}",
            opts=first,
        )
        roles = [
            gcp.projects.IAMMember(
                f"{name}-nodes-{key}",
                project=args.project,
                role=role,
                member=account.member,
                opts=child,
            )
            for key, role in NODE_ROLES.items()
        ]
        cluster = gcp.container.Cluster(
            f"{name}-cluster",
            with_extra(
                gcp.container.ClusterArgs(
                    name=name,
                    project=args.project,
                    location=args.region,
                    network=args.network,
                    subnetwork=args.subnetwork,
                    networking_mode="VPC_NATIVE",
                    ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
                        cluster_secondary_range_name=PODS_RANGE,
                        services_secondary_range_name=SERVICES_RANGE,
                    ),
                    private_cluster_config=gcp.container.ClusterPrivateClusterConfigArgs(
                        enable_private_nodes=True,
                        master_ipv4_cidr_block=str(args.control_plane),
                    ),
                    control_plane_endpoints_config=_endpoints(args),
                    master_authorized_networks_config=_authorized(args.authorized_networks),
                    release_channel=gcp.container.ClusterReleaseChannelArgs(channel=args.channel),
                    min_master_version=args.version,
                    maintenance_policy=_maintenance(args),
                    gateway_api_config=gcp.container.ClusterGatewayApiConfigArgs(
                        channel="CHANNEL_STANDARD"
                    ),
                    secret_manager_config=gcp.container.ClusterSecretManagerConfigArgs(
                        enabled=True
                    ),
                    security_posture_config=gcp.container.ClusterSecurityPostureConfigArgs(
                        mode="BASIC", vulnerability_mode="VULNERABILITY_DISABLED"
                    ),
                    rbac_binding_config=gcp.container.ClusterRbacBindingConfigArgs(
                        enable_insecure_binding_system_authenticated=False,
                        enable_insecure_binding_system_unauthenticated=False,
                    ),
                    service_external_ips_config=gcp.container.ClusterServiceExternalIpsConfigArgs(
                        enabled=False
                    ),
                    # AutoscalingMetric needs it (GKE docs, "Expose custom metrics").
                    pod_autoscaling=gcp.container.ClusterPodAutoscalingArgs(
                        hpa_profile="PERFORMANCE"
                    ),
                    logging_config=gcp.container.ClusterLoggingConfigArgs(
                        enable_components=["SYSTEM_COMPONENTS", "WORKLOADS"]
                    ),
                    monitoring_config=gcp.container.ClusterMonitoringConfigArgs(
                        enable_components=["SYSTEM_COMPONENTS"],
                        managed_prometheus=gcp.container.ClusterMonitoringConfigManagedPrometheusArgs(
                            enabled=True
                        ),
                    ),
                    cost_management_config=gcp.container.ClusterCostManagementConfigArgs(
                        enabled=True
                    ),
                    resource_labels=dict(args.labels),
                    deletion_protection=args.deletion_protection,
                    **(_autopilot(name, account) if args.autopilot else _standard(args, account)),
                ),
                args.extra,
            ),
            opts=first.merge(
                pulumi.ResourceOptions(
                    depends_on=roles,
                    # Once its first nodes are gone the API answers with none or with another
                    # pool's, and any edit replaces the cluster (pulumi/pulumi issue 8991).
                    ignore_changes=[] if args.autopilot else ["nodeConfig"],
                )
            ),
        )

        self.cluster_id = cluster.id
        self.cluster_name = cluster.name
        self.endpoint = cluster.control_plane_endpoints_config.apply(_dns_name)
        self.node_account = account.email
        self.ready = cluster
        if not args.autopilot:
            waiting = child.merge(pulumi.ResourceOptions(depends_on=roles))
            self.ready = _system_pool(name, args, cluster, account, waiting)
        self.register_outputs(
            {
                "cluster_id": self.cluster_id,
                "cluster_name": self.cluster_name,
                "endpoint": self.endpoint,
                "node_account": self.node_account,
            }
        )


def _standard(args: ClusterArgs, account: gcp.serviceaccount.Account) -> dict[str, Any]:
    """What a Standard cluster says and Autopilot decides by itself."""
    config = gcp.container
    return {
        "node_locations": list(args.system_zones),
        # Fixed at birth: changing it replaces the cluster.
        "datapath_provider": "ADVANCED_DATAPATH",
        "remove_default_node_pool": True,
        "initial_node_count": 1,
        # The nodes a cluster starts with, for minutes: else they run as the project's default
        # account and boot unshielded.
        "node_config": config.ClusterNodeConfigArgs(
            service_account=account.email,
            oauth_scopes=["https://www.googleapis.com/auth/cloud-platform"],
            metadata={"disable-legacy-endpoints": "true"},
            shielded_instance_config=config.ClusterNodeConfigShieldedInstanceConfigArgs(
                enable_secure_boot=True, enable_integrity_monitoring=True
            ),
        ),
        "addons_config": _addons(slice_controller=args.slice_controller),
        "workload_identity_config": gcp.container.ClusterWorkloadIdentityConfigArgs(
            workload_pool=f"{args.project}.svc.id.goog"
        ),
        "enable_shielded_nodes": True,
        "node_pool_defaults": gcp.container.ClusterNodePoolDefaultsArgs(
            node_config_defaults=gcp.container.ClusterNodePoolDefaultsNodeConfigDefaultsArgs(
                insecure_kubelet_readonly_port_enabled="FALSE"
            )
        ),
    }


def _autopilot(name: str, account: gcp.serviceaccount.Account) -> dict[str, Any]:
    """The identity and the tag of the nodes Autopilot makes."""
    config = gcp.container
    return {
        "enable_autopilot": True,
        "cluster_autoscaling": config.ClusterClusterAutoscalingArgs(
            auto_provisioning_defaults=(
                config.ClusterClusterAutoscalingAutoProvisioningDefaultsArgs(
                    service_account=account.email,
                    oauth_scopes=["https://www.googleapis.com/auth/cloud-platform"],
                )
            )
        ),
        "node_pool_auto_config": config.ClusterNodePoolAutoConfigArgs(
            network_tags=config.ClusterNodePoolAutoConfigNetworkTagsArgs(tags=[node_tag(name)]),
            node_kubelet_config=config.ClusterNodePoolAutoConfigNodeKubeletConfigArgs(
                insecure_kubelet_readonly_port_enabled="FALSE"
            ),
        ),
    }


def _system_pool(
    name: str,
    args: ClusterArgs,
    cluster: gcp.container.Cluster,
    account: gcp.serviceaccount.Account,
    opts: pulumi.ResourceOptions,
) -> gcp.container.NodePool:
    return gcp.container.NodePool(
        f"{name}-system",
        name=SYSTEM_POOL,
        project=args.project,
        location=args.region,
        cluster=cluster.id,
        node_locations=list(args.system_zones),
        initial_node_count=1,
        max_pods_per_node=SYSTEM_PODS_PER_NODE,
        autoscaling=gcp.container.NodePoolAutoscalingArgs(
            total_min_node_count=args.system_min,
            total_max_node_count=args.system_max,
            location_policy="BALANCED",
        ),
        management=gcp.container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True),
        upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(
            strategy="SURGE", max_surge=1, max_unavailable=0
        ),
        network_config=gcp.container.NodePoolNetworkConfigArgs(enable_private_nodes=True),
        node_config=gcp.container.NodePoolNodeConfigArgs(
            machine_type=args.system_machine,
            disk_type=boot_disk(args.system_machine),
            disk_size_gb=100,
            service_account=account.email,
            **hardened(name, args.labels),
        ),
        opts=opts.merge(
            pulumi.ResourceOptions(
                # The autoscaler owns the count; an edit here would replace the pool.
                ignore_changes=["initialNodeCount"],
                custom_timeouts=pulumi.CustomTimeouts(create="2h", update="2h", delete="2h"),
            )
        ),
    )


def hardened(cluster: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """What the machines of every pool have in common."""
    return {
        "oauth_scopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "image_type": "COS_CONTAINERD",
        "tags": [node_tag(cluster)],
        "resource_labels": dict(labels),
        "metadata": {"disable-legacy-endpoints": "true"},
        "gvnic": gcp.container.NodePoolNodeConfigGvnicArgs(enabled=True),
        # Streams image layers: a model server's image is many gigabytes.
        "gcfs_config": gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=True),
        "shielded_instance_config": gcp.container.NodePoolNodeConfigShieldedInstanceConfigArgs(
            enable_secure_boot=True, enable_integrity_monitoring=True
        ),
        "workload_metadata_config": gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
            mode="GKE_METADATA"
        ),
        "kubelet_config": gcp.container.NodePoolNodeConfigKubeletConfigArgs(
            insecure_kubelet_readonly_port_enabled="FALSE"
        ),
    }


def _endpoints(args: ClusterArgs) -> gcp.container.ClusterControlPlaneEndpointsConfigArgs:
    config = gcp.container
    return config.ClusterControlPlaneEndpointsConfigArgs(
        dns_endpoint_config=config.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
            allow_external_traffic=args.external_access
        ),
        ip_endpoints_config=config.ClusterControlPlaneEndpointsConfigIpEndpointsConfigArgs(
            enabled=bool(args.authorized_networks)
        ),
    )


def _authorized(
    networks: Mapping[str, IPv4Network],
) -> gcp.container.ClusterMasterAuthorizedNetworksConfigArgs | None:
    if not networks:
        return None
    return gcp.container.ClusterMasterAuthorizedNetworksConfigArgs(
        gcp_public_cidrs_access_enabled=False,
        cidr_blocks=[
            gcp.container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(
                display_name=key, cidr_block=str(cidr)
            )
            for key, cidr in networks.items()
        ],
    )


def _addons(*, slice_controller: bool) -> gcp.container.ClusterAddonsConfigArgs:
    return gcp.container.ClusterAddonsConfigArgs(
        gcs_fuse_csi_driver_config=gcp.container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(
            enabled=True
        ),
        http_load_balancing=gcp.container.ClusterAddonsConfigHttpLoadBalancingArgs(disabled=False),
        horizontal_pod_autoscaling=gcp.container.ClusterAddonsConfigHorizontalPodAutoscalingArgs(
            disabled=False
        ),
        # Said even when off: the block is computed, so leaving it out does not switch it off.
        slice_controller_config=gcp.container.ClusterAddonsConfigSliceControllerConfigArgs(
            enabled=slice_controller
        ),
    )


def _maintenance(args: ClusterArgs) -> gcp.container.ClusterMaintenancePolicyArgs:
    return gcp.container.ClusterMaintenancePolicyArgs(
        recurring_window=gcp.container.ClusterMaintenancePolicyRecurringWindowArgs(
            start_time=_utc(args.window_starts),
            end_time=_utc(args.window_ends),
            recurrence=args.window_recurrence,
        ),
        maintenance_exclusions=[_exclusion(each) for each in args.exclusions],
    )


def _exclusion(
    exclusion: Exclusion,
) -> gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs:
    config = gcp.container
    forever = exclusion.ends is None
    return config.ClusterMaintenancePolicyMaintenanceExclusionArgs(
        exclusion_name=exclusion.name,
        start_time=_utc(exclusion.starts),
        end_time=None if exclusion.ends is None else _utc(exclusion.ends),
        exclusion_options=config.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
            scope=exclusion.scope,
            end_time_behavior="UNTIL_END_OF_SUPPORT" if forever else None,
        ),
    )


def _utc(moment: datetime) -> str:
    # Any other form comes back normalised and shows as a change in every preview.
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _dns_name(config: Any) -> str:
    return str(config.dns_endpoint_config.endpoint)

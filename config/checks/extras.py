"""Arguments a stack hands to the provider as they are: they exist, and the program leaves them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.provider_inputs import SOURCE, inputs
from catalog.source import READ, Source, docs
from config.problem import Problem, nearest

PROVIDER = Source("pulumi_gcp 10.2.0, documentation of the resource", READ)
HARDENING = docs("Harden your cluster's security")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why an argument is refused on purpose."""

    rule: str
    fix: str
    source: Source


@dataclass(frozen=True, kw_only=True)
class Hatch:
    """What a resource lets through; a dotted path stands for all below it."""

    resource: str
    owned: frozenset[str]
    """What the program sets itself."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)


def _paths(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _cluster_refusals() -> dict[str, Refusal]:
    nodes = "use tpuPools and cluster.systemPool"
    tpu = Refusal(
        rule="is of the Cloud TPU API, which GKE's TPU node pools do without",
        fix="remove it",
        source=docs("Plan TPUs in GKE"),
    )
    legacy = Refusal(
        rule="excludes the newer logging_config and monitoring_config, which are used",
        fix="set those",
        source=PROVIDER,
    )
    return {
        "master_auth": Refusal(
            rule="a client certificate opens the cluster past IAM and is never revoked",
            fix="remove it; the DNS endpoint asks IAM",
            source=HARDENING,
        ),
        "enable_legacy_abac": Refusal(
            rule="gives rights beside RBAC", fix="remove it", source=HARDENING
        ),
        "enable_kubernetes_alpha": Refusal(
            rule="an alpha cluster is never upgraded and is deleted after 30 days",
            fix="remove it; beta APIs are enable_k8s_beta_apis",
            source=docs("Alpha clusters"),
        ),
        "node_pools": Refusal(
            rule="pools within the cluster's resource replace the cluster when they change",
            fix=nodes,
            source=PROVIDER,
        ),
        "node_config": Refusal(
            rule="is of the nodes a cluster starts with, which are removed at once; an edit "
            "replaces the cluster",
            fix=nodes,
            source=Source("pulumi/pulumi issue 8991", READ),
        ),
        "cluster_ipv4_cidr": Refusal(
            rule="excludes the named ranges of the subnet, which are used",
            fix="set network.pods",
            source=PROVIDER,
        ),
        "enable_tpu": tpu,
        "tpu_config": tpu,
        "logging_service": legacy,
        "monitoring_service": legacy,
    }


CLUSTER = Hatch(
    resource="Cluster",
    owned=_paths(
        """
        addons_config.gcs_fuse_csi_driver_config addons_config.horizontal_pod_autoscaling
        addons_config.http_load_balancing addons_config.slice_controller_config
        control_plane_endpoints_config.dns_endpoint_config.allow_external_traffic
        control_plane_endpoints_config.ip_endpoints_config datapath_provider deletion_protection
        enable_shielded_nodes gateway_api_config initial_node_count ip_allocation_policy location
        maintenance_policy master_authorized_networks_config min_master_version
        monitoring_config.managed_prometheus.enabled name network networking_mode node_locations
        node_pool_defaults.node_config_defaults.insecure_kubelet_readonly_port_enabled
        pod_autoscaling private_cluster_config.enable_private_nodes
        private_cluster_config.master_ipv4_cidr_block project rbac_binding_config release_channel
        remove_default_node_pool resource_labels secret_manager_config.enabled
        service_external_ips_config subnetwork workload_identity_config
        """
    ),
    refused=_cluster_refusals(),
)

NODE_POOL = Hatch(
    resource="NodePool",
    owned=_paths(
        """
        autoscaling cluster initial_node_count location management max_pods_per_node name
        network_config.enable_private_nodes node_count node_locations placement_policy project
        upgrade_settings
        node_config.disk_type node_config.flex_start node_config.gvnic node_config.image_type
        node_config.kubelet_config.insecure_kubelet_readonly_port_enabled
        node_config.linux_node_config.sysctls node_config.machine_type
        node_config.max_run_duration node_config.metadata.disable-legacy-endpoints
        node_config.oauth_scopes node_config.preemptible node_config.reservation_affinity
        node_config.resource_labels node_config.service_account
        node_config.shielded_instance_config node_config.spot node_config.tags
        node_config.workload_metadata_config
        """
    ),
    refused={
        "name_prefix": Refusal(
            rule="excludes a name, and pools are named by their keys",
            fix="remove it",
            source=PROVIDER,
        ),
        "node_config.guest_accelerators": Refusal(
            rule="is of GPUs, and TPU machines take none",
            fix="remove it",
            source=docs("Plan TPUs in GKE"),
        ),
    },
)

_PLACED = "name project region network"
NETWORK = {
    "vpc": Hatch(resource="Network", owned=_paths("name project auto_create_subnetworks mtu")),
    "subnetwork": Hatch(
        resource="Subnetwork",
        owned=_paths(
            f"{_PLACED} ip_cidr_range secondary_ip_ranges private_ip_google_access stack_type "
            "purpose role"
        ),
    ),
    "router": Hatch(resource="Router", owned=_paths(_PLACED)),
    "nat": Hatch(
        resource="RouterNat",
        owned=_paths("name project region router source_subnetwork_ip_ranges_to_nat subnetworks"),
    ),
}


def extras(
    path: str,
    given: Mapping[str, Any],
    hatch: Hatch,
    refused: Mapping[str, Refusal] | None = None,
) -> Iterator[Problem]:
    """What is wrong with arguments for a resource; `refused` are this resource's own refusals."""
    refusals = {**hatch.refused, **(refused or {})}

    def walk(values: Mapping[str, Any], table: Any, above: str) -> Iterator[Problem]:
        for key, value in values.items():
            at = f"{above}{key}"
            if at in refusals:
                why = refusals[at]
                yield problem(at, value, why.rule, why.fix, why.source)
            elif at in hatch.owned:
                fix = "remove it; a field of this schema decides it"
                yield problem(at, value, "the program sets this argument itself", fix)
            elif table is not None and key not in table:
                fix = nearest(str(key), table)
                yield problem(at, value, "the provider has no such argument", fix)
            else:
                yield from below(value, None if table is None else table[key], at)

    def below(value: Any, table: Any, at: str) -> Iterator[Problem]:
        if isinstance(table, list):
            if not isinstance(value, list):
                yield problem(at, value, "is a list of mappings", f"write `{at}: [{{...}}]`")
                return
            for each in value:
                yield from below(each, table[0], at)
        elif isinstance(value, Mapping):
            yield from walk(value, table, f"{at}.")
        elif table is not None:
            fix = f"write `name: value` lines below it; names: {', '.join(sorted(table))}"
            yield problem(at, value, "is a mapping", fix)

    def problem(at: str, value: Any, rule: str, fix: str, source: Source | str = SOURCE) -> Problem:
        return Problem(path=f"{path}.{at}", value=value, rule=rule, fix=fix, source=source)

    return walk(given, inputs(hatch.resource), "")

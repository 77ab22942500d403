"""Argument names of pulumi_gcp 10.2.0 that a stack file's `extra` may use, in snake case."""

CLUSTER = frozenset(
    """
    addons_config allow_net_admin anonymous_authentication_config authenticator_groups_config
    autopilot_cluster_policy_config autopilot_privileged_admissions binary_authorization
    cluster_autoscaling cluster_ipv4_cidr cluster_telemetry confidential_nodes
    control_plane_endpoints_config cost_management_config database_encryption datapath_provider
    dataplane_optimization_mode default_max_pods_per_node default_snat_status deletion_policy
    deletion_protection description desired_emulated_version
    disable_l4_lb_firewall_reconciliation dns_config enable_autopilot
    enable_cilium_clusterwide_network_policy enable_fqdn_network_policy
    enable_intranode_visibility enable_k8s_beta_apis enable_kubernetes_alpha
    enable_l4_ilb_subsetting enable_legacy_abac enable_multi_networking enable_shielded_nodes
    enable_tpu enterprise_config fleet gateway_api_config gke_auto_upgrade_config
    identity_service_config ignore_node_count_changes in_transit_encryption_config
    initial_node_count ip_allocation_policy location logging_config logging_service
    maintenance_policy managed_machine_learning_diagnostics_config managed_opentelemetry_config
    master_auth master_authorized_networks_config mesh_certificates min_master_version
    monitoring_config monitoring_service name network network_performance_config network_policy
    networking_mode node_config node_creation_config node_locations node_pool_auto_config
    node_pool_defaults node_pools node_version notification_config pod_autoscaling
    pod_security_policy_config private_cluster_config private_ipv6_google_access project
    protect_config rbac_binding_config release_channel remove_default_node_pool resource_labels
    resource_usage_export_config rollback_safe_upgrade secret_manager_config secret_sync_config
    security_posture_config service_external_ips_config skip_node_pool_refresh subnetwork
    tpu_config user_managed_keys_config vertical_pod_autoscaling workload_alts_config
    workload_identity_config
    """.split()
)

NODE_POOL = frozenset(
    """
    autoscaling best_effort_provisioning cluster deletion_policy ignore_node_count_changes
    initial_node_count location maintenance_policies management max_pods_per_node name
    name_prefix network_config node_config node_count node_drain_configs node_locations
    placement_policy project queued_provisioning upgrade_settings version
    """.split()
)

"""The GKE cluster."""

from __future__ import annotations

from collections.abc import Iterator

from rules import facts, links
from rules.kinds import CLUSTER
from rules.model import DROP, Guard, Reference, Resource, Severity, rule
from rules.ranges import is_open

# Google's golden path for GKE clusters (github.com/google/skills, read 2026-08).
GOLDEN = Reference("GKE golden path", "2026-08", "")
STANDARD = CLUSTER.where("Standard clusters", lambda c: c.flag("enableAutopilot") is not True)
AUTOPILOT = CLUSTER.where("Autopilot clusters", lambda c: c.flag("enableAutopilot") is True)
SLICING = CLUSTER.where(
    "clusters with the slice controller",
    lambda c: c.flag("addonsConfig.sliceControllerConfig.enabled") is True,
)


@rule(
    "GKE-01",
    "Nodes have no public addresses.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Set privateClusterConfig.enablePrivateNodes to true and give the network a NAT.",
    url=links.ISOLATION,
    refs=[links.cis("5.6.5"), links.checkov("CKV_GCP_25"), links.trivy("GCP-0059"), GOLDEN],
    guards=[
        Guard("privateClusterConfig.enablePrivateNodes", False),
        Guard("privateClusterConfig", DROP),
    ],
)
def private_nodes(cluster: Resource) -> Iterator[str]:
    if cluster.flag("privateClusterConfig.enablePrivateNodes") is not True:
        yield "privateClusterConfig.enablePrivateNodes is off: set it to true"


@rule(
    "GKE-02",
    "The control plane is reached through its DNS endpoint or from named networks only.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Turn on the DNS endpoint and turn off IP endpoints, or name the authorised networks.",
    url=links.ISOLATION,
    refs=[
        links.cis("5.6.3"),
        Reference("CIS GKE", "2.0.0", "5.6.4"),
        links.checkov("CKV_GCP_20"),
        links.trivy("GCP-0061"),
    ],
    guards=[
        Guard((), lambda c: {**c, "controlPlaneEndpointsConfig": {},
                             "masterAuthorizedNetworksConfig": {},
                             "privateClusterConfig": {"enablePrivateNodes": True}}),
        Guard((), lambda c: {**c, "masterAuthorizedNetworksConfig": {
            "cidrBlocks": [{"cidrBlock": "0.0.0.0/0"}]}}),
    ],
)  # fmt: skip
def control_plane_is_narrow(cluster: Resource) -> Iterator[str]:
    blocks = cluster.each("masterAuthorizedNetworksConfig.cidrBlocks")
    for block in blocks:
        if is_open(block.text("cidrBlock") or ""):
            yield f"{block.at('cidrBlock')} is the whole internet: name the networks that need it"
    endpoints = cluster.node("controlPlaneEndpointsConfig")
    dns = endpoints.flag("dnsEndpointConfig.allowExternalTraffic") is True
    narrow = (
        endpoints.flag("ipEndpointsConfig.enabled") is False
        or cluster.flag("privateClusterConfig.enablePrivateEndpoint") is True
        or bool(blocks)
    )
    if not narrow and not dns:
        yield (
            "the control plane has a public address open to everyone: use "
            "controlPlaneEndpointsConfig.dnsEndpointConfig and turn ipEndpointsConfig off, or set "
            "masterAuthorizedNetworksConfig.cidrBlocks"
        )


@rule(
    "GKE-03",
    "Other Google Cloud customers' addresses do not reach the control plane.",
    severity=Severity.MEDIUM,
    on=CLUSTER.where(
        "clusters with IP endpoints",
        lambda c: c.flag("controlPlaneEndpointsConfig.ipEndpointsConfig.enabled") is not False,
    ),
    fix="Set gcpPublicCidrsAccessEnabled to false, or turn the IP endpoints off.",
    url=links.ISOLATION,
    refs=[GOLDEN],
    guards=[Guard("masterAuthorizedNetworksConfig.gcpPublicCidrsAccessEnabled", True)],
)
def no_gcp_public_cidrs(cluster: Resource) -> Iterator[str]:
    path = "masterAuthorizedNetworksConfig.gcpPublicCidrsAccessEnabled"
    if cluster.flag(path) is not False:
        yield (
            f"{path} is not false: set it, or turn controlPlaneEndpointsConfig.ipEndpointsConfig "
            "off"
        )


@rule(
    "GKE-04",
    "Workloads get Google Cloud identities through Workload Identity.",
    severity=Severity.HIGH,
    on=STANDARD,
    fix="Set workloadIdentityConfig.workloadPool to PROJECT.svc.id.goog.",
    url=links.WORKLOAD_IDENTITY,
    refs=[links.cis("5.2.2"), GOLDEN],
    guards=[Guard("workloadIdentityConfig", DROP)],
)
def workload_identity(cluster: Resource) -> Iterator[str]:
    if not cluster.has("workloadIdentityConfig.workloadPool"):
        yield "workloadIdentityConfig.workloadPool is missing: set it to PROJECT.svc.id.goog"


@rule(
    "GKE-05",
    "The cluster follows a release channel; dynamic slicing follows RAPID.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Set releaseChannel.channel.",
    url=links.HARDENING,
    refs=[links.cis("5.5.4"), links.checkov("CKV_GCP_70")],
    guards=[Guard("releaseChannel.channel", "UNSPECIFIED"), Guard("releaseChannel", DROP)],
)
def release_channel(cluster: Resource) -> Iterator[str]:
    if cluster.text("releaseChannel.channel") in {None, "", "UNSPECIFIED"}:
        yield "releaseChannel.channel is unset: choose RAPID, REGULAR, STABLE or EXTENDED"


@rule(
    "GKE-06",
    "Network policies are enforced.",
    severity=Severity.MEDIUM,
    on=STANDARD,
    fix=(
        "Set datapathProvider to ADVANCED_DATAPATH when the cluster is made; it cannot change "
        "later."
    ),
    url=links.HARDENING,
    refs=[links.cis("4.3.1"), links.checkov("CKV_GCP_12"), links.trivy("GCP-0056"), GOLDEN],
    guards=[Guard("datapathProvider", "LEGACY_DATAPATH"), Guard("datapathProvider", DROP)],
)
def policies_are_enforced(cluster: Resource) -> Iterator[str]:
    if (
        cluster.text("datapathProvider") != "ADVANCED_DATAPATH"
        and cluster.flag("networkPolicy.enabled") is not True
    ):
        yield "datapathProvider is not ADVANCED_DATAPATH: network policies would have no effect"


@rule(
    "GKE-07",
    "The cluster is VPC-native.",
    severity=Severity.LOW,
    on=CLUSTER,
    fix="Set ipAllocationPolicy with the subnet's secondary ranges.",
    url=links.POD_CIDR,
    refs=[links.cis("5.6.2"), links.checkov("CKV_GCP_23")],
    guards=[Guard("ipAllocationPolicy", DROP), Guard("networkingMode", "ROUTES")],
)
def vpc_native(cluster: Resource) -> Iterator[str]:
    if cluster.text("networkingMode") == "ROUTES" or not cluster.has("ipAllocationPolicy"):
        yield "the cluster is not VPC-native: set networkingMode VPC_NATIVE and ipAllocationPolicy"


@rule(
    "GKE-08",
    "No legacy authorisation or client certificates.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Leave enableLegacyAbac and issueClientCertificate false.",
    url=links.HARDENING,
    refs=[links.cis("5.8.1"), links.cis("5.8.3"), links.checkov("CKV_GCP_7")],
    guards=[
        Guard("enableLegacyAbac", True),
        Guard("masterAuth.clientCertificateConfig.issueClientCertificate", True),
    ],
)
def no_legacy_auth(cluster: Resource) -> Iterator[str]:
    for path in ("enableLegacyAbac", "masterAuth.clientCertificateConfig.issueClientCertificate"):
        if cluster.flag(path) is True:
            yield f"{path} is on: set it to false"


@rule(
    "GKE-09",
    "No alpha features.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Leave enableKubernetesAlpha false; alpha clusters are deleted after 30 days.",
    url=links.HARDENING,
    refs=[links.cis("5.10.2"), links.checkov("CKV2_GCP_19")],
    guards=[Guard("enableKubernetesAlpha", True)],
)
def no_alpha(cluster: Resource) -> Iterator[str]:
    if cluster.flag("enableKubernetesAlpha") is True:
        yield "enableKubernetesAlpha is on: set it to false"


@rule(
    "GKE-10",
    "Secrets in etcd are encrypted with a key of the project.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Set databaseEncryption to ENCRYPTED with a Cloud KMS key.",
    url=links.HARDENING,
    refs=[links.cis("5.3.1")],
    guards=[Guard("databaseEncryption", DROP), Guard("databaseEncryption.state", "DECRYPTED")],
)
def secrets_encrypted(cluster: Resource) -> Iterator[str]:
    state = cluster.text("databaseEncryption.state")
    if state not in {"ENCRYPTED", "ALL_OBJECTS_ENCRYPTION_ENABLED"}:
        yield "databaseEncryption.state is not ENCRYPTED: set it and name a Cloud KMS key"
    elif not cluster.has("databaseEncryption.keyName"):
        yield "databaseEncryption.keyName is missing: name a Cloud KMS key"


@rule(
    "GKE-11",
    "Nodes are shielded.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Leave enableShieldedNodes on.",
    url=links.HARDENING,
    refs=[links.cis("5.5.5"), links.checkov("CKV_GCP_71"), links.trivy("GCP-0055")],
    guards=[Guard("enableShieldedNodes", False)],
)
def shielded_nodes(cluster: Resource) -> Iterator[str]:
    if cluster.flag("enableShieldedNodes") is False:
        yield "enableShieldedNodes is off: leave it on, as it is by default"


@rule(
    "GKE-12",
    "Binary Authorization judges images.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Set binaryAuthorization.evaluationMode to PROJECT_SINGLETON_POLICY_ENFORCE.",
    url=links.HARDENING,
    refs=[links.cis("5.1.4"), links.checkov("CKV_GCP_66")],
    guards=[Guard("binaryAuthorization.evaluationMode", "DISABLED")],
)
def binary_authorization(cluster: Resource) -> Iterator[str]:
    if cluster.text("binaryAuthorization.evaluationMode") in {None, "", "DISABLED"}:
        yield "binaryAuthorization.evaluationMode is off: set PROJECT_SINGLETON_POLICY_ENFORCE"


@rule(
    "GKE-13",
    "Logging and monitoring stay on.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Keep SYSTEM_COMPONENTS in loggingConfig and monitoringConfig.",
    url=links.HARDENING,
    refs=[links.cis("5.7.1"), links.checkov("CKV_GCP_1"), links.checkov("CKV_GCP_8")],
    guards=[
        Guard("loggingConfig.enableComponents", []),
        Guard("monitoringConfig.enableComponents", []),
        Guard("loggingService", "none"),
    ],
)
def telemetry_on(cluster: Resource) -> Iterator[str]:
    for path in ("loggingConfig", "monitoringConfig"):
        listed = f"{path}.enableComponents"
        if cluster.has(listed) and "SYSTEM_COMPONENTS" not in cluster.texts(listed):
            yield f"{listed} lacks SYSTEM_COMPONENTS: add it"
    for path in ("loggingService", "monitoringService"):
        if cluster.text(path) == "none":
            yield f"{path} is none: leave it to the default"


@rule(
    "GKE-14",
    "Traffic inside a node is visible to flow logs.",
    severity=Severity.LOW,
    on=STANDARD,
    fix="Set enableIntranodeVisibility, or use Dataplane V2.",
    url=links.HARDENING,
    refs=[links.cis("5.6.1"), links.checkov("CKV_GCP_61")],
    guards=[Guard((), lambda c: {**c, "datapathProvider": "LEGACY_DATAPATH",
                                 "enableIntranodeVisibility": False})],
)  # fmt: skip
def intranode_visibility(cluster: Resource) -> Iterator[str]:
    if (
        cluster.flag("enableIntranodeVisibility") is not True
        and cluster.text("datapathProvider") != "ADVANCED_DATAPATH"
    ):
        yield "enableIntranodeVisibility is off: set it, or use ADVANCED_DATAPATH"


@rule(
    "GKE-15",
    "The security posture dashboard watches the cluster.",
    severity=Severity.LOW,
    on=CLUSTER,
    fix="Set securityPostureConfig.mode to BASIC.",
    url=links.HARDENING,
    refs=[links.cis("5.10.4")],
    guards=[Guard("securityPostureConfig.mode", "DISABLED"), Guard("securityPostureConfig", DROP)],
)
def security_posture(cluster: Resource) -> Iterator[str]:
    if cluster.text("securityPostureConfig.mode") not in {"BASIC", "ENTERPRISE"}:
        yield "securityPostureConfig.mode is off: set BASIC"


@rule(
    "GKE-16",
    "People get roles through Google groups.",
    severity=Severity.LOW,
    on=CLUSTER,
    fix="Set authenticatorGroupsConfig.securityGroup to gke-security-groups@DOMAIN.",
    url=links.RBAC,
    refs=[links.cis("5.8.2"), links.checkov("CKV_GCP_65")],
    guards=[Guard("authenticatorGroupsConfig", DROP)],
)
def groups_for_rbac(cluster: Resource) -> Iterator[str]:
    if not cluster.has("authenticatorGroupsConfig.securityGroup"):
        yield "authenticatorGroupsConfig.securityGroup is missing: set gke-security-groups@DOMAIN"


@rule(
    "GKE-17",
    "Role bindings to everyone are refused.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Set both insecure bindings of rbacBindingConfig to false.",
    url=links.RBAC,
    refs=[links.cis("4.1.8"), links.cis("4.1.9"), GOLDEN],
    guards=[
        Guard("rbacBindingConfig.enableInsecureBindingSystemAuthenticated", True),
        Guard("rbacBindingConfig.enableInsecureBindingSystemUnauthenticated", True),
        Guard("rbacBindingConfig", DROP),
    ],
)
def no_bindings_to_everyone(cluster: Resource) -> Iterator[str]:
    for who in ("Authenticated", "Unauthenticated"):
        path = f"rbacBindingConfig.enableInsecureBindingSystem{who}"
        if cluster.flag(path) is not False:
            yield f"{path} is not false: set it to false"


@rule(
    "GKE-18",
    "Anonymous requests reach health checks only.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Set anonymousAuthenticationConfig.mode to LIMITED.",
    url=links.HARDENING,
    refs=[GOLDEN],
    guards=[
        Guard("anonymousAuthenticationConfig.mode", "ENABLED"),
        Guard("anonymousAuthenticationConfig", DROP),
    ],
)
def anonymous_limited(cluster: Resource) -> Iterator[str]:
    if cluster.text("anonymousAuthenticationConfig.mode") != "LIMITED":
        yield "anonymousAuthenticationConfig.mode is not LIMITED: set it"


@rule(
    "GKE-20",
    "The Secret Manager add-on mounts secrets and rotates them.",
    severity=Severity.LOW,
    on=CLUSTER,
    fix="Set secretManagerConfig.enabled and rotationConfig.enabled.",
    url=links.SECRETS,
    refs=[links.cis("4.4.2"), GOLDEN],
    guards=[
        Guard("secretManagerConfig.enabled", False),
        Guard("secretManagerConfig.rotationConfig", DROP),
    ],
)
def secret_manager_addon(cluster: Resource) -> Iterator[str]:
    if cluster.flag("secretManagerConfig.enabled") is not True:
        yield "secretManagerConfig.enabled is off: set it to true"
    elif cluster.flag("secretManagerConfig.rotationConfig.enabled") is not True:
        yield "secretManagerConfig.rotationConfig.enabled is off: set it to true"


@rule(
    "GKE-21",
    "Services may not claim external addresses.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Leave serviceExternalIpsConfig.enabled false.",
    url=links.HARDENING,
    refs=[links.trivy("KSV-0108")],
    guards=[Guard("serviceExternalIpsConfig.enabled", True)],
)
def no_external_ips(cluster: Resource) -> Iterator[str]:
    if cluster.flag("serviceExternalIpsConfig.enabled") is True:
        yield "serviceExternalIpsConfig.enabled is on: set it to false"


@rule(
    "GKE-22",
    "Autopilot grants neither NET_ADMIN nor privileged admissions.",
    severity=Severity.MEDIUM,
    on=AUTOPILOT,
    fix="Leave allowNetAdmin false and autopilotPrivilegedAdmissions empty.",
    url=links.HARDENING,
    refs=[GOLDEN],
    guards=[
        Guard("allowNetAdmin", True),
        Guard("autopilotPrivilegedAdmissions", ["gs://bucket/allow.yaml"]),
    ],
)
def autopilot_stays_narrow(cluster: Resource) -> Iterator[str]:
    if cluster.flag("allowNetAdmin") is True:
        yield "allowNetAdmin is on: set it to false"
    if cluster.raw("autopilotPrivilegedAdmissions"):
        yield "autopilotPrivilegedAdmissions is set: remove it"


@rule(
    "GKE-23",
    "Node pools are resources of their own.",
    severity=Severity.MEDIUM,
    on=STANDARD,
    fix=(
        "Set removeDefaultNodePool to true and leave nodePools unset; inline pools replace the "
        "cluster."
    ),
    url=links.TPUS,
    refs=[links.checkov("CKV_GCP_123")],
    guards=[
        Guard("removeDefaultNodePool", False),
        Guard("removeDefaultNodePool", DROP),
        Guard("nodePools", [{"name": "inline"}]),
    ],
)
def own_pools(cluster: Resource) -> Iterator[str]:
    if cluster.flag("removeDefaultNodePool") is not True:
        yield "removeDefaultNodePool is off: set it to true and declare the system pool itself"
    if cluster.each("nodePools"):
        yield "nodePools are inline: a change would replace the cluster; use NodePool resources"


@rule(
    "GKE-24",
    "The cluster is protected from deletion.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Leave deletionProtection on.",
    url=links.RESOURCE_OPTIONS,
    guards=[Guard("deletionProtection", False)],
)
def deletion_protection(cluster: Resource) -> Iterator[str]:
    if cluster.flag("deletionProtection") is False:
        yield "deletionProtection is off: leave it on, as it is by default"


@rule(
    "GKE-25",
    "The control plane is regional.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Give the cluster a region as its location; the pools name their zones.",
    url=links.HARDENING,
    guards=[Guard("location", "us-central1-a")],
)
def regional(cluster: Resource) -> Iterator[str]:
    location = cluster.text("location")
    if location is not None and facts.ZONE.fullmatch(location):
        yield f"location is the zone {location}: use the region {facts.region_of(location)}"


@rule(
    "GKE-28",
    "Costs are reported by namespace and label.",
    severity=Severity.LOW,
    on=CLUSTER,
    fix="Set costManagementConfig.enabled.",
    url=links.BUDGETS,
    guards=[Guard("costManagementConfig.enabled", False), Guard("costManagementConfig", DROP)],
)
def cost_allocation(cluster: Resource) -> Iterator[str]:
    if cluster.flag("costManagementConfig.enabled") is not True:
        yield "costManagementConfig.enabled is off: set it to true"


@rule(
    "GKE-29",
    "No switch of the retired TPU node API.",
    severity=Severity.LOW,
    on=CLUSTER,
    fix="Leave enableTpu and tpuConfig unset; TPU node pools need neither.",
    url=links.TPUS,
    guards=[Guard("enableTpu", True), Guard("tpuConfig", {"enabled": True})],
)
def no_old_tpu_api(cluster: Resource) -> Iterator[str]:
    for path in ("enableTpu", "tpuConfig"):
        if cluster.raw(path):
            yield f"{path} belongs to the retired TPU node API: remove it"


@rule(
    "GKE-30",
    "The cluster announces upgrades, caches DNS on the node and balances inside by subset.",
    severity=Severity.LOW,
    on=STANDARD,
    fix="Set notificationConfig.pubsub, addonsConfig.dnsCacheConfig and enableL4IlbSubsetting.",
    url=links.MAINTENANCE,
    guards=[
        Guard("notificationConfig.pubsub.enabled", False),
        Guard("addonsConfig.dnsCacheConfig.enabled", False),
        Guard("enableL4IlbSubsetting", False),
    ],
)
def comfort(cluster: Resource) -> Iterator[str]:
    for path in (
        "notificationConfig.pubsub.enabled",
        "addonsConfig.dnsCacheConfig.enabled",
        "enableL4IlbSubsetting",
    ):
        if cluster.flag(path) is not True:
            yield f"{path} is off: set it to true"


RULES = [
    private_nodes,
    control_plane_is_narrow,
    no_gcp_public_cidrs,
    workload_identity,
    release_channel,
    policies_are_enforced,
    vpc_native,
    no_legacy_auth,
    no_alpha,
    secrets_encrypted,
    shielded_nodes,
    binary_authorization,
    telemetry_on,
    intranode_visibility,
    security_posture,
    groups_for_rbac,
    no_bindings_to_everyone,
    anonymous_limited,
    secret_manager_addon,
    no_external_ips,
    autopilot_stays_narrow,
    own_pools,
    deletion_protection,
    regional,
    cost_allocation,
    no_old_tpu_api,
    comfort,
]

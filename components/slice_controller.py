"""The Kueue slice controller: turns admissions into Slices. GKE itself owns the Slice kind.

Its namespace, Secret, Service, webhook and lease have names fixed in its source
(AI-Hypercomputer/xpk slice-main 250d4b3, slice/internal/util/cert and slice/cmd).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from catalog.names import SYSTEM_POOL
from catalog.partitions import POOL_LABEL
from catalog.quantities import canonical
from catalog.releases import OPERATOR_NAMESPACES
from catalog.workloads import QUEUE_LABEL
from components import pods
from components.hooks import explained

NAMESPACE = "slice-controller-system"
MANAGER = "slice-controller-controller-manager"
SECRET = "slice-controller-webhook-server-cert"  # noqa: S105  the name of an object
SERVICE = "slice-controller-webhook-service"
WEBHOOKS = "slice-controller-mutating-webhook-configuration"
CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108  inside the image

LABELS = {
    "app.kubernetes.io/name": "slice-controller",
    "app.kubernetes.io/part-of": "tpuserve",
    "control-plane": "controller-manager",
}
HEALTH_PORT, WEBHOOK_PORT = 8081, 9443

GATES = "UseRetryMechanismForSliceCreation=true"
"""On in Google's own manifests: a partition in use makes the workload wait, not fail."""

READ = ("get", "list", "watch")

CLUSTER_RULES: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
    ("", ("nodes", "pods"), READ),
    ("", ("events",), ("create", "patch")),
    ("batch", ("jobs",), READ),
    ("jobset.x-k8s.io", ("jobsets",), READ),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets",), READ),
    # Without list and watch the check never gets a status and the process ends after 2 minutes;
    # a published manifest leaves them out.
    ("kueue.x-k8s.io", ("admissionchecks",), READ),
    ("kueue.x-k8s.io", ("admissionchecks/status", "workloads/status"), ("get", "patch", "update")),
    ("kueue.x-k8s.io", ("workloads",), (*READ, "update", "patch")),
    ("accelerator.gke.io", ("slices",), (*READ, "create", "delete")),
)
"""API group, resources, verbs: what a run on Kueue 0.17.0 needed on 2026-11-30, with `get` beside
every `list`."""

HOOKS = (
    ("mjob.kb.io", "batch", "v1", "jobs", "/mutate-batch-v1-job"),
    (
        "mjobset.kb.io",
        "jobset.x-k8s.io",
        "v1alpha2",
        "jobsets",
        "/mutate-jobset-x-k8s-io-v1alpha2-jobset",
    ),
    (
        "mleaderworkerset.kb.io",
        "leaderworkerset.x-k8s.io",
        "v1",
        "leaderworkersets",
        "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset",
    ),
)


@dataclass(frozen=True, kw_only=True)
class SliceControllerArgs:
    image: str
    cpu: str
    memory: str
    activation_minutes: int
    retry_seconds: int
    partition_health: str
    after: Sequence[pulumi.Resource]
    """The kinds it watches: without one of them its caches never fill."""


class SliceController(pulumi.ComponentResource):
    """The controller's Deployment, its rights, and its webhook on queued objects only."""

    ready: pulumi.Resource
    """The Deployment; that it answers shows in the admission check."""

    def __init__(
        self, name: str, args: SliceControllerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:slice_controller:SliceController", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.after)))
        meta, core, apps = k8s.meta.v1, k8s.core.v1, k8s.apps.v1

        home = pods.namespace(f"{name}-namespace", NAMESPACE, level="restricted", opts=first)
        inside = home.metadata.name
        account = core.ServiceAccount(
            f"{name}-account",
            metadata=meta.ObjectMetaArgs(name=MANAGER, namespace=inside, labels=LABELS),
            opts=child,
        )
        rights = _rights(name, inside, account, child)
        secret = core.Secret(
            f"{name}-certificate",
            metadata=meta.ObjectMetaArgs(name=SECRET, namespace=inside, labels=LABELS),
            # The controller makes its own certificate and writes it here.
            opts=child.merge(pulumi.ResourceOptions(ignore_changes=["data", "stringData"])),
        )
        service = core.Service(
            f"{name}-webhook",
            metadata=meta.ObjectMetaArgs(
                name=SERVICE,
                namespace=inside,
                labels=LABELS,
                # It has no endpoint before the pods below.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=core.ServiceSpecArgs(
                selector=LABELS,
                ports=[core.ServicePortArgs(port=443, target_port=WEBHOOK_PORT, protocol="TCP")],
            ),
            opts=child,
        )
        pods.deny_all(f"{name}-deny-all", inside, child)
        k8s.networking.v1.NetworkPolicy(
            f"{name}-webhook-only",
            metadata=meta.ObjectMetaArgs(name="webhook-only", namespace=inside, labels=LABELS),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=meta.LabelSelectorArgs(match_labels=LABELS),
                policy_types=["Ingress"],
                # The API server has no address of its own here that could be named.
                ingress=[
                    k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                        ports=[
                            k8s.networking.v1.NetworkPolicyPortArgs(
                                port=WEBHOOK_PORT, protocol="TCP"
                            )
                        ]
                    )
                ],
            ),
            opts=child,
        )
        # Before the pods: the certificate's authority is written into it, too.
        webhooks = _webhooks(f"{name}-webhooks", service, child)
        self.ready = apps.Deployment(
            f"{name}-manager",
            metadata=meta.ObjectMetaArgs(name=MANAGER, namespace=inside, labels=LABELS),
            spec=apps.DeploymentSpecArgs(
                replicas=1,
                selector=meta.LabelSelectorArgs(match_labels=LABELS),
                template=core.PodTemplateSpecArgs(
                    metadata=meta.ObjectMetaArgs(labels=LABELS),
                    spec=core.PodSpecArgs(
                        service_account_name=account.metadata.name,
                        automount_service_account_token=True,
                        node_selector={POOL_LABEL: SYSTEM_POOL},
                        termination_grace_period_seconds=10,
                        containers=[_manager(args)],
                        volumes=[
                            core.VolumeArgs(
                                name="certificate",
                                secret=core.SecretVolumeSourceArgs(
                                    secret_name=secret.metadata.name
                                ),
                            )
                        ],
                    ),
                ),
            ),
            opts=child.merge(
                pulumi.ResourceOptions(
                    depends_on=[*rights, webhooks],
                    hooks=explained(
                        f"{name}-starts",
                        "the slice controller",
                        f"kubectl -n {NAMESPACE} describe pods; kubectl -n {NAMESPACE} logs "
                        f"deployment/{MANAGER}",
                        "is not ready. It ends after two minutes without the Slice kind, which "
                        "GKE brings with its slice controller",
                    ),
                )
            ),
        )
        self.register_outputs({})


def _manager(args: SliceControllerArgs) -> k8s.core.v1.ContainerArgs:
    core = k8s.core.v1

    def probe(path: str, *, delay: int, period: int) -> k8s.core.v1.ProbeArgs:
        return core.ProbeArgs(
            http_get=core.HTTPGetActionArgs(path=path, port=HEALTH_PORT),
            initial_delay_seconds=delay,
            period_seconds=period,
        )

    return core.ContainerArgs(
        name="manager",
        image=args.image,
        image_pull_policy="IfNotPresent",
        command=["/manager"],
        args=flags(args),
        ports=[core.ContainerPortArgs(name="webhook", container_port=WEBHOOK_PORT)],
        liveness_probe=probe("/healthz", delay=15, period=20),
        readiness_probe=probe("/readyz", delay=5, period=10),
        resources=core.ResourceRequirementsArgs(
            requests={"cpu": canonical(args.cpu), "memory": canonical(args.memory)},
            limits={"memory": canonical(args.memory)},
        ),
        security_context=pods.confined(),
        volume_mounts=[
            core.VolumeMountArgs(name="certificate", mount_path=CERTIFICATES, read_only=True)
        ],
    )


def flags(args: SliceControllerArgs) -> list[str]:
    return [
        "--leader-elect",
        f"--health-probe-bind-address=:{HEALTH_PORT}",
        f"--activation-timeout={args.activation_minutes}m",
        f"--retry-delay-on-slice-failure={args.retry_seconds}s",
        f"--default-slice-health-node-affinity={args.partition_health}",
        f"--feature-gates={GATES}",
    ]


def _rights(
    name: str,
    namespace: pulumi.Input[str],
    account: k8s.core.v1.ServiceAccount,
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    rbac, meta = k8s.rbac.v1, k8s.meta.v1
    subject = rbac.SubjectArgs(
        kind="ServiceAccount", name=account.metadata.name, namespace=namespace
    )
    group = "rbac.authorization.k8s.io"
    everywhere = rbac.ClusterRole(
        f"{name}-role",
        metadata=meta.ObjectMetaArgs(name="slice-controller-manager-role", labels=LABELS),
        rules=[
            *(
                rbac.PolicyRuleArgs(api_groups=[api], resources=list(resources), verbs=list(verbs))
                for api, resources, verbs in CLUSTER_RULES
            ),
            # Its own certificate's authority is all it changes there.
            rbac.PolicyRuleArgs(
                api_groups=["admissionregistration.k8s.io"],
                resources=["mutatingwebhookconfigurations"],
                verbs=["list", "watch"],
            ),
            rbac.PolicyRuleArgs(
                api_groups=["admissionregistration.k8s.io"],
                resources=["mutatingwebhookconfigurations"],
                resource_names=[WEBHOOKS],
                verbs=["get", "update"],
            ),
        ],
        opts=opts,
    )
    here = rbac.Role(
        f"{name}-local-role",
        metadata=meta.ObjectMetaArgs(
            name="slice-controller-local-role", namespace=namespace, labels=LABELS
        ),
        rules=[
            rbac.PolicyRuleArgs(
                api_groups=["coordination.k8s.io"],
                resources=["leases"],
                verbs=["get", "list", "watch", "create", "update", "patch"],
            ),
            rbac.PolicyRuleArgs(
                api_groups=[""], resources=["secrets"], verbs=["get", "list", "watch", "update"]
            ),
            rbac.PolicyRuleArgs(api_groups=[""], resources=["events"], verbs=["create", "patch"]),
        ],
        opts=opts,
    )
    return [
        rbac.ClusterRoleBinding(
            f"{name}-binding",
            metadata=meta.ObjectMetaArgs(name="slice-controller-manager-binding", labels=LABELS),
            role_ref=rbac.RoleRefArgs(
                api_group=group, kind="ClusterRole", name=everywhere.metadata.name
            ),
            subjects=[subject],
            opts=opts,
        ),
        rbac.RoleBinding(
            f"{name}-local-binding",
            metadata=meta.ObjectMetaArgs(
                name="slice-controller-local-binding", namespace=namespace, labels=LABELS
            ),
            role_ref=rbac.RoleRefArgs(api_group=group, kind="Role", name=here.metadata.name),
            subjects=[subject],
            opts=opts,
        ),
    ]


def _webhooks(
    name: str, service: k8s.core.v1.Service, opts: pulumi.ResourceOptions
) -> k8s.admissionregistration.v1.MutatingWebhookConfiguration:
    admission, meta = k8s.admissionregistration.v1, k8s.meta.v1
    return admission.MutatingWebhookConfiguration(
        name,
        metadata=meta.ObjectMetaArgs(name=WEBHOOKS, labels=LABELS),
        webhooks=[
            admission.MutatingWebhookArgs(
                name=hook,
                admission_review_versions=["v1"],
                side_effects="None",
                failure_policy="Fail",
                client_config=admission.WebhookClientConfigArgs(
                    service=admission.ServiceReferenceArgs(
                        name=service.metadata.name, namespace=NAMESPACE, path=path
                    )
                ),
                rules=[
                    admission.RuleWithOperationsArgs(
                        api_groups=[group],
                        api_versions=[version],
                        operations=["CREATE"],
                        resources=[resource],
                    )
                ],
                # It leaves objects without a queue alone, so they need not wait for it.
                object_selector=meta.LabelSelectorArgs(
                    match_expressions=[
                        meta.LabelSelectorRequirementArgs(key=QUEUE_LABEL, operator="Exists")
                    ]
                ),
                namespace_selector=meta.LabelSelectorArgs(
                    match_expressions=[
                        meta.LabelSelectorRequirementArgs(
                            key="kubernetes.io/metadata.name",
                            operator="NotIn",
                            values=["kube-system", NAMESPACE, *OPERATOR_NAMESPACES],
                        )
                    ]
                ),
            )
            for hook, group, version, resource, path in HOOKS
        ],
        opts=opts.merge(
            pulumi.ResourceOptions(
                ignore_changes=[
                    f"webhooks[{index}].clientConfig.caBundle" for index in range(len(HOOKS))
                ]
            )
        ),
    )

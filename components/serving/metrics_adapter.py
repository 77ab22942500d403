"""Google's adapter through which autoscalers read Cloud Monitoring, where GKE cannot do it itself.

The objects of k8s-stackdriver's adapter_new_resource_model.yaml, as our own: the image is chosen,
memory is raised (OOM kills: k8s-stackdriver issues 303, 476, 550), and its right to read comes
first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from components import pods
from components.workload_identity import principal

NAMESPACE = "custom-metrics"
ADAPTER = "custom-metrics-stackdriver-adapter"
HPA = "horizontal-pod-autoscaler"
APIS = {
    "v1beta1.custom.metrics.k8s.io": 100,
    "v1beta2.custom.metrics.k8s.io": 200,
    "v1beta1.external.metrics.k8s.io": 100,
}
"""API versions and their priority; a cluster has one owner of each."""


@dataclass(frozen=True, kw_only=True)
class MetricsAdapterArgs:
    project: str
    image: str
    project_number: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()
    """What the adapter's pod runs on."""


class MetricsAdapter(pulumi.ComponentResource):
    """The custom metrics API of a cluster, answered from Cloud Monitoring."""

    ready: Sequence[pulumi.Resource]
    """Exist once the API is registered."""

    def __init__(
        self, name: str, args: MetricsAdapterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:MetricsAdapter", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        core, meta = k8s.core.v1, k8s.meta.v1

        reader = gcp.projects.IAMMember(
            f"{name}-viewer",
            project=args.project,
            role="roles/monitoring.viewer",
            member=principal(
                args.project, args.project_number, namespace=NAMESPACE, account=ADAPTER
            ),
            opts=child,
        )
        home = pods.namespace(f"{name}-namespace", NAMESPACE, level="baseline", opts=child)
        inside = home.metadata.name
        pods.deny_all(f"{name}-deny-all", inside, child)
        account = core.ServiceAccount(
            f"{name}-account",
            metadata=meta.ObjectMetaArgs(name=ADAPTER, namespace=inside),
            opts=child,
        )
        roles = _roles(name, inside, child)
        k8s.networking.v1.NetworkPolicy(
            f"{name}-callers",
            metadata=meta.ObjectMetaArgs(name=ADAPTER, namespace=inside),
            # The API server calls from outside the cluster's own ranges.
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=meta.LabelSelectorArgs(match_labels={"k8s-app": ADAPTER}),
                policy_types=["Ingress"],
                ingress=[
                    k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                        ports=[k8s.networking.v1.NetworkPolicyPortArgs(port=443, protocol="TCP")]
                    )
                ],
            ),
            opts=child,
        )
        service = core.Service(
            f"{name}-service",
            metadata=meta.ObjectMetaArgs(
                name=ADAPTER, namespace=inside, annotations={"pulumi.com/skipAwait": "true"}
            ),
            spec=core.ServiceSpecArgs(
                type="ClusterIP",
                selector={"k8s-app": ADAPTER},
                ports=[core.ServicePortArgs(port=443, target_port=443, protocol="TCP")],
            ),
            opts=child,
        )
        deployment = k8s.apps.v1.Deployment(
            f"{name}-server",
            metadata=meta.ObjectMetaArgs(
                name=ADAPTER, namespace=inside, labels={"k8s-app": ADAPTER}
            ),
            spec=_server(args.image),
            opts=child.merge(
                pulumi.ResourceOptions(depends_on=[account, reader, *roles, *args.after])
            ),
        )
        self.ready = [
            k8s.apiregistration.v1.APIService(
                f"{name}-{api}",
                metadata=meta.ObjectMetaArgs(name=api),
                spec=k8s.apiregistration.v1.APIServiceSpecArgs(
                    group=api.partition(".")[2],
                    version=api.partition(".")[0],
                    group_priority_minimum=100,
                    version_priority=priority,
                    insecure_skip_tls_verify=True,
                    service=k8s.apiregistration.v1.ServiceReferenceArgs(
                        name=service.metadata.name, namespace=inside
                    ),
                ),
                # Registered without a server behind it, it breaks discovery for everybody.
                opts=child.merge(pulumi.ResourceOptions(depends_on=[deployment])),
            )
            for api, priority in APIS.items()
        ]
        self.register_outputs({})


def _roles(
    name: str, inside: pulumi.Input[str], child: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    rbac, meta = k8s.rbac.v1, k8s.meta.v1
    group = "rbac.authorization.k8s.io"
    adapter = rbac.SubjectArgs(kind="ServiceAccount", name=ADAPTER, namespace=inside)
    autoscaler = rbac.SubjectArgs(kind="ServiceAccount", name=HPA, namespace="kube-system")

    def cluster_role(role: str, rule: k8s.rbac.v1.PolicyRuleArgs) -> rbac.ClusterRole:
        return rbac.ClusterRole(
            f"{name}-{role}", metadata=meta.ObjectMetaArgs(name=role), rules=[rule], opts=child
        )

    def bound(role: str, physical: str, to: rbac.SubjectArgs) -> rbac.ClusterRoleBinding:
        return rbac.ClusterRoleBinding(
            f"{name}-{physical.replace(':', '-')}-binding",
            metadata=meta.ObjectMetaArgs(name=physical),
            role_ref=rbac.RoleRefArgs(api_group=group, kind="ClusterRole", name=role),
            subjects=[to],
            opts=child,
        )

    read = ["get", "list", "watch"]
    resources = cluster_role(
        "custom-metrics-resource-reader",
        rbac.PolicyRuleArgs(
            api_groups=[""], resources=["pods", "nodes", "nodes/stats"], verbs=read
        ),
    )
    external = cluster_role(
        "external-metrics-reader",
        rbac.PolicyRuleArgs(api_groups=["external.metrics.k8s.io"], resources=["*"], verbs=read),
    )
    return [
        resources,
        external,
        bound("system:auth-delegator", "custom-metrics:system:auth-delegator", adapter),
        bound("custom-metrics-resource-reader", "custom-metrics-resource-reader", adapter),
        bound("external-metrics-reader", "external-metrics-reader", autoscaler),
        rbac.RoleBinding(
            f"{name}-auth-reader-binding",
            metadata=meta.ObjectMetaArgs(
                name="custom-metrics-auth-reader", namespace="kube-system"
            ),
            role_ref=rbac.RoleRefArgs(
                api_group=group, kind="Role", name="extension-apiserver-authentication-reader"
            ),
            subjects=[adapter],
            opts=child,
        ),
    ]


def _server(image: str) -> k8s.apps.v1.DeploymentSpecArgs:
    core = k8s.core.v1
    health = core.ProbeArgs(
        http_get=core.HTTPGetActionArgs(path="/healthz", port=443, scheme="HTTPS"),
        period_seconds=10,
        failure_threshold=6,
    )
    return k8s.apps.v1.DeploymentSpecArgs(
        replicas=1,
        selector=k8s.meta.v1.LabelSelectorArgs(match_labels={"k8s-app": ADAPTER}),
        template=core.PodTemplateSpecArgs(
            metadata=k8s.meta.v1.ObjectMetaArgs(labels={"k8s-app": ADAPTER}),
            spec=core.PodSpecArgs(
                service_account_name=ADAPTER,
                enable_service_links=False,
                security_context=core.PodSecurityContextArgs(
                    seccomp_profile=core.SeccompProfileArgs(type="RuntimeDefault")
                ),
                containers=[
                    core.ContainerArgs(
                        name="adapter",
                        image=image,
                        image_pull_policy="IfNotPresent",
                        command=[
                            "/adapter",
                            "--use-new-resource-model=true",
                            "--fallback-for-container-metrics=true",
                        ],
                        ports=[core.ContainerPortArgs(container_port=443)],
                        readiness_probe=health,
                        resources=core.ResourceRequirementsArgs(
                            requests={"cpu": "250m", "memory": "512Mi"},
                            limits={"memory": "1Gi"},
                        ),
                        security_context=core.SecurityContextArgs(
                            allow_privilege_escalation=False,
                            capabilities=core.CapabilitiesArgs(
                                drop=["ALL"], add=["NET_BIND_SERVICE"]
                            ),
                        ),
                    )
                ],
            ),
        ),
    )

"""One model on single TPU hosts: a Deployment of vLLM that nobody reaches unasked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from catalog.serving import PORT, Engine, Entry, Scale
from components import pods
from components.network import HEALTH_CHECKS
from components.secrets import ACCESSOR, secret_file
from components.serving.autoscaler import Autoscaler, AutoscalerArgs
from components.serving.gateway import Gateway, GatewayArgs
from components.serving.namespace import ServingNamespace
from components.serving.route import ServiceRoute, ServiceRouteArgs
from components.serving.server_pod import (
    APP,
    HEALTH,
    MODEL_LABEL,
    MODELS,
    ServerPod,
    server_template,
)
from components.workload_identity import principal

SCRAPERS = ("gmp-system", "gke-gmp-system", "kube-system")
"""Namespaces of GKE's collectors: of Prometheus metrics in Standard and Autopilot, and of those
for autoscaling."""


@dataclass(frozen=True, kw_only=True)
class SingleHostArgs:
    project: str
    project_number: pulumi.Input[str]
    region: str
    subnetwork: pulumi.Input[str]
    proxy_only: IPv4Network
    namespace: str
    home: ServingNamespace
    engine: Engine
    node_selector: Mapping[str, str]
    replicas: int | Scale
    wait_for_node: int
    """Seconds a pod may wait for a TPU node."""
    cache_bucket: pulumi.Input[str]
    script_image: str
    entry: Entry | None
    entry_after: Sequence[pulumi.Resource]
    """The network with its proxies, which an address alone does not wait for."""
    clients: Sequence[str]
    """Namespaces whose pods may call, beside the model's own."""
    api_key_secret: str | None
    adapter: Sequence[pulumi.Resource] | None
    """What hands metrics to autoscalers where GKE does not."""
    after: Sequence[pulumi.Resource] = ()


class SingleHost(pulumi.ComponentResource):
    """vLLM on one TPU host a replica, the way to it, and what scales it."""

    way_in: Mapping[str, pulumi.Output[str]]
    """`url` of the load balancer, when there is one."""
    pod_labels: Mapping[str, str]
    serving: pulumi.Resource
    """Exists once every replica answers."""

    def __init__(
        self, name: str, args: SingleHostArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:SingleHost", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.pod_labels = {
            key: value for key, value in pods.labels(APP, name).items() if "part-of" not in key
        }
        selector = k8s.meta.v1.LabelSelectorArgs(match_labels=self.pod_labels)

        account = pods.account(f"{name}-account", name, args.home.namespace, child)
        key = _api_key(name, args, child)
        service = k8s.core.v1.Service(
            f"{name}-service",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=name,
                namespace=args.home.namespace,
                labels=pods.labels(APP, name),
                # The provider would wait ten minutes for an endpoint; a model takes longer.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=k8s.core.v1.ServiceSpecArgs(
                type="ClusterIP",
                selector=self.pod_labels,
                ports=[k8s.core.v1.ServicePortArgs(name="http", port=PORT, target_port="http")],
            ),
            opts=child,
        )
        policy = k8s.networking.v1.NetworkPolicy(
            f"{name}-callers",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=name, namespace=args.home.namespace),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=selector, policy_types=["Ingress"], ingress=[_callers(args)]
            ),
            opts=child,
        )
        k8s.policy.v1.PodDisruptionBudget(
            f"{name}-disruption",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=name, namespace=args.home.namespace),
            # A minimum of one would keep a single replica's node from ever being drained.
            spec=k8s.policy.v1.PodDisruptionBudgetSpecArgs(selector=selector, max_unavailable=1),
            opts=child,
        )
        scale = args.replicas if isinstance(args.replicas, Scale) else None
        most = args.replicas if isinstance(args.replicas, int) else args.replicas.max
        deadline = args.engine.startup_seconds + args.wait_for_node
        patience = {"create": deadline + 300, "update": deadline * most + 300}
        deployment = k8s.apps.v1.Deployment(
            f"{name}-server",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=name,
                namespace=args.home.namespace,
                labels=pods.labels(APP, name),
                annotations={"pulumi.com/timeoutSeconds": str(max(patience.values()))},
            ),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                # An autoscaler's count is its own; it begins with the one that fills the cache.
                replicas=None if scale else most,
                selector=selector,
                # The default of 600 s would call a server failed that is still compiling.
                progress_deadline_seconds=deadline,
                # A surge pod waits for a host that a full pool never has.
                strategy=k8s.apps.v1.DeploymentStrategyArgs(
                    type="RollingUpdate",
                    rolling_update=k8s.apps.v1.RollingUpdateDeploymentArgs(
                        max_surge=0, max_unavailable=1
                    ),
                ),
                template=server_template(
                    name,
                    ServerPod(
                        engine=args.engine,
                        node_selector=args.node_selector,
                        scripts=args.home.scripts,
                        script_image=args.script_image,
                        cache_bucket=args.cache_bucket,
                        keyed=args.api_key_secret is not None,
                    ),
                ),
            ),
            opts=child.merge(
                pulumi.ResourceOptions(
                    depends_on=[account, policy, *key, *args.after],
                    custom_timeouts=pulumi.CustomTimeouts(
                        **{key: f"{seconds}s" for key, seconds in patience.items()}
                    ),
                )
            ),
        )

        if scale:
            Autoscaler(
                name,
                AutoscalerArgs(
                    namespace=args.home.namespace,
                    deployment=deployment.metadata.name,
                    pod_labels={MODEL_LABEL: name},
                    scale=scale,
                    replica_seconds=deadline,
                    managed=args.adapter is None,
                    after=[deployment, *(args.adapter or [])],
                ),
                child,
            )
        self.way_in = {}
        if args.entry is not None:
            self.way_in = {"url": _entry(name, args, args.entry, service, child)}
        self.serving = deployment
        self.register_outputs({"way_in": self.way_in})


def _entry(
    name: str,
    args: SingleHostArgs,
    entry: Entry,
    service: k8s.core.v1.Service,
    child: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    gateway = Gateway(
        name,
        GatewayArgs(
            project=args.project,
            region=args.region,
            subnetwork=args.subnetwork,
            namespace=args.home.namespace,
            entry=entry,
            after=args.entry_after,
        ),
        child,
    )
    ServiceRoute(
        name,
        ServiceRouteArgs(
            namespace=args.home.namespace,
            gateway=gateway.gateway,
            service=service.metadata.name,
            # A health check carries no key.
            health_path=HEALTH if args.api_key_secret else MODELS,
            security_policy=entry.security_policy,
            after=[gateway.programmed],
        ),
        child,
    )
    return gateway.url


def _api_key(
    name: str, args: SingleHostArgs, child: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    if args.api_key_secret is None:
        return []
    path = f"projects/{args.project}/secrets/{args.api_key_secret}"
    return [
        gcp.secretmanager.SecretIamMember(
            f"{name}-key-reader",
            project=args.project,
            secret_id=args.api_key_secret,
            role=ACCESSOR,
            member=principal(
                args.project, args.project_number, namespace=args.namespace, account=name
            ),
            opts=child,
        ),
        secret_file(f"{name}-key", f"{name}-api-key", args.home.namespace, path, child),
    ]


def _callers(args: SingleHostArgs) -> k8s.networking.v1.NetworkPolicyIngressRuleArgs:
    """Own namespace, named namespaces, collectors, load balancers; a node reaches its own pods."""
    network = k8s.networking.v1
    peers = [network.NetworkPolicyPeerArgs(pod_selector=k8s.meta.v1.LabelSelectorArgs())]
    for namespace in (*args.clients, *SCRAPERS):
        named = {"kubernetes.io/metadata.name": namespace}
        peers.append(
            network.NetworkPolicyPeerArgs(
                namespace_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=named)
            )
        )
    peers += [
        network.NetworkPolicyPeerArgs(ip_block=network.IPBlockArgs(cidr=str(each)))
        for each in sources(args.entry, args.proxy_only)
    ]
    return network.NetworkPolicyIngressRuleArgs(
        from_=peers, ports=[network.NetworkPolicyPortArgs(port=PORT, protocol="TCP")]
    )


def sources(entry: Entry | None, proxy_only: IPv4Network) -> list[IPv4Network | str]:
    """Where load balancers call from: proxies of the VPC, or those that check health as well."""
    if entry is None:
        return []
    return [*HEALTH_CHECKS] if entry.public else [proxy_only, *HEALTH_CHECKS]

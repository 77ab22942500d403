"""One model, prefilled and decoded on slices of their own, behind a router and a Gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from catalog.compatibility import Version
from catalog.disaggregated import ROLES, Role, disagreements, group_name
from catalog.router import POOL_GROUP, POOL_MEMBER_LABEL, RouterRelease
from catalog.serving import PORT, Engine, Entry
from catalog.workloads import Queue
from components import pods
from components.network import HEALTH_CHECKS
from components.secrets import ACCESSOR, secret_file
from components.serving.gateway import Gateway, GatewayArgs
from components.serving.group import MODELS, VERSION, ServerGroup, ServerGroupArgs, labels
from components.serving.pool_route import PoolRoute, PoolRouteArgs
from components.serving.router import COLLECTORS, Router, RouterArgs
from components.workload_identity import principal


@dataclass(frozen=True, kw_only=True)
class DisaggregatedArgs:
    project: str
    project_number: pulumi.Input[str]
    region: str
    subnetwork: pulumi.Input[str]
    proxy_only: IPv4Network
    namespace: str
    home: pulumi.Input[str]
    """The namespace's name, known once it and its queue are there."""
    queue: Queue
    local_queue: pulumi.Input[str]
    engines: Mapping[Role, Engine]
    version: Version
    """Of the servers' image, when its tag says it."""
    replicas: Mapping[Role, int]
    spare: bool
    router: RouterRelease
    picker: str
    sidecar: str
    failure_mode: str
    local_prefill_tokens: int
    picker_cpus: int
    picker_memory_gib: int
    answer_seconds: int
    entry: Entry
    entry_after: Sequence[pulumi.Resource]
    """The network with its proxies, which an address alone does not wait for."""
    api_key_secret: str | None
    cache_bucket: pulumi.Input[str]
    script_image: str
    scripts: k8s.core.v1.ConfigMap
    router_after: Sequence[pulumi.Resource]
    """Nodes of the system pool: the router needs no TPU."""
    after: Sequence[pulumi.Resource]
    """Chips, queues and weights."""


class Disaggregated(pulumi.ComponentResource):
    """Groups of both roles side by side, the pool of their leaders, and the way in."""

    way_in: Mapping[str, pulumi.Output[str]]
    pod_labels: Mapping[str, str]
    """Of every pod that serves HTTP."""
    groups: Mapping[Role, Sequence[pulumi.Resource]]
    serving: pulumi.Resource
    """Exists once the first group of the last role answers."""

    def __init__(
        self, name: str, args: DisaggregatedArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        if differ := disagreements(args.engines["prefill"], args.engines["decode"]):
            msg = f"{name}: prefill and decode would misread each other's cache: {differ}"
            raise ValueError(msg)
        super().__init__("tpuserve:serving:Disaggregated", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.pod_labels = {POOL_MEMBER_LABEL: name}

        account = pods.account(f"{name}-account", name, args.home, child)
        rights = _pool_reader(name, args, account, child)
        key = _api_key(name, args, child)
        callers = _callers(name, args, child)
        _disruption(name, args, child)

        router = Router(
            name,
            RouterArgs(
                namespace=args.home,
                release=args.router,
                picker=args.picker,
                member_labels=self.pod_labels,
                failure_mode=args.failure_mode,
                local_prefill_tokens=args.local_prefill_tokens,
                cpus=args.picker_cpus,
                memory_gib=args.picker_memory_gib,
                proxy_only=args.proxy_only,
                after=args.router_after,
            ),
            child,
        )
        gateway = Gateway(
            name,
            GatewayArgs(
                project=args.project,
                region=args.region,
                subnetwork=args.subnetwork,
                namespace=args.home,
                entry=args.entry,
                after=args.entry_after,
            ),
            child,
        )
        route = PoolRoute(
            name,
            PoolRouteArgs(
                namespace=args.home,
                gateway=gateway.gateway,
                pool=router.pool,
                # A health check carries no key; /version is vLLM's own as well, and needs none.
                health_path=VERSION if args.api_key_secret else MODELS,
                answer_seconds=args.answer_seconds,
                security_policy=args.entry.security_policy,
                router=router.ready,
                programmed=gateway.programmed,
            ),
            child,
        )

        after = [account, *rights, *key, callers, router.ready, route.route, *args.after]
        self.groups = {
            role: [
                ServerGroup(
                    group_name(name, role, index),
                    ServerGroupArgs(
                        model=name,
                        role=role,
                        namespace=args.namespace,
                        queue=args.queue,
                        local_queue=args.local_queue,
                        engine=args.engines[role],
                        version=args.version,
                        router=args.router,
                        sidecar=args.sidecar,
                        spare=args.spare,
                        keyed=args.api_key_secret is not None,
                        cache_bucket=args.cache_bucket,
                        script_image=args.script_image,
                        scripts=args.scripts.metadata.name,
                        after=after,
                    ),
                    child,
                ).group
                for index in range(args.replicas[role])
            ]
            for role in ROLES
        }
        self.serving = self.groups["decode"][0]
        self.way_in = {"url": gateway.url, "address": gateway.address}
        self.register_outputs({"way_in": self.way_in})


def _pool_reader(
    name: str,
    args: DisaggregatedArgs,
    account: k8s.core.v1.ServiceAccount,
    child: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """The sidecar looks up who is in the pool, and sends prompts to nobody else."""
    rbac, meta = k8s.rbac.v1, k8s.meta.v1
    role = rbac.Role(
        f"{name}-pool-reader",
        metadata=meta.ObjectMetaArgs(name=f"{name}-pool-reader", namespace=args.home),
        rules=[
            rbac.PolicyRuleArgs(
                api_groups=[POOL_GROUP],
                resources=["inferencepools"],
                verbs=["get", "list", "watch"],
            ),
            rbac.PolicyRuleArgs(
                api_groups=[""], resources=["pods"], verbs=["get", "list", "watch"]
            ),
        ],
        opts=child,
    )
    binding = rbac.RoleBinding(
        f"{name}-pool-reader-binding",
        metadata=meta.ObjectMetaArgs(name=f"{name}-pool-reader", namespace=args.home),
        role_ref=rbac.RoleRefArgs(
            api_group="rbac.authorization.k8s.io", kind="Role", name=role.metadata.name
        ),
        subjects=[
            rbac.SubjectArgs(kind="ServiceAccount", name=account.metadata.name, namespace=args.home)
        ],
        opts=child,
    )
    return [role, binding]


def _api_key(
    name: str, args: DisaggregatedArgs, child: pulumi.ResourceOptions
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
        secret_file(f"{name}-key", f"{name}-api-key", args.home, path, child),
    ]


def _callers(
    name: str, args: DisaggregatedArgs, child: pulumi.ResourceOptions
) -> k8s.networking.v1.NetworkPolicy:
    """Load balancers and collectors reach leaders, on their HTTP port alone; the namespace's own
    policy lets its pods move caches among themselves."""
    network = k8s.networking.v1
    peers = [
        *pods.from_ranges([str(args.proxy_only), *HEALTH_CHECKS]),
        *pods.from_namespaces(COLLECTORS),
    ]
    return network.NetworkPolicy(
        f"{name}-callers",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=f"{name}-callers", namespace=args.home),
        spec=network.NetworkPolicySpecArgs(
            pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels={POOL_MEMBER_LABEL: name}),
            policy_types=["Ingress"],
            ingress=[
                network.NetworkPolicyIngressRuleArgs(
                    from_=peers, ports=[network.NetworkPolicyPortArgs(port=PORT, protocol="TCP")]
                )
            ],
        ),
        opts=child,
    )


def _disruption(name: str, args: DisaggregatedArgs, child: pulumi.ResourceOptions) -> None:
    """One group of a role at a time: a host that is drained takes its whole group along."""
    for role in ROLES:
        chosen = {**labels(name, role), POOL_MEMBER_LABEL: name}
        chosen.pop("app.kubernetes.io/part-of")
        k8s.policy.v1.PodDisruptionBudget(
            f"{name}-{role}-disruption",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=f"{name}-{role}", namespace=args.home),
            spec=k8s.policy.v1.PodDisruptionBudgetSpecArgs(
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=chosen), max_unavailable=1
            ),
            opts=child,
        )

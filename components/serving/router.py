"""The llm-d router: picks the servers of a request. Its chart, and who may talk to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_kubernetes as k8s

from catalog.router import (
    CHART,
    PICKER_HEALTH_PORT,
    PICKER_METRICS_PORT,
    PICKER_PORT,
    RouterRelease,
    chart_values,
)
from components import pods
from components.network import HEALTH_CHECKS

TIMEOUT = 600
"""Seconds for the picker to be ready; its image may have to be pulled to a new node."""

COLLECTORS = ("gmp-system", "gke-gmp-system")


@dataclass(frozen=True, kw_only=True)
class RouterArgs:
    namespace: pulumi.Input[str]
    release: RouterRelease
    picker: str
    member_labels: Mapping[str, str]
    """On every pod of the pool, and on no other."""
    failure_mode: str
    local_prefill_tokens: int
    cpus: int
    memory_gib: int
    proxy_only: IPv4Network
    """Where the load balancer asks from."""
    after: Sequence[pulumi.Resource] = ()


class Router(pulumi.ComponentResource):
    """The endpoint picker and the InferencePool it picks from."""

    pool: pulumi.Output[str]
    """Name of the pool, which policies and routes point to."""
    ready: pulumi.Resource

    def __init__(
        self, name: str, args: RouterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:Router", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        picker = {"llm-d-router-gateway": f"{name}-epp"}

        policy = k8s.networking.v1.NetworkPolicy(
            f"{name}-router-callers",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=f"{name}-epp", namespace=args.namespace),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=picker),
                policy_types=["Ingress"],
                ingress=_callers(args),
            ),
            opts=child,
        )
        release = k8s.helm.v3.Release(
            f"{name}-router",
            # Pool, Service and picker are named after it, and they name each other.
            name=name,
            namespace=args.namespace,
            chart=CHART,
            version=args.release.version,
            values=chart_values(
                args.release,
                picker=args.picker,
                member_labels=args.member_labels,
                failure_mode=args.failure_mode,
                local_prefill_tokens=args.local_prefill_tokens,
                cpus=args.cpus,
                memory_gib=args.memory_gib,
            ),
            timeout=TIMEOUT,
            cleanup_on_fail=True,
            max_history=3,
            opts=child.merge(pulumi.ResourceOptions(depends_on=[policy, *args.after])),
        )
        k8s.apiextensions.CustomResource(
            f"{name}-router-metrics",
            api_version="monitoring.googleapis.com/v1",
            kind="PodMonitoring",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=f"{name}-epp", namespace=args.namespace),
            spec={
                "selector": {"matchLabels": picker},
                "endpoints": [{"port": PICKER_METRICS_PORT, "path": "/metrics", "interval": "15s"}],
            },
            opts=child.merge(pulumi.ResourceOptions(depends_on=[release])),
        )
        self.pool = pulumi.Output.from_input(name)
        self.ready = release
        self.register_outputs({"pool": self.pool})


def _callers(args: RouterArgs) -> list[k8s.networking.v1.NetworkPolicyIngressRuleArgs]:
    """The load balancer asks, health checks probe, collectors scrape."""
    network = k8s.networking.v1

    def rule(
        port: int, peers: list[k8s.networking.v1.NetworkPolicyPeerArgs]
    ) -> k8s.networking.v1.NetworkPolicyIngressRuleArgs:
        return network.NetworkPolicyIngressRuleArgs(
            from_=peers, ports=[network.NetworkPolicyPortArgs(port=port, protocol="TCP")]
        )

    proxies = pods.from_ranges([str(args.proxy_only)])
    checks = pods.from_ranges(list(HEALTH_CHECKS))
    return [
        rule(PICKER_PORT, [*proxies, *checks]),
        rule(PICKER_HEALTH_PORT, [*proxies, *checks]),
        rule(PICKER_METRICS_PORT, pods.from_namespaces(COLLECTORS)),
    ]

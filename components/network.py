"""The network: jumbo frames, ranges for nodes, pods and services, proxies, a way out, firewalls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any

import pulumi
import pulumi_gcp as gcp

from catalog.router import PICKER_HEALTH_PORT, PICKER_PORT
from catalog.serving import PORT
from components.extra import with_extra

PODS_RANGE = "pods"
SERVICES_RANGE = "services"

WEBHOOK_PORTS = ("443", "8082", "9443", "10250")
"""API server to webhooks: Kueue, LWS and JobSet serve on 9443, metrics on 8082, kubelets 10250."""

SERVING_PORTS = tuple(str(port) for port in (PORT, PICKER_PORT, PICKER_HEALTH_PORT))
"""Load balancers ask model servers, and the picker which of them; both are checked for health."""

HEALTH_CHECKS = ("35.191.0.0/16", "130.211.0.0/22")
"""Where Google's health checks come from (docs 'Health checks overview', read 2026-08)."""


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    project: str
    region: str
    mtu: int
    nodes: IPv4Network
    pods: IPv4Network
    services: IPv4Network
    proxy_only: IPv4Network
    control_plane: IPv4Network
    node_tag: str
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments for `vpc`, `subnetwork` (of the nodes), `router` and `nat`."""
    after: Sequence[pulumi.Resource] = ()


class Network(pulumi.ComponentResource):
    """A VPC of one region whose nodes have no public address."""

    network: pulumi.Output[str]
    subnetwork: pulumi.Output[str]
    proxy_only_subnetwork: pulumi.Output[str]

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:network:Network", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)

        vpc = gcp.compute.Network(
            f"{name}-vpc",
            with_extra(
                gcp.compute.NetworkArgs(
                    project=args.project,
                    auto_create_subnetworks=False,
                    routing_mode="REGIONAL",
                    mtu=args.mtu,
                ),
                args.extra.get("vpc", {}),
            ),
            opts=child.merge(pulumi.ResourceOptions(depends_on=list(args.after))),
        )
        nodes = gcp.compute.Subnetwork(
            f"{name}-nodes",
            with_extra(
                gcp.compute.SubnetworkArgs(
                    project=args.project,
                    region=args.region,
                    network=vpc.id,
                    ip_cidr_range=str(args.nodes),
                    private_ip_google_access=True,
                    stack_type="IPV4_ONLY",
                    secondary_ip_ranges=[
                        gcp.compute.SubnetworkSecondaryIpRangeArgs(
                            range_name=PODS_RANGE, ip_cidr_range=str(args.pods)
                        ),
                        gcp.compute.SubnetworkSecondaryIpRangeArgs(
                            range_name=SERVICES_RANGE, ip_cidr_range=str(args.services)
                        ),
                    ],
                ),
                args.extra.get("subnetwork", {}),
            ),
            opts=child,
        )
        proxies = gcp.compute.Subnetwork(
            f"{name}-proxies",
            project=args.project,
            region=args.region,
            network=vpc.id,
            ip_cidr_range=str(args.proxy_only),
            purpose="REGIONAL_MANAGED_PROXY",
            role="ACTIVE",
            opts=child,
        )
        router = gcp.compute.Router(
            f"{name}-router",
            with_extra(
                gcp.compute.RouterArgs(project=args.project, region=args.region, network=vpc.id),
                args.extra.get("router", {}),
            ),
            opts=child,
        )
        # Private nodes pull operator and model-server images from registries outside Google.
        gcp.compute.RouterNat(
            f"{name}-nat",
            with_extra(
                gcp.compute.RouterNatArgs(
                    project=args.project,
                    region=args.region,
                    router=router.name,
                    nat_ip_allocate_option="AUTO_ONLY",
                    source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
                    subnetworks=[
                        gcp.compute.RouterNatSubnetworkArgs(
                            name=nodes.id, source_ip_ranges_to_nats=["ALL_IP_RANGES"]
                        )
                    ],
                    log_config=gcp.compute.RouterNatLogConfigArgs(
                        enable=True, filter="ERRORS_ONLY"
                    ),
                ),
                args.extra.get("nat", {}),
            ),
            opts=child,
        )
        for rule, (ranges, ports) in _ingress(args).items():
            gcp.compute.Firewall(
                f"{name}-{rule}",
                project=args.project,
                network=vpc.id,
                direction="INGRESS",
                source_ranges=[str(each) for each in ranges],
                target_tags=[args.node_tag],
                allows=[
                    gcp.compute.FirewallAllowArgs(protocol=protocol, ports=list(allowed) or None)
                    for protocol, allowed in ports.items()
                ],
                opts=child,
            )

        self.network = vpc.id
        self.subnetwork = nodes.id
        self.proxy_only_subnetwork = proxies.id
        self.register_outputs(
            {
                "network": self.network,
                "subnetwork": self.subnetwork,
                "proxy_only_subnetwork": self.proxy_only_subnetwork,
            }
        )


def _ingress(
    args: NetworkArgs,
) -> dict[str, tuple[Sequence[IPv4Network | str], dict[str, Sequence[str]]]]:
    """Who may open connections to nodes and pods, and on which ports by protocol."""
    every: dict[str, Sequence[str]] = {"tcp": (), "udp": (), "icmp": ()}
    return {
        # libtpu and the key-value transfer between vLLM pods choose ports freely.
        "inside": ((args.nodes, args.pods), every),
        "webhooks": ((args.control_plane,), {"tcp": WEBHOOK_PORTS}),
        "serving": ((args.proxy_only, *HEALTH_CHECKS), {"tcp": SERVING_PORTS}),
    }

"""Address ranges, and which of them the stack owns."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

from rules.kinds import CLUSTER, SUBNETWORK
from rules.model import Node, Stack, UndecidedError

Range = IPv4Network | IPv6Network


def cidr(text: str) -> Range | None:
    """A range, or None where the text is not one; host bits are forgiven."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def is_open(text: str) -> bool:
    """Whether a range is (half of) the internet."""
    network = cidr(text)
    return network is not None and network.prefixlen <= 1


def inside(inner: Range, outer: Range) -> bool:
    return inner.version == outer.version and (
        inner.network_address in outer and inner.prefixlen >= outer.prefixlen
    )


def known(node: Node, path: str) -> str | None:
    """A text that may still be unknown, which then counts as absent."""
    try:
        return node.text(path)
    except UndecidedError:
        return None


def stack_ranges(stack: Stack) -> list[Range]:
    """Every range the stack's subnets and control plane own, as far as known."""
    texts: list[str | None] = []
    for subnet in stack.of(SUBNETWORK):
        texts.append(known(subnet, "ipCidrRange"))
        texts += [known(entry, "ipCidrRange") for entry in subnet.each("secondaryIpRanges")]
    texts += [
        known(cluster, path)
        for cluster in stack.of(CLUSTER)
        for path in (
            "privateClusterConfig.masterIpv4CidrBlock",
            "ipAllocationPolicy.clusterIpv4CidrBlock",
            "ipAllocationPolicy.servicesIpv4CidrBlock",
        )
    ]
    ranges = [cidr(text) for text in texts if text]
    return [network for network in ranges if network is not None]

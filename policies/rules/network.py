"""VPC, subnets, firewall rules and NAT."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from itertools import combinations
from typing import Any

from rules import facts, links
from rules.kinds import CLUSTER, FIREWALL, NETWORK, ROUTER_NAT, SUBNETWORK
from rules.model import DROP, Guard, Node, Resource, Severity, Stack, rule
from rules.ranges import cidr, inside, is_open, known, stack_ranges

INGRESS = FIREWALL.where(
    "ingress firewall rules that allow",
    lambda f: (
        f.text("direction") != "EGRESS" and f.has("allows") and f.flag("disabled") is not True
    ),
)
EGRESS = FIREWALL.where(
    "egress firewall rules that allow",
    lambda f: (
        f.text("direction") == "EGRESS" and f.has("allows") and f.flag("disabled") is not True
    ),
)
# Proxy-only subnets take no flow logs and no Private Google Access
# (terraform-google-modules/terraform-google-network#371).
NODE_SUBNET = SUBNETWORK.where(
    "subnets for nodes", lambda s: s.text("purpose") in {None, "PRIVATE"}
)


@rule(
    "NET-01",
    "The network makes no subnets by itself.",
    severity=Severity.HIGH,
    on=NETWORK,
    fix="Set autoCreateSubnetworks to false and declare each subnet.",
    url=links.VPC,
    refs=[links.gcp_cis("3.1"), links.trivy("GCP-0010"), links.checkov("CKV2_GCP_2")],
    guards=[Guard("autoCreateSubnetworks", True), Guard("autoCreateSubnetworks", DROP)],
)
def no_auto_subnets(network: Resource) -> Iterator[str]:
    if network.flag("autoCreateSubnetworks") is not False:
        yield "autoCreateSubnetworks is on (the default): set it to false"


@rule(
    "NET-02",
    "The cluster is not on the network called default.",
    severity=Severity.HIGH,
    on=CLUSTER,
    fix="Give the cluster a network of the stack.",
    url=links.VPC,
    refs=[links.gcp_cis("3.1"), links.trivy("GCP-0010")],
    guards=[Guard("network", "default"), Guard("network", DROP)],
)
def own_network(cluster: Resource) -> Iterator[str]:
    # A network that is still to be made is one of the stack's.
    network = known(cluster, "network")
    if not cluster.has("network") or (network or "").rpartition("/")[2] == "default":
        yield "network is the project's default network: name a network of the stack"


@rule(
    "NET-03",
    "Node subnets reach Google APIs without public addresses.",
    severity=Severity.LOW,
    on=NODE_SUBNET,
    fix="Set privateIpGoogleAccess to true.",
    url=links.ISOLATION,
    refs=[links.checkov("CKV_GCP_74"), links.trivy("GCP-0075")],
    guards=[Guard("privateIpGoogleAccess", False), Guard("privateIpGoogleAccess", DROP)],
)
def private_google_access(subnet: Resource) -> Iterator[str]:
    if subnet.flag("privateIpGoogleAccess") is not True:
        yield "privateIpGoogleAccess is off: private nodes reach no Google API; set it to true"


@rule(
    "NET-04",
    "Node subnets keep flow logs.",
    severity=Severity.LOW,
    on=NODE_SUBNET,
    fix="Set logConfig with a sampling rate; TPU data-centre traffic is large.",
    url=links.VPC,
    refs=[links.cis("5.6.1"), links.gcp_cis("3.8"), links.checkov("CKV_GCP_61")],
    guards=[Guard("logConfig", DROP)],
)
def flow_logs(subnet: Resource) -> Iterator[str]:
    if not subnet.has("logConfig"):
        yield "logConfig is missing: add one, for example with flowSampling 0.1"


def _sources(firewall: Resource) -> list[str]:
    """Source ranges; a rule with neither ranges nor tags nor accounts is open to the world."""
    ranges = firewall.texts("sourceRanges")
    narrowed = firewall.has("sourceTags") or firewall.has("sourceServiceAccounts")
    return ranges or ([] if narrowed else ["0.0.0.0/0"])


@rule(
    "NET-05",
    "No firewall rule lets the whole internet in.",
    severity=Severity.CRITICAL,
    on=INGRESS,
    fix="Name the ranges that need access.",
    url=links.FIREWALLS,
    refs=[links.checkov("CKV_GCP_106"), links.trivy("GCP-0027")],
    guards=[Guard("sourceRanges", ["0.0.0.0/0"]), Guard("sourceRanges", ["::/0"])],
)
def no_open_ingress(firewall: Resource) -> Iterator[str]:
    for source in _sources(firewall):
        if is_open(source):
            yield f"sourceRanges is {source}: name the ranges that need access"


def _public(firewall: Resource) -> bool:
    ranges = [cidr(source) for source in _sources(firewall)]
    iap = ip_network(facts.IAP_RANGE)
    return any(r is not None and not inside(r, iap) and not r.is_private for r in ranges)


@rule(
    "NET-06",
    "SSH and RDP are reachable only through Identity-Aware Proxy.",
    severity=Severity.CRITICAL,
    on=INGRESS,
    fix=f"Allow ports 22 and 3389 from {facts.IAP_RANGE} only.",
    url=links.FIREWALLS,
    refs=[links.gcp_cis("3.6"), links.gcp_cis("3.7"), links.checkov("CKV_GCP_2")],
    guards=[
        Guard("allows", [{"protocol": "tcp", "ports": ["22"]}], when=_public),
        Guard(
            (),
            lambda f: {
                **f,
                "allows": [{"protocol": "tcp", "ports": ["1-65535"]}],
                "sourceRanges": ["8.8.8.0/24"],
            },
        ),
    ],
)
def no_remote_login(firewall: Resource) -> Iterator[str]:
    if not _public(firewall):
        return
    for allowed in firewall.each("allows"):
        for port in (22, 3389):
            if _covers(allowed, port):
                yield (
                    f"{allowed.at()} opens port {port} to ranges outside private address space: "
                    f"allow it from {facts.IAP_RANGE} only"
                )


def _covers(allowed: Node, port: int) -> bool:
    if allowed.text("protocol") not in {"tcp", "all", "6"}:
        return False
    ports = allowed.texts("ports")
    if not ports:
        return True
    for text in ports:
        low, _, high = text.partition("-")
        if low.isdigit() and int(low) <= port <= int(high if high.isdigit() else low):
            return True
    return False


@rule(
    "NET-07",
    "A rule that opens every port takes only the stack's own ranges.",
    severity=Severity.MEDIUM,
    on=INGRESS,
    whole_stack=True,
    fix="List the ports, or use only ranges of the stack's subnets.",
    url=links.FIREWALLS,
    refs=[links.checkov("CKV2_GCP_12"), links.trivy("GCP-0072")],
    guards=[
        Guard((), lambda f: {**f, "allows": [{"protocol": "all"}], "sourceRanges": ["10.0.0.0/7"]})
    ],
)
def wide_rules_stay_inside(firewall: Resource, stack: Stack) -> Iterator[str]:
    wide = [a for a in firewall.each("allows") if a.text("protocol") == "all" or not a.has("ports")]
    if all(a.text("protocol") in {"icmp", "1"} for a in wide):
        return
    own = stack_ranges(stack)
    for source in _sources(firewall):
        network = cidr(source)
        if network is not None and not any(inside(network, r) for r in own):
            yield f"all ports are open to {source}, which no subnet of the stack owns: list ports"


@rule(
    "NET-08",
    "A firewall rule says which machines it is for.",
    severity=Severity.LOW,
    on=FIREWALL,
    fix="Set targetTags or targetServiceAccounts.",
    url=links.FIREWALLS,
    refs=[links.cis("5.6.6")],
    guards=[Guard((), lambda f: {k: v for k, v in f.items() if not k.startswith("target")})],
)
def firewall_has_target(firewall: Resource) -> Iterator[str]:
    if not firewall.raw("targetTags") and not firewall.raw("targetServiceAccounts"):
        yield "the rule is for every machine: set targetTags or targetServiceAccounts"


@rule(
    "NET-09",
    "Firewall rules log.",
    severity=Severity.LOW,
    on=FIREWALL,
    fix="Set logConfig.",
    url=links.FIREWALLS,
    guards=[Guard("logConfig", DROP)],
)
def firewall_logs(firewall: Resource) -> Iterator[str]:
    if not firewall.has("logConfig"):
        yield "logConfig is missing: add one with EXCLUDE_ALL_METADATA to keep it cheap"


@rule(
    "NET-10",
    "No firewall rule allows all egress.",
    severity=Severity.MEDIUM,
    on=EGRESS,
    fix="Name the destinations.",
    url=links.FIREWALLS,
    refs=[links.trivy("GCP-0035")],
    guards=[Guard("destinationRanges", ["0.0.0.0/0"])],
)
def no_open_egress(firewall: Resource) -> Iterator[str]:
    for target in firewall.texts("destinationRanges") or ["0.0.0.0/0"]:
        if is_open(target):
            yield f"destinationRanges is {target}: name the destinations"


@rule(
    "NET-11",
    "NAT serves listed subnets and logs its errors.",
    severity=Severity.LOW,
    on=ROUTER_NAT,
    fix="Set sourceSubnetworkIpRangesToNat to LIST_OF_SUBNETWORKS and logConfig to ERRORS_ONLY.",
    url=links.NAT,
    guards=[
        Guard("sourceSubnetworkIpRangesToNat", "ALL_SUBNETWORKS_ALL_IP_RANGES"),
        Guard("logConfig.enable", False),
        Guard("logConfig", DROP),
    ],
)
def nat_is_listed(nat: Resource) -> Iterator[str]:
    if nat.text("sourceSubnetworkIpRangesToNat") != "LIST_OF_SUBNETWORKS":
        yield "sourceSubnetworkIpRangesToNat: set LIST_OF_SUBNETWORKS and list the node subnet"
    if nat.flag("logConfig.enable") is not True:
        yield "logConfig.enable is off: exhausted NAT ports stay unseen; log ERRORS_ONLY"


@rule(
    "NET-12",
    "Pod and service ranges are named, private and apart.",
    severity=Severity.MEDIUM,
    on=NODE_SUBNET,
    fix="Name each secondary range and take disjoint RFC 1918 or 100.64.0.0/10 space.",
    url=links.POD_CIDR,
    refs=[links.checkov("CKV_GCP_23"), links.trivy("GCP-0049")],
    guards=[
        Guard(("secondaryIpRanges", 0, "rangeName"), ""),
        Guard(("secondaryIpRanges", 0, "ipCidrRange"), "8.8.0.0/16"),
        Guard(
            (),
            lambda s: {**s, "ipCidrRange": s["secondaryIpRanges"][0]["ipCidrRange"]},
            when=lambda s: s.has(("secondaryIpRanges", 0)),
        ),
    ],
)
def ranges_are_apart(subnet: Resource) -> Iterator[str]:
    named: list[tuple[str, Any]] = [("ipCidrRange", cidr(subnet.text("ipCidrRange") or ""))]
    for entry in subnet.each("secondaryIpRanges"):
        network = cidr(entry.text("ipCidrRange") or "")
        if not entry.text("rangeName"):
            yield f"{entry.at('rangeName')} is missing: name the range so the cluster can use it"
        if network is not None and not (
            network.is_private or inside(network, ip_network("100.64.0.0/10"))
        ):
            yield f"{entry.at('ipCidrRange')} is {network}: use RFC 1918 or 100.64.0.0/10 space"
        named.append((entry.at("ipCidrRange"), network))
    for (one, a), (other, b) in combinations(named, 2):
        if a is not None and b is not None and a.version == b.version and a.overlaps(b):
            yield f"{one} ({a}) and {other} ({b}) overlap: take disjoint ranges"


RULES = [
    no_auto_subnets,
    own_network,
    private_google_access,
    flow_logs,
    no_open_ingress,
    no_remote_login,
    wide_rules_stay_inside,
    firewall_has_target,
    firewall_logs,
    no_open_egress,
    nat_is_listed,
    ranges_are_apart,
]

"""The way in: gateways, their proxies and firewalls, and pools of model servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.kinds import (
    BACKEND_POLICY,
    BUCKET,
    CLUSTER,
    GATEWAY,
    HEALTH_CHECK_POLICY,
    HELM,
    INFERENCE_POOL,
    LWS,
    SUBNETWORK,
    WEBHOOKS,
    pods,
    selector_matches,
)
from rules.model import DROP, Guard, Resource, Setting, Severity, Stack, rule
from rules.network import INGRESS
from rules.pools import TPU_POOL
from rules.ranges import cidr, inside

PROXY_CLASSES = ("gke-l7-rilb", "gke-l7-regional-external-managed")
PROXY_SUBNET = SUBNETWORK.where(
    "proxy-only subnets", lambda s: s.text("purpose") == "REGIONAL_MANAGED_PROXY"
)
PROXIED = GATEWAY.where(
    "gateways with regional proxies",
    lambda g: (g.text("spec.gatewayClassName") or "").startswith(PROXY_CLASSES),
)
EXTERNAL_SUBNET = Setting("string", "", "a proxy-only subnet made elsewhere, by name")


@rule(
    "TPU-19",
    "An internal gateway has its proxy-only subnet.",
    severity=Severity.HIGH,
    on=PROXIED,
    whole_stack=True,
    fix="Add one Subnetwork with purpose REGIONAL_MANAGED_PROXY and role ACTIVE, /26 to /23.",
    url=links.PROXY_SUBNET,
    settings={"existingProxySubnet": EXTERNAL_SUBNET},
    guards=[
        Guard((), DROP, on=PROXY_SUBNET),
        Guard("purpose", "PRIVATE", on=PROXY_SUBNET),
        Guard("role", "BACKUP", on=PROXY_SUBNET),
        Guard("ipCidrRange", "172.16.0.0/28", on=PROXY_SUBNET),
        Guard("logConfig", {"flowSampling": 0.5}, on=PROXY_SUBNET),
    ],
)
def proxy_subnet(gateway: Resource, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    if settings["existingProxySubnet"] or not stack.of(SUBNETWORK):
        return
    active = [s for s in stack.of(PROXY_SUBNET) if s.text("role") == "ACTIVE"]
    regions = {facts.region_of(c.text("location") or "") for c in stack.of(CLUSTER)}
    active = [s for s in active if not regions or s.text("region") in regions]
    if len(active) != 1:
        yield (
            f"{gateway.text('spec.gatewayClassName')} needs exactly one active proxy-only subnet "
            f"in the cluster's region, the stack has {len(active)}: add a Subnetwork with purpose "
            "REGIONAL_MANAGED_PROXY and role ACTIVE"
        )
    for subnet in active:
        network = cidr(subnet.text("ipCidrRange") or "")
        if network is not None and network.prefixlen > 26:
            yield (
                f"the proxy-only subnet {subnet.name} is /{network.prefixlen}: at least /26, best "
                "/23"
            )
        if subnet.has("logConfig"):
            yield (
                f"the proxy-only subnet {subnet.name} has logConfig, which the API refuses: "
                "remove it"
            )


def _opens(firewall: Resource, port: int, source: str | None) -> bool:
    """Whether an ingress rule lets a range (any range where it is None) reach a TCP port."""
    for allowed in firewall.each("allows"):
        if allowed.text("protocol") not in {"tcp", "all", "6"}:
            continue
        listed = allowed.texts("ports")
        if listed and not any(_in(port, text) for text in listed):
            continue
        wanted = cidr(source or "")
        ranges = [cidr(r) for r in firewall.texts("sourceRanges")]
        if wanted is None or any(r is not None and inside(wanted, r) for r in ranges):
            return True
    return False


def _lists(firewall: Resource, port: str) -> bool:
    return any(port in allowed.texts("ports") for allowed in firewall.each("allows"))


def _in(port: int, text: str) -> bool:
    low, _, high = text.partition("-")
    return low.isdigit() and int(low) <= port <= int(high if high.isdigit() else low)


@rule(
    "TPU-20",
    "The control plane reaches webhooks, and proxies reach the model servers.",
    severity=Severity.MEDIUM,
    on=CLUSTER | PROXIED,
    whole_stack=True,
    fix=(
        "Add firewall rules: control plane to 9443 and 8082, proxy-only subnet to the serving "
        "port."
    ),
    url=links.ISOLATION,
    settings={
        "webhookPorts": Setting("array", list(facts.WEBHOOK_PORTS), "ports webhooks listen on"),
        "servingPorts": Setting("array", [8000], "ports model servers listen on"),
    },
    guards=[
        Guard("allows", [{"protocol": "tcp", "ports": ["443"]}], needs=HELM | WEBHOOKS,
              on=INGRESS.where("rules for webhooks", lambda f: _lists(f, "9443"))),
        Guard("sourceRanges", ["192.0.2.0/24"], needs=PROXIED,
              on=INGRESS.where("rules for serving", lambda f: _lists(f, "8000"))),
    ],
)  # fmt: skip
def ports_are_open(thing: Resource, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    rules = stack.of(INGRESS)
    if not rules and not stack.of(SUBNETWORK):
        return  # the network is somebody else's
    if thing.type.endswith(":Gateway"):
        for subnet in stack.of(PROXY_SUBNET):
            source = subnet.text("ipCidrRange")
            for port in settings["servingPorts"]:
                if not any(_opens(f, int(port), source) for f in rules):
                    yield f"no firewall rule lets the proxies ({source}) reach port {port}: add one"
        return
    private = thing.flag("privateClusterConfig.enablePrivateNodes") is True
    if not private or not (stack.of(HELM) or stack.of(WEBHOOKS)):
        return
    source = thing.text("privateClusterConfig.masterIpv4CidrBlock")
    for port in settings["webhookPorts"]:
        if not any(_opens(f, int(port), source) for f in rules):
            yield (
                f"no firewall rule lets the control plane ({source or 'its range'}) reach port "
                f"{port} of the nodes: webhooks time out and nothing can be created; add one"
            )


def _policies(selector: Any, pool: Resource, stack: Stack) -> list[Resource]:
    name = pool.text("metadata.name") or pool.name
    return [
        p
        for p in stack.of(selector)
        if p.text("spec.targetRef.kind") == "InferencePool"
        and p.text("spec.targetRef.name") == name
        and p.text("metadata.namespace") == pool.text("metadata.namespace")
    ]


@rule(
    "SRV-01",
    "The load balancer asks the model, not the proxy in front of it.",
    severity=Severity.HIGH,
    on=INFERENCE_POOL,
    whole_stack=True,
    fix="Add a HealthCheckPolicy for the pool with requestPath /v1/models.",
    url=links.GATEWAY,
    guards=[
        Guard((), DROP, on=HEALTH_CHECK_POLICY),
        Guard("spec.default.config.httpHealthCheck.requestPath", "/health", on=HEALTH_CHECK_POLICY),
        Guard("spec.targetRef.name", "other", on=HEALTH_CHECK_POLICY),
    ],
)
def health_of_the_model(pool: Resource, stack: Stack) -> Iterator[str]:
    policies = _policies(HEALTH_CHECK_POLICY, pool, stack)
    if not policies:
        yield "no HealthCheckPolicy for this pool: GKE would ask GET /, which vLLM answers with 404"
    for policy in policies:
        path = policy.text("spec.default.config.httpHealthCheck.requestPath")
        if path != "/v1/models":
            yield (
                f"{policy.title} asks {path}: on decode pods the sidecar answers /health itself "
                "before the model is loaded; ask /v1/models"
            )


@rule(
    "SRV-02",
    "Long answers are not cut off.",
    severity=Severity.HIGH,
    on=INFERENCE_POOL,
    whole_stack=True,
    fix="Add a GCPBackendPolicy for the pool with a timeout for the longest answer.",
    url=links.GATEWAY,
    settings={"timeoutSec": Setting("integer", 300, "least backend timeout")},
    guards=[
        Guard((), DROP, on=BACKEND_POLICY),
        Guard("spec.default.timeoutSec", 30, on=BACKEND_POLICY),
    ],
)
def answers_are_not_cut(pool: Resource, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    least = settings["timeoutSec"]
    found = [
        p.number("spec.default.timeoutSec") or 0 for p in _policies(BACKEND_POLICY, pool, stack)
    ]
    if not found:
        yield (
            f"no GCPBackendPolicy for this pool: answers end after 30 s; set timeoutSec {least} "
            "or more"
        )
    elif max(found) < least:
        yield f"timeoutSec is {max(found)}: answers are cut; set {least} or more"


@rule(
    "SRV-03",
    "A pool of endpoints holds leaders only.",
    severity=Severity.HIGH,
    on=INFERENCE_POOL,
    whole_stack=True,
    fix='Select leaderworkerset.sigs.k8s.io/worker-index: "0", or label workers otherwise.',
    url=links.INFERENCE_POOL,
    guards=[
        Guard("spec.selector.matchLabels", DROP),
    ],
)
def leaders_only(pool: Resource, stack: Stack) -> Iterator[str]:
    wanted = pool.mapping("spec.selector.matchLabels")
    if not wanted:
        yield "spec.selector.matchLabels is missing: the pool has no endpoints"
        return
    if wanted.get("leaderworkerset.sigs.k8s.io/worker-index") == "0":
        return
    for lws in stack.of(LWS):
        if (lws.number("spec.leaderWorkerTemplate.size") or 1) < 2:
            continue
        for pod in pods(lws):
            if pod.role == "worker" and selector_matches(
                wanted, pod.template.mapping("metadata.labels")
            ):
                yield f"the workers of {lws.name} match and answer nothing: half the requests fail"


@rule(
    "STO-07",
    "Buckets lie in the region of the TPUs.",
    severity=Severity.MEDIUM,
    on=BUCKET,
    whole_stack=True,
    fix="Set location to the cluster's region.",
    url=links.STORAGE,
    guards=[Guard("location", "ASIA-EAST1"), Guard("location", "US")],
)
def bucket_is_near(bucket: Resource, stack: Stack) -> Iterator[str]:
    location = bucket.text("location")
    regions = {facts.region_of(c.text("location") or "") for c in stack.of(CLUSTER)} - {""}
    if location is None or not regions or not stack.of(TPU_POOL):
        return
    if location.lower() not in regions:
        yield (
            f"location is {location}, the TPUs are in {', '.join(sorted(regions))}: weights load "
            "slowly"
        )


RULES = [
    proxy_subnet,
    ports_are_open,
    health_of_the_model,
    answers_are_not_cut,
    leaders_only,
    bucket_is_near,
]

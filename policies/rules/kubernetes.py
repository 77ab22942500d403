"""Kubernetes objects other than pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules import links
from rules.cluster import GOLDEN
from rules.kinds import (
    CONFIG_MAP,
    GATEWAY,
    INGRESS,
    K8S_PROVIDER,
    K8S_SERVICE,
    NAMESPACE,
    NETWORK_POLICY,
    PDB,
    POD,
    WEBHOOKS,
    Pod,
    annotation,
    label,
    pods,
)
from rules.model import (
    DROP,
    Guard,
    Part,
    Reference,
    Resource,
    Selector,
    Setting,
    Severity,
    Stack,
    rule,
)
from rules.ranges import is_open
from rules.secret_text import secret_places

KUBERNETES = Selector("Kubernetes objects", lambda t: t.startswith("kubernetes:"))
# Kinds that live in a namespace; others, and custom kinds whose scope is not known, are left out.
NAMESPACED = (
    POD
    | Selector(
        "namespaced objects",
        lambda t: t.rpartition(":")[2]
        in {
            "ConfigMap", "Secret", "Service", "ServiceAccount", "Role", "RoleBinding",
            "NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Gateway",
            "HTTPRoute", "InferencePool", "HealthCheckPolicy", "GCPBackendPolicy", "PodMonitoring",
            "AutoscalingMetric", "LocalQueue", "SecretProviderClass", "PersistentVolumeClaim",
        }
        and t.startswith("kubernetes:"),
    )
)  # fmt: skip
PLACED = Selector("namespaced objects", NAMESPACED.matches).where(
    "namespaced objects with something to judge",
    lambda r: r.type.rpartition(":")[2] != "JobSet" or any(pods(r)),
)
EXTERNAL_CLASSES = (
    "gke-l7-global-external-managed",
    "gke-l7-regional-external-managed",
    "gke-l7-gxlb",
)
LOAD_BALANCER = K8S_SERVICE.where(
    "load balancer services", lambda s: s.text("spec.type") == "LoadBalancer"
)
EXTERNAL_GATEWAY = GATEWAY.where(
    "external gateways",
    lambda g: (g.text("spec.gatewayClassName") or "").startswith(EXTERNAL_CLASSES),
)


def _internal(service: Resource) -> bool:
    return "Internal" in {
        annotation(service, "networking.gke.io/load-balancer-type"),
        annotation(service, "cloud.google.com/load-balancer-type"),
    }


@rule(
    "SVC-01",
    "A load balancer service is internal.",
    severity=Severity.HIGH,
    on=K8S_SERVICE,
    fix="Use ClusterIP behind the Gateway, or the annotation load-balancer-type: Internal.",
    url=links.VLLM_SECURITY,
    refs=[Reference("Kyverno", "", "restrict-loadbalancer")],
    guards=[Guard("spec.type", "LoadBalancer", when=lambda s: not _internal(s))],
)
def internal_load_balancer(service: Resource) -> Iterator[str]:
    if service.text("spec.type") == "LoadBalancer" and not _internal(service):
        yield (
            "spec.type LoadBalancer would be public and vLLM asks nobody who they are: use "
            'ClusterIP, or the annotation networking.gke.io/load-balancer-type: "Internal"'
        )


@rule(
    "SVC-02",
    "A public load balancer service names its clients.",
    severity=Severity.HIGH,
    on=K8S_SERVICE,
    fix="Set spec.loadBalancerSourceRanges.",
    url=links.VLLM_SECURITY,
    refs=[Reference("Kyverno", "", "restrict-loadbalancer")],
    guards=[
        Guard((), lambda s: {**s, "spec": {**s["spec"], "type": "LoadBalancer"}},
              when=lambda s: not _internal(s)),
        Guard((), lambda s: {**s, "spec": {**s["spec"], "type": "LoadBalancer",
                                           "loadBalancerSourceRanges": ["0.0.0.0/0"]}},
              when=lambda s: not _internal(s)),
    ],
)  # fmt: skip
def named_clients(service: Resource) -> Iterator[str]:
    if service.text("spec.type") != "LoadBalancer" or _internal(service):
        return
    ranges = service.texts("spec.loadBalancerSourceRanges")
    if not ranges or any(is_open(r) for r in ranges):
        yield "spec.loadBalancerSourceRanges lets everyone in: name the ranges of the clients"


@rule(
    "SVC-03",
    "Services open no node ports and claim no external addresses.",
    severity=Severity.MEDIUM,
    on=K8S_SERVICE,
    fix="Use ClusterIP.",
    url=links.HARDENING,
    refs=[links.trivy("KSV-0108")],
    guards=[Guard("spec.type", "NodePort"), Guard("spec.externalIPs", ["203.0.113.1"])],
)
def no_node_ports(service: Resource) -> Iterator[str]:
    if service.text("spec.type") == "NodePort":
        yield "spec.type is NodePort: use ClusterIP"
    if service.raw("spec.externalIPs"):
        yield "spec.externalIPs is set: remove it"


@rule(
    "ING-01",
    "A public entry speaks TLS.",
    severity=Severity.HIGH,
    on=EXTERNAL_GATEWAY | INGRESS,
    fix="Give the Gateway HTTPS listeners, the Ingress a certificate.",
    url=links.GATEWAY,
    refs=[links.cis("5.6.7"), links.gcp_cis("3.9")],
    guards=[
        Guard(("spec", "listeners", 0, "protocol"), "HTTP", on=EXTERNAL_GATEWAY),
        Guard("spec.tls", DROP, on=INGRESS),
        Guard("spec.gatewayClassName", "gke-l7-global-external-managed", on=GATEWAY,
              when=lambda g: any(x.text("protocol") == "HTTP" for x in g.each("spec.listeners"))),
    ],
)  # fmt: skip
def tls_outside(entry: Resource) -> Iterator[str]:
    if entry.type.endswith(":Gateway"):
        for listener in entry.each("spec.listeners"):
            if listener.text("protocol") not in {"HTTPS", "TLS"}:
                yield f"{listener.at('protocol')} is not HTTPS on a public class: use HTTPS"
        return
    keys = ("networking.gke.io/managed-certificates", "ingress.gcp.kubernetes.io/pre-shared-cert")
    internal = annotation(entry, "kubernetes.io/ingress.class") == "gce-internal"
    if not internal and not entry.raw("spec.tls") and not any(annotation(entry, k) for k in keys):
        yield "the Ingress is public without TLS: set spec.tls or a managed certificate"


@rule(
    "ING-02",
    "The gateway class is one the platform knows.",
    severity=Severity.MEDIUM,
    on=GATEWAY,
    fix="Use an allowed spec.gatewayClassName.",
    url=links.GATEWAY,
    settings={
        "classes": Setting(
            "array",
            ["gke-l7-rilb", "gke-l7-regional-external-managed", "gke-l7-global-external-managed"],
            "gateway classes that may be used",
        )
    },
    guards=[Guard("spec.gatewayClassName", "istio")],
)
def known_gateway_class(gateway: Resource, settings: dict[str, Any]) -> Iterator[str]:
    name = gateway.text("spec.gatewayClassName")
    if name not in settings["classes"]:
        yield f"spec.gatewayClassName is {name}: use one of {', '.join(settings['classes'])}"


@rule(
    "NSP-01",
    "A namespace enforces a Pod Security level.",
    severity=Severity.MEDIUM,
    on=NAMESPACE,
    fix="Set the label pod-security.kubernetes.io/enforce to restricted or baseline.",
    url=links.POD_SECURITY,
    refs=[links.cis("4.2.1"), GOLDEN],
    guards=[
        Guard(("metadata", "labels", "pod-security.kubernetes.io/enforce"), DROP),
        Guard(("metadata", "labels", "pod-security.kubernetes.io/enforce"), "privileged"),
    ],
)
def pod_security_level(namespace: Resource) -> Iterator[str]:
    level = label(namespace, "pod-security.kubernetes.io/enforce")
    if level not in {"restricted", "baseline"}:
        yield (
            "the label pod-security.kubernetes.io/enforce is "
            f"{level or 'missing'}: set restricted, or baseline where the image needs it"
        )


@rule(
    "NSP-02",
    "Nothing lives in the namespace called default.",
    severity=Severity.LOW,
    on=NAMESPACED,
    fix="Set metadata.namespace.",
    url=links.HARDENING,
    refs=[links.cis("4.6.4"), links.trivy("KSV-0110")],
    guards=[
        Guard("metadata.namespace", "default", on=PLACED),
        Guard("metadata.namespace", DROP, on=PLACED),
    ],
)  # fmt: skip
def not_in_default(thing: Part) -> Iterator[str]:
    resource = thing.resource
    if thing.path and thing.path != next(iter(pods(resource))).path:
        return  # one message for all templates of a workload
    namespace = resource.text("metadata.namespace")
    if namespace in {None, "", "default"}:
        yield "metadata.namespace is default: name a namespace of the stack"


def _denies_all(policy: Resource, namespace: str) -> bool:
    everything = not policy.mapping("spec.podSelector")
    types = policy.texts("spec.policyTypes") or ["Ingress"]
    return (
        policy.text("metadata.namespace") == namespace
        and everything
        and "Ingress" in types
        and not policy.raw("spec.ingress")
    )


def _first_pod_of(namespace: str | None, stack: Stack) -> Pod | None:
    runs = (p for p in stack.of(POD) if p.resource.raw("spec.replicas") != 0)
    return next((p for p in runs if namespace is not None and p.namespace == namespace), None)


@rule(
    "NWP-01",
    "A namespace with pods denies what is not allowed.",
    severity=Severity.MEDIUM,
    on=POD,
    whole_stack=True,
    fix="Add a NetworkPolicy with an empty podSelector, type Ingress and no rule.",
    url=links.NETWORK_POLICY,
    refs=[links.cis("4.3.2"), links.checkov("CKV2_K8S_6")],
    guards=[
        Guard((), DROP, on=NETWORK_POLICY.where(
            "default-deny policies", lambda p: _denies_all(p, p.text("metadata.namespace") or ""))),
        Guard("spec.ingress", [{}], on=NETWORK_POLICY.where(
            "default-deny policies", lambda p: _denies_all(p, p.text("metadata.namespace") or ""))),
    ],
)  # fmt: skip
def default_deny(pod: Pod, stack: Stack) -> Iterator[str]:
    namespace = pod.namespace
    first = _first_pod_of(namespace, stack)
    if (
        namespace is None
        or first is None
        or first.resource is not pod.resource
        or first.path != pod.path
    ):
        return  # one message a namespace
    if not any(_denies_all(policy, namespace) for policy in stack.of(NETWORK_POLICY)):
        yield (
            f"namespace {namespace} has pods and no default-deny NetworkPolicy (traffic between "
            "vLLM hosts is neither encrypted nor authenticated): add one, then allow what is needed"
        )


@rule(
    "KSEC-02",
    "No secret in a ConfigMap.",
    severity=Severity.CRITICAL,
    on=CONFIG_MAP,
    fix="Keep it in Secret Manager and mount it.",
    url=links.SECRETS,
    refs=[links.trivy("KSV-0109"), links.checkov("CKV_K8S_35")],
    guards=[Guard("data", {"HF_TOKEN": "hf_" + "x" * 34})],
)
def no_secret_in_config_map(config_map: Resource) -> Iterator[str]:
    for place in secret_places(config_map.node("data")):
        yield f"{place} looks like a secret: keep it in Secret Manager and mount it"


@rule(
    "PDB-01",
    "A disruption budget leaves room for one disruption.",
    severity=Severity.MEDIUM,
    on=PDB,
    fix="Use maxUnavailable 1.",
    url=links.DISRUPTIONS,
    refs=[Reference("Kyverno", "", "pdb-maxunavailable")],
    guards=[
        Guard("spec", lambda s: {"maxUnavailable": 0, "selector": s.get("selector")}),
        Guard("spec", lambda s: {"minAvailable": "100%", "selector": s.get("selector")}),
    ],
)
def budget_leaves_room(budget: Resource) -> Iterator[str]:
    if budget.raw("spec.maxUnavailable") in (0, "0", "0%"):
        yield "spec.maxUnavailable is 0: no node could ever be drained; set 1"
    if budget.raw("spec.minAvailable") == "100%":
        yield "spec.minAvailable is 100%: no node could ever be drained; set maxUnavailable 1"


@rule(
    "WH-01",
    "A webhook that can refuse leaves system namespaces alone.",
    severity=Severity.HIGH,
    on=WEBHOOKS,
    fix="Set an objectSelector on the queue label, or a namespaceSelector without kube-system.",
    url=links.WEBHOOKS,
    guards=[
        Guard(("webhooks", 0), lambda w: {k: v for k, v in w.items()
                                          if k not in {"objectSelector", "namespaceSelector"}},
              when=lambda w: w.text(("webhooks", 0, "failurePolicy")) != "Ignore"),
    ],
)  # fmt: skip
def webhook_spares_system(configuration: Resource) -> Iterator[str]:
    for hook in configuration.each("webhooks"):
        selective = hook.mapping("objectSelector") or hook.mapping("namespaceSelector")
        if hook.text("failurePolicy") != "Ignore" and not selective:
            yield (
                f"{hook.at()} refuses objects in every namespace while its server is down: add "
                "an objectSelector, or a namespaceSelector without kube-system"
            )


@rule(
    "PROV-01",
    "The Kubernetes provider never drops objects from state by itself.",
    severity=Severity.HIGH,
    on=K8S_PROVIDER,
    fix="Leave deleteUnreachable unset.",
    url=links.K8S_PROVIDER,
    guards=[Guard("deleteUnreachable", "true")],
)
def keeps_unreachable(provider: Resource) -> Iterator[str]:
    if provider.flag("deleteUnreachable") is True:
        yield "deleteUnreachable forgets every object once the API cannot be reached: remove it"


@rule(
    "PROV-02",
    "The Kubernetes provider knows its cluster by a fixed identifier.",
    severity=Severity.HIGH,
    on=K8S_PROVIDER,
    fix="Set cluster_identifier; without it a changed endpoint replaces every object.",
    url=links.K8S_PROVIDER,
    guards=[Guard("clusterIdentifier", DROP)],
)
def fixed_identity(provider: Resource) -> Iterator[str]:
    if not provider.has("clusterIdentifier"):
        yield (
            "clusterIdentifier is missing: a change of the cluster's endpoint would replace the "
            "provider and delete everything in it; set it to a stable name"
        )


RULES = [
    internal_load_balancer,
    named_clients,
    no_node_ports,
    tls_outside,
    known_gateway_class,
    pod_security_level,
    not_in_default,
    default_deny,
    no_secret_in_config_map,
    budget_leaves_room,
    webhook_spares_system,
    keeps_unreachable,
    fixed_identity,
]

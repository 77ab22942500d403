"""Where each requirement is explained; read 2026-11."""

from __future__ import annotations

from typing import Final

from rules.model import Reference

_GKE = "https://docs.cloud.google.com/kubernetes-engine/docs"
HARDENING: Final = f"{_GKE}/how-to/hardening-your-cluster"
ISOLATION: Final = f"{_GKE}/concepts/network-isolation"
PLAN_TPUS: Final = f"{_GKE}/concepts/plan-tpus"
TPUS: Final = f"{_GKE}/concepts/tpus"
DYNAMIC_SLICING: Final = f"{_GKE}/how-to/use-gke-dynamic-slicing"
MAINTENANCE: Final = f"{_GKE}/concepts/maintenance-windows-and-exclusions"
WORKLOAD_IDENTITY: Final = f"{_GKE}/how-to/workload-identity"
POD_CIDR: Final = f"{_GKE}/how-to/flexible-pod-cidr"
AUTOSCALE_METRICS: Final = f"{_GKE}/how-to/autoscale-using-metrics"
NODE_CONFIG: Final = f"{_GKE}/how-to/node-system-config"
GATEWAY: Final = f"{_GKE}/how-to/deploying-gateways"
VPC: Final = "https://docs.cloud.google.com/vpc/docs/vpc"
MTU: Final = "https://docs.cloud.google.com/vpc/docs/mtu"
FIREWALLS: Final = "https://docs.cloud.google.com/firewall/docs/firewalls"
NAT: Final = "https://docs.cloud.google.com/nat/docs/overview"
PROXY_SUBNET: Final = "https://docs.cloud.google.com/load-balancing/docs/proxy-only-subnets"
STORAGE: Final = "https://docs.cloud.google.com/storage/docs/best-practices"
IAM: Final = "https://docs.cloud.google.com/iam/docs/using-iam-securely"
SECRETS: Final = "https://docs.cloud.google.com/secret-manager/docs/best-practices"
KMS: Final = "https://docs.cloud.google.com/kms/docs/key-rotation"
BUDGETS: Final = "https://docs.cloud.google.com/billing/docs/how-to/budgets"
POD_SECURITY: Final = "https://kubernetes.io/docs/concepts/security/pod-security-standards/"
RBAC: Final = "https://kubernetes.io/docs/concepts/security/rbac-good-practices/"
NETWORK_POLICY: Final = "https://kubernetes.io/docs/concepts/services-networking/network-policies/"
WEBHOOKS: Final = (
    "https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/"
)
PROBES: Final = (
    "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/"
)
DISRUPTIONS: Final = "https://kubernetes.io/docs/concepts/workloads/pods/disruptions/"
IMAGES: Final = "https://kubernetes.io/docs/concepts/containers/images/"
KUEUE: Final = "https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/"
KUEUE_PRIORITY: Final = "https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/"
LWS: Final = "https://lws.sigs.k8s.io/docs/concepts/"
VLLM_SECURITY: Final = "https://docs.vllm.ai/en/latest/usage/security/"
VLLM_SERVE: Final = "https://docs.vllm.ai/en/latest/cli/serve/"
INFERENCE_POOL: Final = (
    "https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/"
)
HELM_RELEASE: Final = (
    "https://www.pulumi.com/registry/packages/kubernetes/api-docs/helm/v3/release/"
)
K8S_PROVIDER: Final = "https://www.pulumi.com/registry/packages/kubernetes/api-docs/provider/"
RESOURCE_OPTIONS: Final = "https://www.pulumi.com/docs/iac/concepts/resources/options/"
POLICIES: Final = "https://www.pulumi.com/docs/insights/policy/"


def cis(item: str) -> Reference:
    """CIS Google Kubernetes Engine Benchmark."""
    return Reference("CIS GKE", "1.9.0", item)


def gcp_cis(item: str) -> Reference:
    """CIS Google Cloud Platform Foundation Benchmark."""
    return Reference("CIS GCP", "4.0.0", item)


def pss(level: str) -> Reference:
    """Kubernetes Pod Security Standards."""
    return Reference("Pod Security Standards", "", level)


def checkov(item: str) -> Reference:
    return Reference("Checkov", "", item)


def trivy(item: str) -> Reference:
    return Reference("Trivy", "", item)

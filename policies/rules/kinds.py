"""The resources rules look at, and the pods inside Kubernetes workloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rules.model import Node, Part, Resource, Selector, gcp, kube

NETWORK = gcp("compute/network:Network")
SUBNETWORK = gcp("compute/subnetwork:Subnetwork")
FIREWALL = gcp("compute/firewall:Firewall")
ROUTER_NAT = gcp("compute/routerNat:RouterNat")
RESOURCE_POLICY = gcp("compute/resourcePolicy:ResourcePolicy")
CLUSTER = gcp("container/cluster:Cluster")
NODE_POOL = gcp("container/nodePool:NodePool")
BUCKET = gcp("storage/bucket:Bucket")
BUCKET_MEMBER = gcp("storage/bucketIAMMember:BucketIAMMember")
BUCKET_BINDING = gcp("storage/bucketIAMBinding:BucketIAMBinding")
BUCKET_POLICY = gcp("storage/bucketIAMPolicy:BucketIAMPolicy")
PROJECT_MEMBER = gcp("projects/iAMMember:IAMMember")
PROJECT_BINDING = gcp("projects/iAMBinding:IAMBinding")
PROJECT_POLICY = gcp("projects/iAMPolicy:IAMPolicy")
SERVICE = gcp("projects/service:Service")
SA_KEY = gcp("serviceaccount/key:Key")
SA_MEMBER = gcp("serviceaccount/iAMMember:IAMMember")
SECRET = gcp("secretmanager/secret:Secret")
SECRET_MEMBER = gcp("secretmanager/secretIamMember:SecretIamMember")
SECRET_BINDING = gcp("secretmanager/secretIamBinding:SecretIamBinding")
CRYPTO_KEY = gcp("kms/cryptoKey:CryptoKey")
BUDGET = gcp("billing/budget:Budget")
K8S_PROVIDER = Selector("Kubernetes provider", lambda t: t == "pulumi:providers:kubernetes")

NAMESPACE = kube("core", "Namespace")
K8S_SERVICE = kube("core", "Service")
CONFIG_MAP = kube("core", "ConfigMap")
NETWORK_POLICY = kube("networking.k8s.io", "NetworkPolicy")
INGRESS = kube("networking.k8s.io", "Ingress")
ROLES = kube("rbac.authorization.k8s.io", "Role", "ClusterRole")
BINDINGS = kube("rbac.authorization.k8s.io", "RoleBinding", "ClusterRoleBinding")
PDB = kube("policy", "PodDisruptionBudget")
HPA = kube("autoscaling", "HorizontalPodAutoscaler")
WEBHOOKS = kube(
    "admissionregistration.k8s.io", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
)
GATEWAY = kube("gateway.networking.k8s.io", "Gateway")
INFERENCE_POOL = kube("inference.networking.k8s.io", "InferencePool")
HEALTH_CHECK_POLICY = kube("networking.gke.io", "HealthCheckPolicy")
BACKEND_POLICY = kube("networking.gke.io", "GCPBackendPolicy")
POD_MONITORING = kube("monitoring.googleapis.com", "PodMonitoring", "ClusterPodMonitoring")
AUTOSCALING_METRIC = kube("autoscaling.gke.io", "AutoscalingMetric")
LWS = kube("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
JOBSET = kube("jobset.x-k8s.io", "JobSet")
DEPLOYMENT = kube("apps", "Deployment")
STATEFUL_SET = kube("apps", "StatefulSet")
DAEMON_SET = kube("apps", "DaemonSet")
JOB = kube("batch", "Job", "CronJob")
BARE_POD = kube("core", "Pod")
CLUSTER_QUEUE = kube("kueue.x-k8s.io", "ClusterQueue")
LOCAL_QUEUE = kube("kueue.x-k8s.io", "LocalQueue")
FLAVOR = kube("kueue.x-k8s.io", "ResourceFlavor")
KUEUE_TOPOLOGY = kube("kueue.x-k8s.io", "Topology")
PRIORITY_CLASS = kube("kueue.x-k8s.io", "WorkloadPriorityClass")
HELM_RELEASE = kube("helm.sh", "Release")
HELM_CHART = kube("helm.sh", "Chart")
HELM = HELM_RELEASE | HELM_CHART
YAML_FILES = Selector(
    "ConfigFile, ConfigGroup",
    lambda t: t.startswith("kubernetes:yaml") and t.endswith(("ConfigFile", "ConfigGroup")),
)
COMMANDS = Selector("Command", lambda t: t.startswith("command:") and t.endswith(":Command"))
WORKLOADS = BARE_POD | DEPLOYMENT | STATEFUL_SET | DAEMON_SET | JOB | LWS | JOBSET

TPU_RESOURCE: Final = "google.com/tpu"
ACCELERATOR_LABEL: Final = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY_LABEL: Final = "cloud.google.com/gke-tpu-topology"
SLICE_LABEL: Final = "cloud.google.com/gke-tpu-slice"
SLICE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-slice-topology"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True, eq=False)
class Pod(Part):
    """The pod spec of a workload, with the template around it."""

    template: Node = field(default_factory=lambda: Node({}))
    role: str = ""  # leader or worker of a LeaderWorkerSet

    @property
    def kind(self) -> str:
        return self.resource.type.rpartition(":")[2]

    @property
    def containers(self) -> list[Container]:
        return [
            Container(node.value, node.path, resource=self.resource, pod=self, init=init)
            for key, init in (("containers", False), ("initContainers", True))
            for node in self.each(key)
        ]

    def label(self, key: str) -> str | None:
        return self.template.text(("metadata", "labels", key))

    def annotation(self, key: str) -> str | None:
        return self.template.text(("metadata", "annotations", key))

    def selects(self, key: str) -> str | None:
        """The node label value a pod is bound to, by selector or by required affinity to one."""
        chosen = self.text(("nodeSelector", key))
        if chosen is not None:
            return chosen
        terms = self.each(
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        )
        for term in terms:
            for expression in term.each("matchExpressions"):
                values = expression.texts("values")
                if (expression.text("key"), expression.text("operator")) == (key, "In"):
                    return values[0] if len(values) == 1 else None
        return None

    @property
    def asks_tpu(self) -> bool:
        return any(c.asks_tpu for c in self.containers)

    @property
    def chips(self) -> int:
        """TPU chips of one pod."""
        return sum(c.chips for c in self.containers if not c.init)

    @property
    def namespace(self) -> str | None:
        return self.resource.text("metadata.namespace")


@dataclass(frozen=True, eq=False)
class Container(Part):
    """One container of a pod."""

    pod: Pod = field(default_factory=lambda: Pod({}))
    init: bool = False

    @property
    def title(self) -> str:
        return f"container {self.text('name') or self.at()}"

    @property
    def asks_tpu(self) -> bool:
        return any(self.has(("resources", kind, TPU_RESOURCE)) for kind in ("limits", "requests"))

    @property
    def chips(self) -> int:
        for kind in ("limits", "requests"):
            count = self.number(("resources", kind, TPU_RESOURCE))
            if count is not None:
                return count
        return 0

    @property
    def words(self) -> str:
        """Command and arguments as one text. May hold secrets: never quote it in a message."""
        return " ".join([*self.texts("command"), *self.texts("args")])

    @property
    def is_sidecar(self) -> bool:
        return self.init and self.text("restartPolicy") == "Always"

    @property
    def serves_model(self) -> bool:
        return not self.init and self.asks_tpu and "vllm" in f"{self.text('image')} {self.words}"


def pods(resource: Resource) -> Iterator[Pod]:
    """The pod specs a workload holds."""
    kind = resource.type.rpartition(":")[2]
    templates: list[tuple[Node, str]] = []
    if kind == "Pod":
        templates = [(resource, "")]
    elif kind == "CronJob":
        templates = [(resource.node("spec.jobTemplate.spec.template"), "")]
    elif kind == "LeaderWorkerSet":
        group = resource.node("spec.leaderWorkerTemplate")
        if group.has("leaderTemplate"):
            templates.append((group.node("leaderTemplate"), "leader"))
        templates.append((group.node("workerTemplate"), "worker"))
    elif kind == "JobSet":
        jobs = resource.each("spec.replicatedJobs")
        templates = [(job.node("template.spec.template"), "") for job in jobs]
    else:
        templates = [(resource.node("spec.template"), "")]
    for template, role in templates:
        spec = template.node("spec")
        yield Pod(spec.value, spec.path, resource=resource, template=template, role=role)


def _containers(resource: Resource) -> Iterator[Container]:
    for pod in pods(resource):
        yield from pod.containers


POD = Selector("pods", WORKLOADS.matches, pods)
CONTAINER = Selector("containers", WORKLOADS.matches, _containers)
TPU_POD = POD.where("pods that ask for TPU chips", lambda p: p.asks_tpu)
PLAIN_POD = POD.where("pods without TPU chips", lambda p: not p.asks_tpu)
TPU_WORKLOAD = WORKLOADS.where("workloads on TPUs", lambda w: any(p.asks_tpu for p in pods(w)))
TPU_DEPLOYMENT = DEPLOYMENT.where("Deployments on TPUs", lambda w: any(p.asks_tpu for p in pods(w)))
TPU_LWS = LWS.where("LeaderWorkerSets on TPUs", lambda w: any(p.asks_tpu for p in pods(w)))
DYNAMIC_LWS = TPU_LWS.where(
    "LeaderWorkerSets on dynamic slices",
    lambda w: any(p.annotation(SLICE_TOPOLOGY) for p in pods(w)),
)
MODEL_SERVER = CONTAINER.where("model servers", lambda c: c.serves_model)


def annotation(resource: Node, key: str) -> str | None:
    return resource.text(("metadata", "annotations", key))


def label(resource: Node, key: str) -> str | None:
    return resource.text(("metadata", "labels", key))


def selector_matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())

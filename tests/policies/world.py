"""Graphs that break no rule, in the form a recorder gives: where every rule test starts."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Record = dict[str, Any]

PROJECT = "demo"
REGION = "us-central1"
DIGEST = "@sha256:" + "0123456789abcdef" * 4
REVISION = "0123456789abcdef0123456789abcdef01234567"
LABELS = {"managed-by": "tpuserve", "stack": "prod", "env": "prod"}
APP = {"app.kubernetes.io/name": "qwen", "app.kubernetes.io/part-of": "tpuserve"}
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
SHAPE = "cloud.google.com/gke-tpu-slice-topology"
QUEUE = "kueue.x-k8s.io/queue-name"
WAITING = "autoscaling.gke.io|qwen|waiting"
PRIORITY = "kueue.x-k8s.io/priority-class"
PRINCIPAL = (
    "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/"
    f"{PROJECT}.svc.id.goog/subject/ns/llm/sa/server"
)


def record(type_: str, name: str, inputs: Record, **options: Any) -> Record:
    return {
        "type": type_,
        "name": name,
        "urn": f"urn:pulumi:test::tpuserve::{type_}::{name}",
        "inputs": inputs,
        "parent": None,
        "options": options,
    }


def kube(api: str, kind: str, name: str, body: Record | None = None, **metadata: Any) -> Record:
    token_api = api if "/" in api else f"core/{api}"
    inputs = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        **deepcopy(body or {}),
    }
    return record(f"kubernetes:{token_api}:{kind}", name, inputs)


# ---- Google Cloud


def network() -> list[Record]:
    return [
        record("gcp:compute/network:Network", "net",
               {"name": "net", "autoCreateSubnetworks": False, "mtu": 8896}),
        record("gcp:compute/subnetwork:Subnetwork", "nodes", {
            "name": "nodes", "network": "net", "region": REGION, "ipCidrRange": "10.0.0.0/18",
            "privateIpGoogleAccess": True, "logConfig": {"flowSampling": 0.1},
            "secondaryIpRanges": [
                {"rangeName": "pods", "ipCidrRange": "10.64.0.0/14"},
                {"rangeName": "services", "ipCidrRange": "10.32.0.0/20"},
            ],
        }),
        record("gcp:compute/subnetwork:Subnetwork", "proxies", {
            "name": "proxies", "network": "net", "region": REGION,
            "ipCidrRange": "172.16.0.0/23", "purpose": "REGIONAL_MANAGED_PROXY", "role": "ACTIVE",
        }),
        record("gcp:compute/routerNat:RouterNat", "nat", {
            "name": "nat", "router": "router", "region": REGION,
            "natIpAllocateOption": "AUTO_ONLY",
            "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
            "logConfig": {"enable": True, "filter": "ERRORS_ONLY"},
        }),
        firewall("inside", ["10.0.0.0/18", "10.64.0.0/14"], [{"protocol": "all"}]),
        firewall("control-plane", ["172.16.8.0/28"],
                 [{"protocol": "tcp", "ports": ["443", "10250", "9443", "8082"]}]),
        firewall("proxies", ["172.16.0.0/23", "35.191.0.0/16", "130.211.0.0/22"],
                 [{"protocol": "tcp", "ports": ["8000"]}]),
        record("gcp:compute/firewall:Firewall", "out", {
            "name": "out", "network": "net", "direction": "EGRESS",
            "allows": [{"protocol": "tcp", "ports": ["443"]}],
            "destinationRanges": ["199.36.153.8/30"], "targetTags": ["nodes"],
            "logConfig": {"metadata": "EXCLUDE_ALL_METADATA"},
        }),
    ]  # fmt: skip


def firewall(name: str, sources: list[str], allows: list[Record]) -> Record:
    return record("gcp:compute/firewall:Firewall", name, {
        "name": name, "network": "net", "direction": "INGRESS", "allows": allows,
        "sourceRanges": sources, "targetTags": ["nodes"],
        "logConfig": {"metadata": "EXCLUDE_ALL_METADATA"},
    })  # fmt: skip


def cluster(**more: Any) -> Record:
    inputs = {
        "name": "main", "location": REGION, "network": "net", "subnetwork": "nodes",
        "removeDefaultNodePool": True, "initialNodeCount": 1, "networkingMode": "VPC_NATIVE",
        "minMasterVersion": "1.36.0-gke.3712000",
        "privateClusterConfig": {
            "enablePrivateNodes": True, "masterIpv4CidrBlock": "172.16.8.0/28",
        },
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}},
        "masterAuthorizedNetworksConfig": {"gcpPublicCidrsAccessEnabled": False},
        "workloadIdentityConfig": {"workloadPool": f"{PROJECT}.svc.id.goog"},
        "releaseChannel": {"channel": "RAPID"}, "datapathProvider": "ADVANCED_DATAPATH",
        "ipAllocationPolicy": {
            "clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services",
        },
        "databaseEncryption": {"state": "ENCRYPTED", "keyName": "projects/p/key"},
        "binaryAuthorization": {"evaluationMode": "PROJECT_SINGLETON_POLICY_ENFORCE"},
        "enableIntranodeVisibility": True, "securityPostureConfig": {"mode": "BASIC"},
        "authenticatorGroupsConfig": {"securityGroup": "gke-security-groups@example.com"},
        "rbacBindingConfig": {
            "enableInsecureBindingSystemAuthenticated": False,
            "enableInsecureBindingSystemUnauthenticated": False,
        },
        "anonymousAuthenticationConfig": {"mode": "LIMITED"},
        "secretManagerConfig": {"enabled": True, "rotationConfig": {"enabled": True}},
        "costManagementConfig": {"enabled": True}, "enableL4IlbSubsetting": True,
        "notificationConfig": {"pubsub": {"enabled": True}},
        "addonsConfig": {
            "dnsCacheConfig": {"enabled": True}, "sliceControllerConfig": {"enabled": True},
        },
        "nodePoolDefaults": {
            "nodeConfigDefaults": {"insecureKubeletReadonlyPortEnabled": "FALSE"},
        },
        "maintenancePolicy": {
            "recurringWindow": {
                "startTime": "2026-01-03T02:00:00Z", "endTime": "2026-01-03T08:00:00Z",
                "recurrence": "FREQ=WEEKLY;BYDAY=SA",
            },
        },
        "deletionProtection": True, "resourceLabels": dict(LABELS),
    }  # fmt: skip
    return record("gcp:container/cluster:Cluster", "main", inputs | more, protect=True)


def pool(name: str, machine: str, **more: Any) -> Record:
    """A node pool; more fields replace whole top-level fields, nodeConfig ones are merged."""
    config = {
        "machineType": machine, "serviceAccount": "nodes@demo.iam.gserviceaccount.com",
        "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
        "shieldedInstanceConfig": {"enableSecureBoot": True, "enableIntegrityMonitoring": True},
        "bootDiskKmsKey": "projects/p/key", "gvnic": {"enabled": True},
        "gcfsConfig": {"enabled": True}, "resourceLabels": dict(LABELS),
    } | more.pop("nodeConfig", {})  # fmt: skip
    inputs = {
        "name": name, "cluster": "main", "location": REGION, "maxPodsPerNode": 32,
        "management": {"autoRepair": True, "autoUpgrade": True},
        "upgradeSettings": {"maxSurge": 1, "maxUnavailable": 0},
        "nodeConfig": config,
    }  # fmt: skip
    options = more.pop("options", {})
    return record("gcp:container/nodePool:NodePool", name, inputs | more, **options)


def system_pool() -> Record:
    return pool("system", "n2-standard-8", nodeLocations=["us-central1-a"],
                autoscaling={"minNodeCount": 1, "maxNodeCount": 3})  # fmt: skip


def reserved(path: str) -> Record:
    return {
        "reservationAffinity": {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [path],
        }
    }


def cube(name: str) -> Record:
    return pool(
        name, "tpu7x-standard-4t", nodeCount=16, nodeLocations=["us-central1-ai1a"],
        placementPolicy={"type": "", "policyName": "cubes-4x4x4"},
        upgradeSettings={"maxSurge": 0, "maxUnavailable": 16},
        nodeConfig=reserved("projects/p/reservations/r/reservationBlocks/b"),
        options={"ignoreChanges": ["placementPolicy.type"]},
    )  # fmt: skip


def slicing_policy() -> Record:
    return record("gcp:compute/resourcePolicy:ResourcePolicy", "cubes-4x4x4", {
        "name": "cubes-4x4x4", "region": REGION,
        "workloadPolicy": {
            "type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4x4",
            "acceleratorTopologyMode": "PROVISION_ONLY",
        },
    })  # fmt: skip


def storage() -> list[Record]:
    def bucket(name: str, **options: Any) -> Record:
        return record("gcp:storage/bucket:Bucket", name, {
            "name": name, "location": REGION.upper(), "publicAccessPrevention": "enforced",
            "uniformBucketLevelAccess": True, "logging": {"logBucket": "logs"},
            "encryption": {"defaultKmsKeyName": "projects/p/key"}, "labels": dict(LABELS),
        }, **options)  # fmt: skip

    return [
        bucket("weights", protect=True),
        bucket("compile-cache"),
        record("gcp:storage/bucketIAMMember:BucketIAMMember", "weights-read", {
            "bucket": "weights", "role": "roles/storage.objectViewer", "member": PRINCIPAL,
        }),
        record("gcp:storage/bucketIAMMember:BucketIAMMember", "cache-write", {
            "bucket": "compile-cache", "role": "roles/storage.objectUser", "member": PRINCIPAL,
        }),
    ]  # fmt: skip


def identity() -> list[Record]:
    apis = [
        record("gcp:projects/service:Service", name,
               {"service": f"{name}.googleapis.com", "disableOnDestroy": False})
        for name in ("compute", "container")
    ]  # fmt: skip
    return [
        *apis,
        record("gcp:projects/iAMMember:IAMMember", "logs", {
            "project": PROJECT, "role": "roles/logging.logWriter",
            "member": "serviceAccount:nodes@demo.iam.gserviceaccount.com",
        }),
        record("gcp:serviceaccount/iAMMember:IAMMember", "deployer", {
            "serviceAccountId": "nodes", "role": "roles/iam.serviceAccountViewer",
            "member": "group:ops@example.com",
        }),
        record("gcp:secretmanager/secret:Secret", "token", {
            "secretId": "token", "rotation": {"rotationPeriod": "7776000s"},
            "deletionProtection": True, "labels": dict(LABELS),
        }, protect=True),
        record("gcp:secretmanager/secretIamMember:SecretIamMember", "token-read", {
            "secretId": "token", "role": "roles/secretmanager.secretAccessor", "member": PRINCIPAL,
        }),
        record("gcp:kms/cryptoKey:CryptoKey", "key",
               {"name": "key", "rotationPeriod": "7776000s"}, protect=True),
        record("gcp:billing/budget:Budget", "budget", {
            "thresholdRules": [{"thresholdPercent": 0.9}],
            "allUpdatesRule": {"monitoringNotificationChannels": ["channel"]},
        }),
    ]  # fmt: skip


# ---- Kubernetes


def provider() -> Record:
    return record("pulumi:providers:kubernetes", "main", {"clusterIdentifier": "demo/main"})


def namespace(name: str) -> list[Record]:
    return [
        kube("v1", "Namespace", name, labels={"pod-security.kubernetes.io/enforce": "baseline"}),
        kube("networking.k8s.io/v1", "NetworkPolicy", f"{name}-deny",
             {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}, namespace=name),
        kube("v1", "ServiceAccount", "server",
             {"automountServiceAccountToken": False}, namespace=name),
    ]  # fmt: skip


def container(name: str, image: str, **more: Any) -> Record:
    return {
        "name": name, "image": image + DIGEST,
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True, "runAsUser": 1000, "readOnlyRootFilesystem": True,
        },
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"},
        },
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
    } | more  # fmt: skip


def server(chips: int, args: list[str], **more: Any) -> Record:
    """A vLLM container that takes all chips of its host."""
    return container(
        "vllm", "docker.io/vllm/vllm-tpu:v0.32.0", command=["vllm"],
        args=["serve", "Qwen/Qwen3-32B", f"--revision={REVISION}", "--max-model-len=4096", *args],
        resources={
            "requests": {"cpu": "100", "memory": "400Gi", "google.com/tpu": chips},
            "limits": {"memory": "400Gi", "google.com/tpu": chips},
        },
        env=[{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "t", "key": "HF_TOKEN"}}}],
        startupProbe={"httpGet": {"path": "/v1/models", "port": 8000},
                      "periodSeconds": 15, "failureThreshold": 240},
        readinessProbe={"httpGet": {"path": "/v1/models", "port": 8000}},
        livenessProbe={"httpGet": {"path": "/health", "port": 8000}},
        volumeMounts=[{"name": "weights", "mountPath": "/data", "readOnly": True}],
        **more,
    )  # fmt: skip


def pod_spec(*containers: Record, **more: Any) -> Record:
    return {
        "serviceAccountName": "server", "automountServiceAccountToken": False,
        "enableServiceLinks": False, "terminationGracePeriodSeconds": 120,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": list(containers),
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
            {"name": "weights", "csi": {"driver": "gcsfuse.csi.storage.gke.io", "readOnly": True,
                                        "volumeAttributes": {"bucketName": "weights"}}},
        ],
    } | more  # fmt: skip


def tpu_spec(accelerator: str, topology: str | None, *containers: Record) -> Record:
    selector = {ACCELERATOR: accelerator} | ({TOPOLOGY: topology} if topology else {})
    return pod_spec(
        *containers,
        nodeSelector=selector,
        tolerations=[{"key": "google.com/tpu", "operator": "Exists"}],
    )


def deployment(name: str, spec: Record, replicas: int = 2, **labels: str) -> Record:
    own = APP | {"app": name} | labels
    return kube("apps/v1", "Deployment", name, {
        "spec": {
            "replicas": replicas, "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": own}, "spec": spec},
        },
    }, namespace="llm", labels=own)  # fmt: skip


def group(name: str, shape: str, size: int, role: str = "", *, leader: bool = False) -> Record:
    """A LeaderWorkerSet on a dynamic slice; with a role it is one half of prefill and decode."""
    kv = f'{{"kv_role":"kv_{role}","kv_connector":"TPUConnectorHMA"}}'
    args = [f"--tensor-parallel-size={size * 8}", "--block-size=256"]
    args += [f"--kv-transfer-config={kv}"] if role else []

    def template(serving: bool, labels: Record) -> Record:
        inner = server(4, args) if serving else server(4, ["--headless"])
        return {
            "metadata": {"labels": labels, "annotations": {SHAPE: shape}},
            "spec": tpu_spec("tpu7x", None, inner),
        }

    served, hidden = {**APP, "llm-d.ai/guide": "pd"}, {**APP, "llm-d.ai/guide": "pd-worker"}
    templates = {"workerTemplate": template(not leader, hidden if leader else served)}
    if leader:
        templates["leaderTemplate"] = template(True, served)
    return kube("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, {
        "spec": {
            "replicas": 1, "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {"size": size, **templates},
        },
    }, namespace="llm", labels={**APP, QUEUE: "lq", PRIORITY: "high"})  # fmt: skip


def jobset() -> Record:
    inner = container(
        "probe", "us-docker.pkg.dev/demo/smoke/jax:1.0.0",
        resources={
            "requests": {"cpu": "8", "memory": "16Gi", "google.com/tpu": 4},
            "limits": {"memory": "16Gi", "google.com/tpu": 4},
        },
    )  # fmt: skip
    spec = tpu_spec("tpu7x", None, inner)
    template = {"metadata": {"annotations": {SHAPE: "2x2x2"}}, "spec": spec}
    return kube("jobset.x-k8s.io/v1alpha2", "JobSet", "smoke", {
        "spec": {"replicatedJobs": [{
            "name": "slice", "replicas": 1,
            "template": {"spec": {"parallelism": 2, "completions": 2, "template": template}},
        }]},
    }, namespace="llm", labels={**APP, QUEUE: "lq", PRIORITY: "low"})  # fmt: skip


def queues(chips: int) -> list[Record]:
    kueue = "kueue.x-k8s.io/v1beta2"
    levels = ["cloud.google.com/gce-topology-block"]
    levels += [f"cloud.google.com/gke-tpu-partition-{s}-id" for s in ("4x4x4", "2x2x2")]
    levels += ["kubernetes.io/hostname"]
    resources = [
        {"name": "google.com/tpu", "nominalQuota": chips},
        {"name": "cpu", "nominalQuota": 400},
    ]
    return [
        kube(kueue, "Topology", "slices", {"spec": {"levels": [{"nodeLabel": x} for x in levels]}}),
        kube(kueue, "ResourceFlavor", "tpu7x", {
            "spec": {"nodeLabels": {ACCELERATOR: "tpu7x"}, "topologyName": "slices"},
        }),
        kube(kueue, "ClusterQueue", "cq", {
            "spec": {
                "resourceGroups": [{
                    "coveredResources": ["google.com/tpu", "cpu"],
                    "flavors": [{"name": "tpu7x", "resources": resources}],
                }],
                "admissionChecksStrategy": {
                    "admissionChecks": [{"name": "slice", "onFlavors": ["tpu7x"]}],
                },
            },
        }),
        kube(kueue, "LocalQueue", "lq", {"spec": {"clusterQueue": "cq"}}, namespace="llm"),
        kube(kueue, "WorkloadPriorityClass", "low", {"value": 1000}),
        kube(kueue, "WorkloadPriorityClass", "high", {"value": 3000}),
    ]  # fmt: skip


def entry() -> list[Record]:
    """The gateway and the policies around a pool of model servers."""

    def about_pool(api: str, kind: str, default: Record) -> Record:
        target = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pd"}
        spec = {"default": default, "targetRef": target}
        return kube(api, kind, "pd", {"spec": spec}, namespace="llm")

    return [
        kube("gateway.networking.k8s.io/v1", "Gateway", "inference", {
            "spec": {"gatewayClassName": "gke-l7-rilb",
                     "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]},
        }, namespace="llm"),
        kube("inference.networking.k8s.io/v1", "InferencePool", "pd", {
            "spec": {"selector": {"matchLabels": {"llm-d.ai/guide": "pd"}},
                     "targetPorts": [{"number": 8000}]},
        }, namespace="llm"),
        about_pool("networking.gke.io/v1", "HealthCheckPolicy",
                   {"config": {"httpHealthCheck": {"requestPath": "/v1/models", "port": 8000}}}),
        about_pool("networking.gke.io/v1", "GCPBackendPolicy", {"timeoutSec": 3600}),
    ]  # fmt: skip


def chart(name: str, version: str) -> Record:
    return record("kubernetes:helm.sh/v3:Release", name, {
        "name": name, "chart": f"oci://registry.k8s.io/{name}/charts/{name}", "version": version,
        "namespace": f"{name}-system", "atomic": True,
        "values": {"controllerManager": {"replicas": 1}},
    })  # fmt: skip


def operators() -> list[Record]:
    webhook = {
        "webhooks": [{
            "name": "mjobset.kb.io", "failurePolicy": "Fail",
            "objectSelector": {"matchExpressions": [{"key": QUEUE, "operator": "Exists"}]},
        }],
    }  # fmt: skip
    controller = deployment("slice-controller", pod_spec(
        container("manager", "docker.io/tpuongke/kueue-slice-controller:v0.8.0-196")
    ), replicas=1)  # fmt: skip
    return [
        chart("kueue", "0.18.6"),
        kube("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "slices", webhook),
        controller,
        kube("rbac.authorization.k8s.io/v1", "ClusterRole", "slices", {
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}],
        }),
        kube("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "slices", {
            "roleRef": {"kind": "ClusterRole", "name": "slices"},
            "subjects": [{"kind": "ServiceAccount", "name": "server", "namespace": "llm"}],
        }),
        kube("v1", "ConfigMap", "settings", {"data": {"log": "info"}}, namespace="llm"),
    ]  # fmt: skip


def prod() -> list[Record]:
    """TPU7x dynamic slicing with prefill and decode behind a gateway."""
    return [
        *network(), cluster(), system_pool(), slicing_policy(), cube("cube-0"), cube("cube-1"),
        *storage(), *identity(), provider(), *namespace("llm"), *operators(), *queues(128),
        group("prefill-0", "2x2x1", 1, "producer"), group("decode-0", "2x2x1", 1, "consumer"),
        group("wide", "2x2x2", 2, leader=True),
        jobset(), *entry(),
    ]  # fmt: skip


def dev() -> list[Record]:
    """vLLM on Trillium hosts, autoscaled, beside a multi-host slice and pools of every kind."""
    serving = deployment(
        "qwen", tpu_spec("tpu-v6e-slice", "2x4", server(8, ["--tensor-parallel-size=8"]))
    )
    return [
        *network(),
        cluster(addonsConfig={"dnsCacheConfig": {"enabled": True}}),
        system_pool(),
        pool("trillium", "ct6e-standard-8t", nodeLocations=["us-central1-b"],
             autoscaling={"totalMinNodeCount": 1, "totalMaxNodeCount": 3, "locationPolicy": "ANY"}),
        pool("slice", "ct6e-standard-4t", nodeLocations=["us-central1-b"], nodeCount=4,
             placementPolicy={"type": "COMPACT", "tpuTopology": "4x4"}),
        pool("scaled-slice", "ct6e-standard-4t", nodeLocations=["us-central1-b"],
             placementPolicy={"type": "COMPACT", "tpuTopology": "4x4"}, initialNodeCount=4,
             autoscaling={"minNodeCount": 0, "maxNodeCount": 4, "locationPolicy": "ANY"}),
        pool("fixed-slice", "ct6e-standard-4t", nodeLocations=["us-central1-b"], initialNodeCount=4,
             placementPolicy={"type": "COMPACT", "tpuTopology": "4x4"}),
        *storage(), *identity(), provider(), *namespace("llm"),
        serving,
        kube("v1", "Service", "qwen", {"spec": {"type": "ClusterIP"}}, namespace="llm"),
        kube("policy/v1", "PodDisruptionBudget", "qwen", {
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "qwen"}}},
        }, namespace="llm"),
        kube("autoscaling/v2", "HorizontalPodAutoscaler", "qwen", {
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "qwen"},
                "minReplicas": 1, "maxReplicas": 3,
                "metrics": [{"type": "Pods", "pods": {"metric": {"name": WAITING}}}],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
            },
        }, namespace="llm"),
        kube("autoscaling.gke.io/v1beta1", "AutoscalingMetric", "qwen",
             {"spec": {"metrics": []}}, namespace="llm"),
        kube("networking.k8s.io/v1", "Ingress", "public",
             {"spec": {"tls": [{"secretName": "tls"}]}}, namespace="llm"),
        kube("gateway.networking.k8s.io/v1", "Gateway", "public", {
            "spec": {"gatewayClassName": "gke-l7-global-external-managed",
                     "listeners": [{"name": "https", "protocol": "HTTPS", "port": 443}]},
        }, namespace="llm"),
        record("kubernetes:yaml/v2:ConfigFile", "crds", {
            "file": "https://github.com/kubernetes-sigs/lws/releases/download/v0.8.0/manifests.yaml",
        }),
    ]  # fmt: skip


def odds() -> list[Record]:
    """An Autopilot cluster and things neither stack has."""
    job = container("job", "registry.k8s.io/pause:3.10.1")
    del job["securityContext"]["runAsNonRoot"], job["securityContext"]["runAsUser"]
    user = {"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": True, "runAsUser": 1000}
    small = deployment("small", tpu_spec("tpu-v6e-slice", "1x1", server(1, [])))
    return [
        cluster(enableAutopilot=True, addonsConfig={}, removeDefaultNodePool=None),
        record("gcp:storage/bucketIAMBinding:BucketIAMBinding", "readers", {
            "bucket": "b", "role": "roles/storage.objectViewer", "members": [PRINCIPAL],
        }),
        *namespace("llm"),
        kube("batch/v1", "Job", "job", {
            "spec": {"template": {"spec": pod_spec(job, securityContext=user)}},
        }, namespace="llm"),
        small,
        kube("policy/v1", "PodDisruptionBudget", "small", {
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "small"}}},
        }, namespace="llm"),
        record("command:local:Command", "step", {"create": "gcloud version"}),
    ]  # fmt: skip


GRAPHS = {"dev": dev, "prod": prod, "odds": odds}

"""JobSet, LeaderWorkerSet and Kueue: pinned charts, and proof that their webhooks answer."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from catalog import operator_sizes
from catalog.names import SYSTEM_POOL
from catalog.operator_sizes import Size
from catalog.partitions import POOL_LABEL
from catalog.quantities import canonical
from catalog.releases import JOBSET, KUEUE, LWS, PAUSE, Chart, ReleaseSet, definition
from components import pods
from components.hooks import until_answered
from components.manifest import Manifest

TIMEOUT = 600
"""Seconds for a chart's pods to be ready; an image may have to be pulled to a new node."""

FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)
"""Without `pod`, `deployment` and `statefulset` a Kueue that is down stops nothing else."""

GATE = "webhook-gate"
KEPT_HOURS = 24
"""How long Kueue keeps the Workloads of finished jobs."""


@dataclass(frozen=True, kw_only=True)
class OperatorsArgs:
    releases: ReleaseSet
    namespaces: Sequence[str]
    """Kueue's webhooks see jobs of these namespaces only."""
    nodes: int
    """The most nodes the cluster has: Kueue keeps all of them and their pods in memory."""
    replicas: Mapping[str, int]
    pods_ready_minutes: int
    after: Sequence[pulumi.Resource]


class Operators(pulumi.ComponentResource):
    """The three operators. Objects for them wait for `ready`, queues for `kueue` alone."""

    installed: Sequence[pulumi.Resource]
    """The charts: every kind of the three exists once they do."""
    kueue: pulumi.Resource
    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: OperatorsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:operators:Operators", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.after)))

        owned = [
            *_definitions(name, JOBSET, args.releases.jobset, first),
            *_definitions(name, LWS, args.releases.lws, first),
        ]
        charts = {
            "jobset": (JOBSET, args.releases.jobset, jobset_values(args.replicas["jobset"])),
            "lws": (LWS, args.releases.lws, lws_values(args.replicas["lws"])),
            "kueue": (KUEUE, args.releases.kueue, kueue_values(args)),
        }
        later = first.merge(pulumi.ResourceOptions(depends_on=owned))
        releases = {
            key: k8s.helm.v3.Release(
                f"{name}-{key}",
                # Its objects have cluster-wide names: a second release would collide with them.
                name=key,
                namespace=_home(name, chart, first),
                chart=chart.reference,
                version=version,
                values=values,
                # Helm installs what a chart keeps in crds/ and never upgrades it: the program does.
                skip_crds=bool(chart.crds),
                timeout=TIMEOUT,
                cleanup_on_fail=True,
                max_history=3,
                opts=later,
            )
            for key, (chart, version, values) in charts.items()
        }

        def gate(key: str, kind: str, manifest: Mapping[str, Any]) -> Manifest:
            chart, version, values = charts[key]
            namespace = chart.namespace
            return Manifest(
                f"{name}-{key}-gate",
                {
                    **manifest,
                    "metadata": {
                        **manifest["metadata"],
                        # Another chart or other values: the webhook is asked again.
                        "annotations": {"tpuserve/release": digest(version, values)},
                    },
                },
                child.merge(
                    pulumi.ResourceOptions(
                        depends_on=[releases[key]],
                        hooks=until_answered(
                            f"{name}-{key}-answers",
                            f"the webhook for {kind} ({namespace})",
                            f"kubectl -n {namespace} get pods,endpointslices",
                        ),
                    )
                ),
            )

        self.kueue = gate("kueue", "queues", FLAVOR_PROBE)
        self.ready = [
            self.kueue,
            gate("jobset", "JobSets", JOBSET_PROBE),
            gate("lws", "LeaderWorkerSets", LWS_PROBE),
        ]
        self.installed = list(releases.values())
        self.register_outputs({})


FLAVOR_PROBE: Mapping[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": GATE},
}
"""What Kueue's own tests send (kubernetes-sigs/kueue PR 12037); no queue uses it."""

JOBSET_PROBE: Mapping[str, Any] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": GATE, "namespace": JOBSET.namespace},
    # Suspended and without jobs: no pod, no Service.
    "spec": {"suspend": True, "network": {"enableDNSHostnames": False}},
}


def _idle_pod() -> dict[str, Any]:
    return {
        "serviceAccountName": GATE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [
            {
                "name": "never-runs",
                "image": PAUSE,
                "resources": {
                    "requests": {"cpu": "1m", "memory": "1Mi"},
                    "limits": {"memory": "1Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                    "runAsNonRoot": True,
                    "runAsUser": pods.NOBODY,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }
        ],
    }


LWS_PROBE: Mapping[str, Any] = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": GATE, "namespace": LWS.namespace},
    "spec": {
        "replicas": 0,
        "leaderWorkerTemplate": {"size": 1, "workerTemplate": {"spec": _idle_pod()}},
    },
}


def digest(version: str, values: Mapping[str, Any]) -> str:
    """Another one for another chart version or other values."""
    text = json.dumps([version, values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def kueue_values(args: OperatorsArgs) -> dict[str, Any]:
    size, replicas = operator_sizes.kueue(args.nodes), args.replicas["kueue"]
    return {
        "controllerManager": {
            "replicas": replicas,
            "nodeSelector": {POOL_LABEL: SYSTEM_POOL},
            "podDisruptionBudget": {"enabled": replicas > 1, "minAvailable": 1},
            "topologySpreadConstraints": _spread("kueue") if replicas > 1 else [],
            "manager": {
                "resources": {
                    "requests": _requests(size),
                    "limits": {
                        "cpu": canonical(str(2 * size.cpus)),
                        "memory": f"{size.memory_mib}Mi",
                    },
                }
            },
        },
        # Text, and replaced as a whole; JSON is YAML.
        "managerConfig": {
            "controllerManagerConfigYaml": json.dumps(
                manager_config(args.namespaces, args.pods_ready_minutes), indent=2
            )
        },
    }


def _requests(size: Size) -> dict[str, str]:
    return {"cpu": canonical(str(size.cpus)), "memory": f"{size.memory_mib}Mi"}


def manager_config(namespaces: Sequence[str], pods_ready_minutes: int) -> dict[str, Any]:
    """Kueue's whole configuration: what is left out here is off, not at the chart's default."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                "Workload.kueue.x-k8s.io": 5,
                "LocalQueue.kueue.x-k8s.io": 1,
                "ClusterQueue.kueue.x-k8s.io": 1,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        "clientConnection": {"qps": 50, "burst": 100},
        "manageJobsWithoutQueueName": False,
        # Also the selector of the chart's webhooks: elsewhere jobs start without Kueue.
        "managedJobsNamespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "In",
                    "values": sorted(namespaces),
                }
            ]
        },
        # No recoveryTimeout: an evicted LeaderWorkerSet never frees its Slice.
        "waitForPodsReady": {
            "timeout": f"{pods_ready_minutes}m",
            "blockAdmission": False,
            "requeuingStrategy": {
                "timestamp": "Eviction",
                "backoffLimitCount": 5,
                "backoffBaseSeconds": 60,
                "backoffMaxSeconds": 3600,
            },
        },
        "integrations": {"frameworks": list(FRAMEWORKS)},
        "objectRetentionPolicies": {"workloads": {"afterFinished": f"{KEPT_HOURS}h"}},
    }


def jobset_values(replicas: int) -> dict[str, Any]:
    return {
        "controller": {
            "replicas": replicas,
            "nodeSelector": {POOL_LABEL: SYSTEM_POOL},
            "podDisruptionBudget": {"enabled": replicas > 1, "minAvailable": 1},
            "resources": {
                "requests": _requests(operator_sizes.JOBSET),
                "limits": {"cpu": "2", "memory": "4Gi"},
            },
        }
    }


def lws_values(replicas: int) -> dict[str, Any]:
    return {
        "replicaCount": replicas,
        "nodeSelector": {POOL_LABEL: SYSTEM_POOL},
        "resources": {
            "requests": _requests(operator_sizes.LWS),
            "limits": {"memory": "1Gi"},
        },
        "podSecurityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _spread(app: str) -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
        }
    ]


def _home(name: str, chart: Chart, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    physical = chart.namespace
    home = pods.namespace(f"{name}-{physical}", physical, level="restricted", opts=opts)
    return home.metadata.name


def _definitions(
    name: str, chart: Chart, version: str, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    return [
        k8s.apiextensions.v1.CustomResourceDefinition(
            f"{name}-{each}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=each),
            spec=_provider_words(definition(each, version)),
            opts=opts,
        )
        for each in chart.crds
    ]


def _provider_words(schema: Any) -> Any:
    """Schema keys as the provider spells them: x_kubernetes_list_type."""
    if isinstance(schema, list):
        return [_provider_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key.replace("-", "_") if key.startswith("x-kubernetes-") else key: _provider_words(value)
        for key, value in schema.items()
    }

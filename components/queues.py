"""Kueue's queues for slices: topology, flavours, check, quota, priorities."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from catalog.accelerators import Slice
from catalog.names import SYSTEM_POOL
from catalog.partitions import (
    ACCELERATOR_LABEL,
    POOL_LABEL,
    SLICE_CHECK,
    TAINT_VALUE,
    TPU,
    levels,
)
from catalog.quantities import canonical
from components import pods
from components.hooks import explained
from components.manifest import Manifest, waiting_for

API = "kueue.x-k8s.io/v1beta2"

SLICES = "slices"
"""Name of the admission check; those of topology and flavour begin with it."""
CPU = "cpu"
"""Flavour of jobs without TPUs."""

ACTIVE_SECONDS = 300
"""A queue took 30 s to be active after Kueue was installed anew."""
DRAIN = "20m"
"""Deleting a queue waits for its workloads, and they for their Slices."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A ClusterQueue: who uses it, and the chips that are theirs."""

    namespaces: Sequence[str]
    chips: int


@dataclass(frozen=True, kw_only=True)
class QueuesArgs:
    queue: str
    """Name of the LocalQueue in every namespace."""
    shares: Mapping[str, Share]
    cohort: str | None
    """Under this name shares lend each other what is idle."""
    shapes: Sequence[str]
    cube: Slice
    cpu: str
    memory: str
    """What jobs without TPUs may use, all together."""
    priorities: Mapping[str, int]
    stop: str
    kueue: Sequence[pulumi.Resource]
    """Its webhook answers."""
    slice_controller: pulumi.Resource
    after: Sequence[pulumi.Resource]


class Queues(pulumi.ComponentResource):
    """Everything between a job's label and the chips. Workloads wait for `ready`."""

    namespaces: Mapping[str, pulumi.Output[str]]
    local_queues: Mapping[str, str]
    """Name of the queue by namespace; it is there when `ready` is."""
    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        if problem := double_booking(args):
            raise ValueError(problem)
        super().__init__("tpuserve:queues:Queues", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.kueue)))

        classes = [
            _object(
                f"{name}-{key}-priority",
                "WorkloadPriorityClass",
                key,
                {"value": value, "description": f"{key} of {', '.join(args.priorities)}"},
                first,
            )
            for key, value in args.priorities.items()
        ]
        generation = by_levels(args.shapes)
        topology = _object(
            f"{name}-topology",
            "Topology",
            generation,
            {"spec": {"levels": [{"nodeLabel": each} for each in levels(args.shapes)]}},
            first,
        )
        flavors = {
            SLICES: _object(
                f"{name}-slices-flavor",
                "ResourceFlavor",
                generation,
                {"spec": slice_flavor(topology.name)},
                first,
            ),
            CPU: _object(
                f"{name}-cpu-flavor",
                "ResourceFlavor",
                CPU,
                {"spec": {"nodeLabels": {POOL_LABEL: SYSTEM_POOL}}},
                first,
            ),
        }
        check = _object(
            f"{name}-check",
            "AdmissionCheck",
            SLICES,
            {"spec": {"controllerName": SLICE_CHECK}},
            first.merge(_fixed("spec.controllerName")).merge(
                pulumi.ResourceOptions(
                    depends_on=[args.slice_controller],
                    hooks=explained(
                        f"{name}-check-active",
                        f"admission check {SLICES}",
                        f"kubectl describe admissioncheck {SLICES}; kubectl -n "
                        "slice-controller-system logs deployment/slice-controller-controller-"
                        "manager",
                        f"is not Active after {ACTIVE_SECONDS} s: the slice controller does not "
                        "answer for it",
                    ),
                )
            ),
            waits=True,
        )
        if args.cohort is not None:
            classes.append(
                _object(f"{name}-cohort", "Cohort", args.cohort, {"spec": cohort(args)}, first)
            )
        names = {key: each.name for key, each in flavors.items()}
        queues = {
            key: _object(
                f"{name}-{key}-queue",
                "ClusterQueue",
                key,
                {"spec": cluster_queue(args, share, check.name, names)},
                first.merge(
                    pulumi.ResourceOptions(
                        depends_on=classes,
                        custom_timeouts=pulumi.CustomTimeouts(delete=DRAIN),
                        hooks=explained(
                            f"{name}-{key}-active",
                            f"ClusterQueue {key}",
                            f"kubectl describe clusterqueue {key}; kubectl get workloads -A",
                            f"is not Active after {ACTIVE_SECONDS} s; its condition names what is "
                            "missing: FlavorNotFound, TopologyNotFound or AdmissionCheckInactive",
                        ),
                    )
                ),
                # A queue on hold is never active.
                waits=args.stop == "None",
            )
            for key, share in args.shares.items()
        }

        self.namespaces, self.local_queues, ready = {}, {}, []
        for key, share in args.shares.items():
            for each in share.namespaces:
                home = _namespace(
                    name, each, child, [*args.after, *args.kueue, args.slice_controller]
                )
                local = _object(
                    f"{name}-{each}-local-queue",
                    "LocalQueue",
                    args.queue,
                    {"spec": {"clusterQueue": queues[key].name}},
                    first.merge(_fixed("spec.clusterQueue")),
                    namespace=home,
                    waits=args.stop == "None",
                )
                self.namespaces[each] = home
                self.local_queues[each] = args.queue
                ready.append(local)
        self.ready = ready
        self.register_outputs({"queues": list(args.shares)})


def double_booking(args: QueuesArgs) -> str | None:
    """Why these shares may promise the same hosts twice, or None."""
    if len(args.shares) > 1 and args.cohort is None:
        return (
            f"queues {', '.join(args.shares)} use one flavour without a cohort: both may be given "
            "the same hosts, and neither gets what the other leaves idle (kubernetes-sigs/kueue "
            "issue 14570)"
        )
    return None


def by_levels(shapes: Sequence[str]) -> str:
    """A name that carries the levels: other levels are another topology and another flavour.

    Kueue changes neither, and deletes neither while a queue uses it. So the new ones come first,
    the queue moves over, and what runs goes on. The new flavour does not see the hosts of what
    runs: docs/adr/0021.
    """
    text = "\n".join(levels(shapes))
    return f"{SLICES}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def slice_flavor(topology: pulumi.Input[str]) -> dict[str, Any]:
    return {
        "nodeLabels": {ACCELERATOR_LABEL: "tpu7x"},
        # Keeps jobs that do not tolerate it away; pods that want slices tolerate it themselves.
        "nodeTaints": [{"key": TPU, "value": TAINT_VALUE, "effect": "NoSchedule"}],
        "topologyName": topology,
    }


def cluster_queue(
    args: QueuesArgs,
    share: Share,
    check: pulumi.Input[str],
    flavors: Mapping[str, pulumi.Input[str]],
) -> dict[str, Any]:
    spec = {
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "In",
                    "values": sorted(share.namespaces),
                }
            ]
        },
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": args.stop,
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            # Never `Any`: a server that is pushed out keeps its chips, and nobody gets them.
            "reclaimWithinCohort": "LowerPriority" if args.cohort else "Never",
        },
        "resourceGroups": [
            {
                "coveredResources": [TPU, "cpu", "memory"],
                "flavors": [
                    {"name": flavors[SLICES], "resources": _quota(args.cube, share.chips)},
                    {
                        "name": flavors[CPU],
                        "resources": _quotas(
                            0,
                            *(("0", "0") if args.cohort else (args.cpu, args.memory)),
                        ),
                    },
                ],
            }
        ],
        # For jobs without TPUs nobody would ever answer the check.
        "admissionChecksStrategy": {
            "admissionChecks": [{"name": check, "onFlavors": [flavors[SLICES]]}]
        },
    }
    return {**spec, "cohortName": args.cohort} if args.cohort else spec


def cohort(args: QueuesArgs) -> dict[str, Any]:
    """What no share owns: the room for jobs without TPUs."""
    return {
        "resourceGroups": [
            {
                "coveredResources": [TPU, "cpu", "memory"],
                "flavors": [
                    {"name": by_levels(args.shapes), "resources": _quotas(0, "0", "0")},
                    {"name": CPU, "resources": _quotas(0, args.cpu, args.memory)},
                ],
            }
        ]
    }


def _quota(cube: Slice, chips: int) -> list[dict[str, Any]]:
    """The chips, and the whole of the hosts they sit in."""
    hosts = chips // cube.machine.chips
    return _quotas(
        chips,
        str(hosts * (cube.machine.vcpus or 0)),
        f"{hosts * (cube.machine.memory_gib or 0)}Gi",
    )


def _quotas(chips: int, cpu: str, memory: str) -> list[dict[str, Any]]:
    return [
        {"name": TPU, "nominalQuota": str(chips)},
        {"name": "cpu", "nominalQuota": canonical(cpu)},
        {"name": "memory", "nominalQuota": canonical(memory)},
    ]


def _fixed(*paths: str) -> pulumi.ResourceOptions:
    """Kueue refuses to change these; the provider would try (seen with Kueue 0.17.0)."""
    return pulumi.ResourceOptions(replace_on_changes=list(paths), delete_before_replace=True)


def _object(
    name: str,
    kind: str,
    physical: str,
    body: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
    *,
    namespace: pulumi.Input[str] | None = None,
    waits: bool = False,
) -> Manifest:
    metadata: dict[str, Any] = {"name": physical}
    if namespace is not None:
        metadata["namespace"] = namespace
    if waits:
        metadata["annotations"] = waiting_for("condition=Active", ACTIVE_SECONDS)
    return Manifest(name, {"apiVersion": API, "kind": kind, "metadata": metadata, **body}, opts)


def _namespace(
    name: str, physical: str, child: pulumi.ResourceOptions, after: Sequence[pulumi.Resource]
) -> pulumi.Output[str]:
    """A namespace for jobs: closed from outside, open among its own pods.

    It goes before what it waits for: somebody's jobs in it have finalizers that only a running
    Kueue and slice controller remove.
    """
    networking = k8s.networking.v1
    home = pods.namespace(
        f"{name}-{physical}-namespace",
        physical,
        # Images with JAX run as root, which the restricted level refuses.
        level="baseline",
        opts=child.merge(pulumi.ResourceOptions(depends_on=list(after))),
    )
    networking.NetworkPolicy(
        f"{name}-{physical}-same-namespace",
        metadata=k8s.meta.v1.ObjectMetaArgs(name="same-namespace", namespace=home.metadata.name),
        spec=networking.NetworkPolicySpecArgs(
            pod_selector=k8s.meta.v1.LabelSelectorArgs(),
            policy_types=["Ingress"],
            # Pods of one slice find each other through their JobSet's Service.
            ingress=[
                networking.NetworkPolicyIngressRuleArgs(
                    from_=[
                        networking.NetworkPolicyPeerArgs(
                            pod_selector=k8s.meta.v1.LabelSelectorArgs()
                        )
                    ]
                )
            ],
        ),
        opts=child,
    )
    return home.metadata.name

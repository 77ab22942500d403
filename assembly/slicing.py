"""Slices of TPU7x for whoever queues: operators, the slice controller, queues, jobs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from assembly.foundation import Foundation
from catalog import operator_sizes
from catalog.workloads import Queue
from components.operators import Operators, OperatorsArgs
from components.queues import Queues, QueuesArgs, Share
from components.slice_controller import SliceController, SliceControllerArgs
from components.sliced_job import SlicedJob, SlicedJobArgs
from components.smoke import SliceSmoke, SliceSmokeArgs, SmokeJob
from config.queueing import QUEUE, Queueing, Smoke
from config.sizes import most_nodes
from config.stack import Stack
from config.tpu_pools import cube


@dataclass(frozen=True, kw_only=True)
class Slicing:
    queues: Queues
    rules: Queue
    """What every workload of the queue is checked against."""
    ready: Sequence[pulumi.Resource]
    """Workloads alone wait for chips; what else goes to a webhook waits until that answers."""


def dynamic_slicing(stack: Stack, queueing: Queueing, base: Foundation) -> Slicing:
    operators = Operators(
        "operators",
        OperatorsArgs(
            releases=queueing.releases.set,
            namespaces=queueing.every_namespace,
            nodes=most_nodes(stack.cluster, stack.tpu_pools),
            replicas=operator_sizes.replicas(stack.cluster.system_pool.min),
            pods_ready_minutes=queueing.pods_ready_minutes,
            after=[base.cluster.ready],
        ),
        base.on_cluster,
    )
    controller = SliceController(
        "slice-controller",
        SliceControllerArgs(
            image=queueing.slice_controller.image,
            cpu=queueing.slice_controller.cpu,
            memory=queueing.slice_controller.memory,
            activation_minutes=queueing.slice_controller.activation_minutes,
            retry_seconds=queueing.slice_controller.retry_seconds,
            partition_health=queueing.slice_controller.partition_health,
            after=operators.installed,
        ),
        base.on_cluster,
    )
    queues = Queues(
        "queues",
        QueuesArgs(
            queue=QUEUE,
            shares={
                key: Share(namespaces=namespaces, chips=share)
                for key, (namespaces, share) in queueing.shares(stack.tpu_pools).items()
            },
            cohort=queueing.cohort,
            shapes=queueing.shapes,
            cube=cube(),
            cpu=queueing.cpu_jobs.cpu,
            memory=queueing.cpu_jobs.memory,
            priorities=queueing.priorities,
            stop=queueing.stop,
            kueue=[operators.kueue],
            slice_controller=controller.ready,
            after=[base.cluster.ready],
        ),
        base.on_cluster,
    )
    return Slicing(
        queues=queues,
        rules=queueing.queue(stack.tpu_pools),
        ready=[*operators.ready, *queues.ready, *base.pools.values()],
    )


def jobs(queueing: Queueing, base: Foundation, slicing: Slicing) -> None:
    for key, said in queueing.jobs.items():
        SlicedJob(
            key,
            SlicedJobArgs(
                queue=slicing.rules,
                home=slicing.queues.namespaces[said.namespace],
                job=queueing.job(key),
                after=slicing.ready,
            ),
            base.on_cluster,
        )


def smoke_test(queueing: Queueing, smoke: Smoke, base: Foundation, slicing: Slicing) -> SliceSmoke:
    quiet = smoke.namespace or queueing.every_namespace[0]
    return SliceSmoke(
        "smoke",
        SliceSmokeArgs(
            queue=slicing.rules,
            home=slicing.queues.namespaces[quiet],
            namespace=quiet,
            image=smoke.image,
            sub=SmokeJob(**dict(smoke.sub)),
            super=SmokeJob(**dict(smoke.super)),
            compute_seconds=smoke.seconds,
            admitted_seconds=60 * (queueing.slice_controller.activation_minutes + 4),
            after=slicing.ready,
        ),
        base.on_cluster,
    )

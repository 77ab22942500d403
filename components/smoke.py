"""Proof that slicing works: small slices side by side, then a large one that pushes them out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from catalog.jobs import SUB, SUPER, Job
from catalog.workloads import Queue
from components.sliced_job import SlicedJob, SlicedJobArgs

SCRIPT = """\
import json, os, sys, time
import jax
import jax.numpy as jnp
if int(os.environ["EXPECTED_PROCESSES"]) > 1:
    jax.distributed.initialize()
# A chip's place in the links that were really made; only TPU devices have one.
places = [getattr(each, "coords", None) for each in jax.devices()]
sides = [max(axis) - min(axis) + 1 for axis in zip(*places)] if all(places) else []
found = {
    "check": "tpuserve-slice",
    "topology": "x".join(map(str, sides)) or "unknown: devices without coordinates",
    "devices": jax.device_count(),
    "local_devices": jax.local_device_count(),
    "processes": jax.process_count(),
    "process": jax.process_index(),
}
wanted = {key: int(os.environ["EXPECTED_" + key.upper()])
          for key in ("devices", "local_devices", "processes")}
linked = sorted(map(int, os.environ["EXPECTED_TOPOLOGY"].split("x")))
found["ok"] = (all(found[key] == value for key, value in wanted.items())
               and sorted(sides or linked) == linked)
print(json.dumps(found), flush=True)
end = time.monotonic() + float(os.environ["COMPUTE_SECONDS"])
square = jax.jit(lambda x: x @ x / 1024)
x = jnp.ones((1024, 1024), jnp.bfloat16)
while found["ok"] and time.monotonic() < end:
    x = square(x).block_until_ready()
sys.exit(0 if found["ok"] else 1)
"""
"""Prints one line of JSON and ends; the codelab's job sleeps until somebody deletes it."""


@dataclass(frozen=True, kw_only=True)
class SmokeJob:
    shape: str
    count: int
    priority: str


@dataclass(frozen=True, kw_only=True)
class SliceSmokeArgs:
    queue: Queue
    home: pulumi.Input[str]
    namespace: str
    image: str
    sub: SmokeJob
    super: SmokeJob
    compute_seconds: int
    admitted_seconds: int
    """For a job to be given its chips: its Slices form one attempt after the other."""
    after: Sequence[pulumi.Resource]


class SliceSmoke(pulumi.ComponentResource):
    """Two jobs that count devices; the second has the higher priority and needs all chips."""

    expected: dict[str, Any]
    """By job: pods, and what each slice of it must print."""

    def __init__(
        self, name: str, args: SliceSmokeArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:smoke:SliceSmoke", name, None, opts)
        jobs = {
            SUB: smoke_job(SUB, args.sub, args),
            # It comes second and is done at once.
            SUPER: smoke_job(SUPER, args.super, replace(args, compute_seconds=1)),
        }
        after: list[pulumi.Resource] = list(args.after)
        for key, job in jobs.items():
            made = SlicedJob(
                f"{name}-{key}",
                SlicedJobArgs(
                    queue=args.queue,
                    home=args.home,
                    job=job,
                    admitted_seconds=args.admitted_seconds,
                    after=after,
                ),
                pulumi.ResourceOptions(parent=self),
            )
            # The first must hold its slices before the second asks for them.
            after = [*after, made.jobset]
        self.expected = {key: expected(job) for key, job in jobs.items()}
        self.register_outputs({})


def smoke_job(name: str, said: SmokeJob, args: SliceSmokeArgs) -> Job:
    job = Job(
        name=name,
        namespace=args.namespace,
        queue=args.queue.name,
        image=args.image,
        command=("python3", "-c", SCRIPT),
        shape=said.shape,
        count=said.count,
        priority=said.priority,
        cpu="8",
        memory="32Gi",
        restarts=1,
    )
    line = expected(job)["line"]
    return replace(
        job,
        environment={
            "EXPECTED_TOPOLOGY": job.shape,
            "EXPECTED_DEVICES": str(line["devices"]),
            "EXPECTED_LOCAL_DEVICES": str(line["local_devices"]),
            "EXPECTED_PROCESSES": str(line["processes"]),
            "COMPUTE_SECONDS": str(args.compute_seconds),
        },
    )


def expected(job: Job) -> dict[str, Any]:
    """Pods of the job, and the line each of them prints; a TPU7x chip is two devices to JAX."""
    of = job.slice
    return {
        "slices": job.count,
        "pods": job.count * of.hosts,
        "line": {
            "topology": of.shape,
            "devices": of.devices,
            "local_devices": of.devices // of.hosts,
            "processes": of.hosts,
        },
    }

"""A job on TPU slices: say image, command and shape, and the right JobSet follows."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from catalog.jobs import Job, jobset, mistakes
from catalog.workloads import PRIORITY_LABEL, QUEUE_LABEL, Flaw, Queue
from components import pods
from components.hooks import explained
from components.manifest import Manifest, waiting_for

ADMITTED = "jsonpath={.spec.suspend}=false"
"""Kueue starts a JobSet when its quota and all its Slices are there."""

DRAIN = "30m"
"""Its end waits for its pods, and for its Slices after them."""


FIXED = tuple(
    f"spec.{each}"
    for each in (
        "replicatedJobs",
        "failurePolicy",
        "network",
        "startupPolicy",
        "successPolicy",
        "volumeClaimPolicies",
    )
)
"""What nobody may change on a JobSet: its webhook and its definition refuse it."""


class FlawedJobError(ValueError):
    """A job that would never run, with every reason."""

    def __init__(self, name: str, found: Sequence[Flaw]) -> None:
        self.flaws = list(found)
        lines = "\n".join(f"  {each}" for each in found)
        super().__init__(f"job {name} would never run:\n{lines}")


@dataclass(frozen=True, kw_only=True)
class SlicedJobArgs:
    queue: Queue
    home: pulumi.Input[str]
    """The job's namespace, once it exists."""
    job: Job
    admitted_seconds: int | None = None
    """How long the update waits for chips and slices; without it the job is left in the queue."""
    after: Sequence[pulumi.Resource]


class SlicedJob(pulumi.ComponentResource):
    """A JobSet with a pod on each host of its slices. Every rule is checked before it is sent."""

    job_name: pulumi.Output[str]
    """Also the name of its service account, for grants by Workload Identity."""
    jobset: pulumi.Resource

    def __init__(
        self, name: str, args: SlicedJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        found = [each for each in mistakes(args.job, args.queue) if each.severity == "error"]
        if found:
            raise FlawedJobError(args.job.name, found)
        manifest = jobset(args.job)
        super().__init__("tpuserve:sliced_job:SlicedJob", name, None, opts)

        metadata, job = manifest["metadata"], args.job
        if args.admitted_seconds is not None:
            metadata["annotations"] = waiting_for(ADMITTED, args.admitted_seconds)
        account = pods.account(
            f"{name}-account", job.name, args.home, pulumi.ResourceOptions(parent=self)
        )
        sent = Manifest(
            f"{name}-jobset",
            manifest,
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[account, *args.after],
                replace_on_changes=[
                    *FIXED,
                    *(f'metadata.labels["{each}"]' for each in (QUEUE_LABEL, PRIORITY_LABEL)),
                ],
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(delete=DRAIN),
                hooks=explained(
                    f"{name}-admitted",
                    f"JobSet {job.namespace}/{job.name}",
                    f"kubectl -n {job.namespace} get workloads,jobsets,pods; kubectl get slices",
                    "was not admitted"
                    + (f" within {args.admitted_seconds} s" if args.admitted_seconds else ""),
                ),
            ),
        )
        self.jobset = sent
        self.job_name = sent.name
        self.register_outputs({"job_name": self.job_name})

"""A user's job: everything follows from the shape, and what would never run is not sent."""

import re
from dataclasses import replace
from typing import Any

import pulumi
import pytest
import yaml

from catalog.jobs import Job
from catalog.workloads import Queue, flaws
from components.sliced_job import FlawedJobError, SlicedJob, SlicedJobArgs
from tests.support.files import ROOT, stack_config
from tests.support.lab import lab_config
from tests.support.recorder import Registered, record
from tests.support.variants import changed

TRAIN: dict[str, Any] = {
    "namespace": "lab",
    "image": "example/train:1.0.0",
    "command": ["python3", "train.py"],
    "shape": "4x4x4",
    "count": 2,
    "priority": "low",
}

QUEUE = Queue(
    name="tpu",
    namespaces=["lab"],
    shapes=["2x2x2", "4x4x4"],
    blocks=[2],
    priorities={"low": 1, "high": 3, "urgent": 9},
    serving_priority="high",
)


def jobset(**fields: Any) -> Registered:
    config = changed(
        lab_config(),
        {"tpuserve:queueing.jobs.train": {**TRAIN, **fields}, "tpuserve:queueing.smoke": None},
    )
    return record(config).one("JobSet", "train-jobset")


def _job(made: Registered) -> dict[str, Any]:
    (job,) = made.inputs["spec"]["replicatedJobs"]
    found: dict[str, Any] = job
    return found


@pytest.mark.parametrize(
    ("shape", "count", "pods", "level", "size"),
    [
        ("2x2x1", 1, 1, "2x2x1", "1"),
        ("2x2x4", 3, 4, "2x2x4", "4"),
        ("4x4x4", 2, 16, "4x4x4", "16"),
        # Each of the two cubes of a super-slice holds 16 of its pods.
        ("4x4x8", 1, 32, "4x4x4", "16"),
    ],
)
def test_pods_and_partitions_follow_from_the_shape(
    shape: str, count: int, pods: int, level: str, size: str
) -> None:
    job = _job(jobset(shape=shape, count=count))
    spec = job["template"]["spec"]
    assert (job["replicas"], spec["parallelism"], spec["completions"]) == (count, pods, pods)
    assert spec["template"]["metadata"]["annotations"] == {
        "cloud.google.com/gke-tpu-slice-topology": shape,
        "kueue.x-k8s.io/podset-required-topology": "cloud.google.com/gce-topology-block",
        "kueue.x-k8s.io/podset-slice-required-topology": (
            f"cloud.google.com/gke-tpu-partition-{level}-id"
        ),
        "kueue.x-k8s.io/podset-slice-size": size,
    }


def test_each_job_has_an_account_of_its_own() -> None:
    config = changed(
        lab_config(),
        {"tpuserve:queueing.jobs.train": TRAIN, "tpuserve:queueing.smoke": None},
    )
    graph = record(config)
    account = graph.one("ServiceAccount", "train-account").inputs
    assert account["metadata"] == {"name": "train", "namespace": "lab"}
    assert account["automountServiceAccountToken"] is False
    pod = _job(graph.one("JobSet", "train-jobset"))["template"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "train"


def test_pods_ask_for_healthy_hosts_and_never_for_a_formed_slice() -> None:
    pod = _job(jobset())["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu7x",
        "cloud.google.com/gke-tpu-partition-4x4x4-state": "HEALTHY",
    }
    assert pod["tolerations"] == [
        {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    resources = pod["containers"][0]["resources"]
    tpus = {kind: amounts["google.com/tpu"] for kind, amounts in resources.items()}
    assert tpus == {"limits": "4", "requests": "4"}


def test_one_failed_pod_starts_all_of_them_again() -> None:
    made = jobset(restarts=5)
    assert made.inputs["spec"]["failurePolicy"] == {"maxRestarts": 5, "restartStrategy": "Recreate"}
    spec = _job(made)["template"]["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def _pod(made: Registered) -> dict[str, Any]:
    found: dict[str, Any] = _job(made)["template"]["spec"]["template"]["spec"]
    return found


def test_processes_of_a_pod_share_half_its_memory() -> None:
    pod = _pod(jobset(memory="96Gi"))
    (volume,) = pod["volumes"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "48Gi"}
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": "/dev/shm"}  # noqa: S108


def test_a_job_may_say_what_its_pods_have_beside() -> None:
    data = {"name": "data", "emptyDir": {}}
    pod = _pod(
        jobset(
            environment={"LOG": "debug"},
            extra={"volumes": [data], "terminationGracePeriodSeconds": 600},
            containerExtra={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        )
    )
    (container,) = pod["containers"]
    assert container["env"] == [{"name": "LOG", "value": "debug"}]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/dev/shm", "/data"]  # noqa: S108
    assert data in pod["volumes"]
    assert len(pod["volumes"]) == 2
    assert pod["terminationGracePeriodSeconds"] == 600


def test_a_changed_job_is_another_jobset_and_the_old_one_goes_first() -> None:
    made = jobset()
    assert made.delete_before_replace
    assert "spec.replicatedJobs" in made.replace_on_changes


def test_a_job_waits_in_its_queue_without_holding_up_the_update() -> None:
    assert "annotations" not in jobset().inputs["metadata"]


def test_it_is_sent_once_its_queue_is_active() -> None:
    config = changed(
        lab_config(),
        {"tpuserve:queueing.jobs.train": TRAIN, "tpuserve:queueing.smoke": None},
    )
    graph = record(config)
    made = graph.one("JobSet", "train-jobset")
    assert made.inputs["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tpu"
    assert graph.depends(made, graph.one("LocalQueue"))


def test_a_job_that_would_never_run_is_refused_with_every_reason() -> None:
    job = Job(
        name="my.job",
        namespace="7lab",
        queue="tpu",
        image="example/train:1.0.0",
        command=["train"],
        shape="4x4x4",
        count=1,
        priority="urgent",
        cpu="1",
        memory="1Gi",
        restarts=0,
    )
    args = SlicedJobArgs(queue=replace(QUEUE, shapes=["2x2x2"]), home="lab", job=job, after=[])
    with pytest.raises(FlawedJobError, match="would never run") as refused:
        SlicedJob("train", args, pulumi.ResourceOptions())
    said = [each.path.rsplit("[", 1)[0].rsplit(".", 1)[-1] for each in refused.value.flaws]
    assert said == ["namespace", "name", "labels", "annotations"]


class TestGuide:
    """What docs/run-a-job.md says to write."""

    SECTION, BESIDE, MANIFEST = (
        yaml.safe_load(each)
        for each in re.findall(
            r"```yaml\n(.*?)```", (ROOT / "docs" / "run-a-job.md").read_text(), re.DOTALL
        )
    )

    def test_its_stack_file_makes_a_job(self) -> None:
        (queueing,) = self.SECTION.values()
        queueing["jobs"]["train"]["image"] = "example/train@sha256:" + 64 * "1"
        changes = {f"tpuserve:queueing.{key}": value for key, value in queueing.items()}
        changes["tpuserve:serving"] = {}
        made = record(changed(stack_config("prod"), changes)).one("JobSet", "train-jobset")
        assert _job(made)["replicas"] == 2

    def test_its_further_fields_are_taken(self) -> None:
        pod = _pod(jobset(**self.BESIDE))
        assert pod["terminationGracePeriodSeconds"] == 600
        assert pod["containers"][0]["volumeMounts"][1]["mountPath"] == "/scratch"

    def test_its_manifest_keeps_every_rule(self) -> None:
        assert flaws(self.MANIFEST, replace(QUEUE, namespaces=["llm"])) == []

    def test_its_manifest_is_a_shorter_form_of_what_is_sent(self) -> None:
        sent = jobset(
            command=["python", "train.py"], image="us-docker.pkg.dev/my-project/train:1.4.0"
        )
        assert differing(self.MANIFEST["spec"], sent.inputs["spec"]) == []


def differing(short: Any, whole: Any, path: str = "spec") -> list[str]:
    """Paths of what `short` says and `whole` does not."""
    if isinstance(short, dict) and isinstance(whole, dict):
        pairs = [(f"{path}.{key}", value, whole.get(key)) for key, value in short.items()]
    elif isinstance(short, list) and isinstance(whole, list) and len(short) == len(whole):
        pairs = [(path, *pair) for pair in zip(short, whole, strict=True)]
    else:
        return [] if short == whole else [path]
    return [each for at, one, other in pairs for each in differing(one, other, at)]

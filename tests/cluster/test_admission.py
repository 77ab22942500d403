"""The in-cluster half on real Kueue, JobSet and LWS: see tests/README.md for what it needs.

In order: each test goes on where the one before it ended.
"""

import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from simcloud.engine import Sim
from tests.support.engine import Steps
from tests.support.half import half, kubectl
from tests.support.lab import lab_config

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="KUBECONFIG names no cluster"),
]

PARTITION = "cloud.google.com/gke-tpu-partition-{}-id"


def section(**fields: Any) -> dict[str, Any]:
    queueing = lab_config()["tpuserve:queueing"]
    if controller := os.environ.get("TPUSERVE_SLICE_IMAGE"):
        queueing["sliceController"]["image"] = controller
    if jax := os.environ.get("TPUSERVE_JAX_IMAGE"):
        queueing["smoke"]["image"] = jax
    return {"queueing": {**queueing, **fields}}


SMALL = {
    "namespace": "lab",
    "image": "example/train:1.0.0",
    "command": ["train"],
    "shape": "2x2x2",
    "count": 6,
    "priority": "low",
    "cpu": "8",
    "memory": "32Gi",
}
FEWER = section(smoke=None, jobs={"small": SMALL}, shapes=["2x2x2", "4x4x4"])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def sim(root: Path) -> Iterator[Sim]:
    with pytest.MonkeyPatch.context() as patch, half(root, section(), patch) as sim:
        try:
            yield sim
        finally:
            if sim.export().get("resources"):
                sim.destroy()


class Stopwatch:
    """Prints how long an operation took; nothing is asserted about it."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, what: str, run: Callable[[], Any]) -> Any:
        start = time.monotonic()
        result = run()
        self.say(f"{what}: {time.monotonic() - start:.1f} s")
        return result

    def say(self, line: str) -> None:
        with self._capsys.disabled():
            print(f"\n{line}")


@pytest.fixture
def timed(capsys: pytest.CaptureFixture[str]) -> Stopwatch:
    return Stopwatch(capsys)


def _slices() -> dict[str, list[str]]:
    return {
        each["metadata"]["name"]: each["spec"]["partitionIds"]
        for each in kubectl("get", "slices")["items"]
    }


def _pods(jobset: str) -> list[dict[str, Any]]:
    """Pods that have a node and keep it."""
    label = f"jobset.sigs.k8s.io/jobset-name={jobset}"
    pods = kubectl("-n", "lab", "get", "pods", "-l", label)["items"]
    return [
        each
        for each in pods
        if "nodeName" in each["spec"] and "deletionTimestamp" not in each["metadata"]
    ]


def _partitions(pods: list[dict[str, Any]], shape: str) -> dict[str, int]:
    """Pods by the partition their node lies in."""
    nodes = {each["metadata"]["name"]: each for each in kubectl("get", "nodes")["items"]}
    found: dict[str, int] = {}
    for pod in pods:
        labels = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]
        place = labels[PARTITION.format(shape)]
        found[place] = found.get(place, 0) + 1
    return found


def _until(check: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(1)
    return check()


def test_one_update_makes_everything(sim: Sim, timed: Stopwatch) -> None:
    lines: list[str] = []
    made = timed("up", lambda: sim.up(on_output=lines.append)).summary.resource_changes
    assert set(made) == {"create"}
    waits = Counter(re.findall(r"waiting for (.+?) to answer", "\n".join(lines)))
    for webhook, times in waits.items():
        timed.say(f"asked {webhook} {times} more times")


def test_nothing_is_left_to_do(sim: Sim, timed: Stopwatch) -> None:
    steps = Steps()
    timed("preview without change", lambda: sim.preview(on_event=steps))
    assert steps.taken
    assert steps.changes == []
    assert set(sim.up().summary.resource_changes or {}) == {"same"}


def test_a_refresh_finds_no_drift(sim: Sim) -> None:
    sim.refresh()
    steps = Steps()
    sim.preview(on_event=steps)
    assert steps.changes == []


def test_the_super_slice_pushed_the_sub_slices_out_and_spans_both_cubes() -> None:
    ((name, partitions),) = _slices().items()
    assert name.startswith("lab-jobset-super-slice")
    assert len(partitions) == 2
    assert _until(lambda: len(_pods("super-slice")) == 32)
    placed = _partitions(_pods("super-slice"), "4x4x4")
    assert placed == dict.fromkeys(partitions, 16)
    (workload,) = [
        each
        for each in kubectl("-n", "lab", "get", "workloads")["items"]
        if "sub-slices" in each["metadata"]["name"]
    ]
    evicted = {each["type"]: each["reason"] for each in workload["status"].get("conditions", [])}
    assert evicted["Evicted"] == "Preempted"


def test_small_slices_get_a_partition_each(sim: Sim, timed: Stopwatch) -> None:
    sim.set_config(section(smoke=None, jobs={"small": SMALL}))
    timed("one job in place of two", sim.up)
    assert _until(lambda: len(_pods("small")) == 12)
    taken = [each for name, ids in _slices().items() if "small" in name for each in ids]
    assert len(taken) == len(set(taken)) == 6
    assert _partitions(_pods("small"), "2x2x2") == dict.fromkeys(taken, 2)


def test_another_shape_moves_the_queue_over_while_jobs_run(sim: Sim) -> None:
    before = {each["metadata"]["name"] for each in _pods("small")}
    sim.set_config(FEWER)
    steps = Steps()
    sim.up(on_event=steps)
    assert {name for _, name in steps.changes} == {
        "queues-topology",
        "queues-slices-flavor",
        "queues-tpu-queue",
    }
    assert {each["metadata"]["name"] for each in _pods("small")} == before
    assert len([name for name in _slices() if "small" in name]) == 6
    assert len(kubectl("get", "topologies.kueue.x-k8s.io")["items"]) == 1


def test_another_address_of_the_cluster_changes_the_provider_alone(root: Path, sim: Sim) -> None:
    assert sim.root == root
    kubeconfig = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    server = kubeconfig["clusters"][0]["cluster"]["server"]
    if urlsplit(server).hostname != "127.0.0.1":
        pytest.skip("the cluster has no second name to reach it by")
    other = server.replace("127.0.0.1", "localhost")
    with pytest.MonkeyPatch.context() as patch, half(root, FEWER, patch, server=other) as again:
        steps = Steps()
        again.up(on_event=steps)
        assert steps.changes == [("update", "kubernetes")]


def test_a_drained_queue_sends_a_foreign_job_back(sim: Sim, timed: Stopwatch) -> None:
    """The end of docs/run-a-job.md: a JobSet the stack does not know keeps no slice."""
    foreign = kubectl("-n", "lab", "get", "jobset", "small")
    metadata = foreign["metadata"]
    foreign["metadata"] = {
        "name": "foreign",
        "namespace": "lab",
        "labels": {key: value for key, value in metadata["labels"].items() if "kueue" in key},
    }
    foreign.pop("status", None)
    foreign["spec"]["suspend"] = True
    sim.set_config(section(smoke=None, jobs={}, shapes=["2x2x2", "4x4x4"]))
    sim.up()
    (job,) = foreign["spec"]["replicatedJobs"]
    # Its service account goes with the job of the stack.
    job["template"]["spec"]["template"]["spec"]["serviceAccountName"] = "default"
    subprocess.run(
        ["kubectl", "apply", "-f", "-"], check=True, text=True, input=json.dumps(foreign)
    )
    assert _until(lambda: len([name for name in _slices() if "foreign" in name]) == 6)
    stopped = section(smoke=None, jobs={}, shapes=["2x2x2", "4x4x4"], stop="HoldAndDrain")
    sim.set_config(stopped)
    timed("drain", sim.up)
    assert _until(lambda: _slices() == {})


def test_destroy_leaves_nothing(sim: Sim, timed: Stopwatch) -> None:
    timed("destroy", sim.destroy)
    assert _slices() == {}
    definitions = {each["metadata"]["name"] for each in kubectl("get", "crds")["items"]}
    ours = ("kueue.x-k8s.io", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io")
    assert [each for each in definitions if each.endswith(ours)] == []
    namespaces = {each["metadata"]["name"] for each in kubectl("get", "namespaces")["items"]}
    assert (
        namespaces
        & {
            "lab",
            "kueue-system",
            "jobset-system",
            "lws-system",
            "slice-controller-system",
        }
        == set()
    )

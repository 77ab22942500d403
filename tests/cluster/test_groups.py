"""Groups of the shipped stack on a real API server with Kueue and LeaderWorkerSet.

Needs KUBECONFIG of a cluster with both operators, GKE's kinds (or look-alikes), TPU7x nodes with
partition labels, and something that answers the slice check. Its objects are deleted afterwards.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.files import stack_config
from tests.support.recorder import record
from tests.support.sent import as_sent, sent
from tests.support.variants import changed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="no cluster"),
]

ORDER = (
    "Namespace ConfigMap ServiceAccount Role RoleBinding NetworkPolicy PodDisruptionBudget "
    "WorkloadPriorityClass Topology ResourceFlavor AdmissionCheck ClusterQueue LocalQueue "
    "HealthCheckPolicy GCPBackendPolicy Gateway HTTPRoute LeaderWorkerSet"
).split()
SECONDS = 120


def kubectl(*arguments: str, given: Any = None) -> str:
    text = None if given is None else json.dumps(given)
    done = subprocess.run(
        ["kubectl", *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", *arguments, "-o", "json"))["items"]
    return found


def objects(shape: str) -> list[dict[str, Any]]:
    changes = {"tpuserve:serving.qwen.slice": shape, "tpuserve:serving.qwen.decode.replicas": 2}
    graph = record(changed(stack_config("prod"), changes), stack="prod")
    found = [as_sent(each) for each in sent(graph)]
    ours = [
        each
        for each in found
        if each["kind"] in ORDER
        and each["metadata"].get("namespace", "llm") == "llm"
        and "slice-controller" not in each["metadata"]["name"]
        and each["metadata"]["name"] not in ("webhook-gate", "model-store")
    ]
    for each in ours:
        if not each["metadata"].get("annotations", True):
            del each["metadata"]["annotations"]
    return sorted(ours, key=lambda each: ORDER.index(each["kind"]))


@pytest.fixture(scope="module", params=["2x2x1", "2x2x2"])
def groups(request: pytest.FixtureRequest) -> Iterator[str]:
    everything = objects(str(request.param))
    for kind in ORDER:
        items = [each for each in everything if each["kind"] == kind]
        if items:
            each = {"apiVersion": "v1", "kind": "List", "items": items}
            kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=each)
    try:
        kubectl(
            "-n", "llm", "wait", "leaderworkerset", "--all", "--for=condition=Available",
            f"--timeout={SECONDS}s",
        )  # fmt: skip
        yield str(request.param)
    finally:
        kubectl("-n", "llm", "delete", "leaderworkerset", "--all", "--wait=true")
        gone = time.monotonic() + SECONDS
        while listed("slices") and time.monotonic() < gone:
            time.sleep(1)
        assert listed("slices") == []


def test_each_group_has_a_slice_and_no_partition_has_two(groups: str) -> None:
    slices = listed("slices")
    partitions = [each for one in slices for each in one["spec"]["partitionIds"]]
    assert {one["spec"]["topology"] for one in slices} == {groups}
    assert len(partitions) == len(set(partitions)) == 4


def test_leaders_alone_match_the_pool(groups: str) -> None:
    del groups
    members = listed("pods", "-n", "llm", "-l", "llm-d.ai/pool=qwen")
    index = "leaderworkerset.sigs.k8s.io/worker-index"
    assert {each["metadata"]["labels"][index] for each in members} == {"0"}
    roles = sorted(each["metadata"]["labels"]["llm-d.ai/role"] for each in members)
    assert roles == ["decode", "decode", "prefill", "prefill"]


def test_taking_one_group_away_frees_its_slice_and_no_other(groups: str) -> None:
    del groups
    before = {each["metadata"]["name"] for each in listed("slices")}
    kubectl("-n", "llm", "delete", "leaderworkerset", "qwen-decode-1", "--wait=true")
    deadline = time.monotonic() + SECONDS
    while len(listed("slices")) == len(before) and time.monotonic() < deadline:
        time.sleep(1)
    after = {each["metadata"]["name"] for each in listed("slices")}
    assert len(before - after) == 1
    assert all("decode-1" in name for name in before - after)

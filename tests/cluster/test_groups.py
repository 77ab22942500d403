"""Prefill and decode of the shipped stack on real Kueue and LWS: see tests/README.md for the needs.

In order: each test goes on where the one before it ended. Sent by the real Kubernetes provider, the
pool by the router's own chart; GKE's load balancer is played by a thread that calls Gateways
programmed.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.router import POOL_MEMBER_LABEL, ROLE_LABEL
from simcloud.engine import Sim
from tests.support.engine import Steps
from tests.support.files import ROOT, stack_config
from tests.support.half import half, kubectl
from tests.support.variants import changed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="no cluster"),
]

GROUPS = "leaderworkersets.leaderworkerset.x-k8s.io"
POOLS = "inferencepools.inference.networking.k8s.io"
GATEWAYS = "gateways.gateway.networking.k8s.io"
ROUTES = "httproutes.gateway.networking.k8s.io"
POLICIES = "gcpbackendpolicies.networking.gke.io"
CHECKS = "healthcheckpolicies.networking.gke.io"
QUEUES = "localqueues.kueue.x-k8s.io"
SLICES = "slices.accelerator.gke.io"
INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


def config(**changes: Any) -> Mapping[str, Any]:
    """Two groups of each role."""
    found = changed(
        stack_config("prod"),
        {
            "tpuserve:protect": False,
            "tpuserve:serving.qwen.decode.replicas": 2,
            **{f"tpuserve:serving.qwen.{key}": value for key, value in changes.items()},
        },
    )
    if controller := os.environ.get("TPUSERVE_SLICE_IMAGE"):
        found["tpuserve:queueing"]["sliceController"]["image"] = controller
    return found


class LoadBalancer(threading.Thread):
    """What GKE's controller says of a Gateway whose load balancer is there."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(1):
            listed = subprocess.run(
                ["kubectl", "get", GATEWAYS, "-A", "-o", "json"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            for each in json.loads(listed.stdout or "{}").get("items", []):
                self._programmed(each["metadata"])

    def _programmed(self, metadata: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        state = {"status": "True", "reason": "Programmed", "message": "", "lastTransitionTime": now}
        conditions = [
            {"type": name, "observedGeneration": metadata["generation"], **state}
            for name in ("Accepted", "Programmed")
        ]
        subprocess.run(
            ["kubectl", "-n", metadata["namespace"], "patch", GATEWAYS, metadata["name"],
             "--subresource=status", "--type=merge",
             "-p", json.dumps({"status": {"conditions": conditions}})],
            capture_output=True, check=False,
        )  # fmt: skip

    def end(self) -> None:
        self._over.set()
        self.join(30)


@dataclass
class Departures:
    """When objects were told to go, and when they were gone, in seconds, by kind."""

    told: dict[str, list[float]] = field(default_factory=dict)
    gone: dict[str, list[float]] = field(default_factory=dict)
    _watches: list[tuple[subprocess.Popen[str], threading.Thread]] = field(default_factory=list)

    def watch(self, *arguments: str) -> None:
        """One kind, until `end`."""
        command = ["kubectl", "get", *arguments, "--watch-only", "--output-watch-events"]
        process = subprocess.Popen(
            [*command, "-o", "jsonpath={.type} {.object.metadata.deletionTimestamp}{'\\n'}"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        reader = threading.Thread(target=self._read, args=(arguments[0], process), daemon=True)
        reader.start()
        self._watches.append((process, reader))

    def _read(self, kind: str, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            event, _, stamp = line.strip().partition(" ")
            if event == "DELETED":
                now = time.time()
                told = datetime.fromisoformat(stamp).timestamp() if stamp else now
                self.told.setdefault(kind, []).append(told)
                self.gone.setdefault(kind, []).append(now)

    def end(self) -> None:
        for process, reader in self._watches:
            process.terminate()
            process.wait(10)
            reader.join(10)
            if process.stdout:
                process.stdout.close()


@pytest.fixture(scope="module", params=["2x2x1", "2x2x2"])
def shape(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def sim(shape: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    root, file = tmp_path_factory.mktemp("prod"), ROOT / "Pulumi.prod.yaml"
    balancer = LoadBalancer()
    balancer.start()
    with (
        pytest.MonkeyPatch.context() as patch,
        half(root, config(slice=shape), patch, file=file) as sim,
    ):
        try:
            yield sim
        finally:
            if sim.export().get("resources"):
                sim.destroy()
            balancer.end()


def one(kind: str, name: str = "qwen") -> dict[str, Any]:
    return dict(kubectl("-n", "llm", "get", kind, name))


def slices() -> dict[str, Any]:
    """Partitions by the name of the slice and the moment it was made."""
    return {
        (each["metadata"]["name"], each["metadata"]["creationTimestamp"]): each["spec"]
        for each in kubectl("get", SLICES)["items"]
    }


def test_one_update_makes_everything(sim: Sim) -> None:
    made = sim.up().summary.resource_changes
    assert set(made or {}) == {"create"}
    steps = Steps()
    sim.preview(on_event=steps)
    assert steps.changes == []


def test_each_group_has_a_slice_and_no_partition_has_two(sim: Sim, shape: str) -> None:
    del sim
    found = slices().values()
    partitions = [each for spec in found for each in spec["partitionIds"]]
    assert {spec["topology"] for spec in found} == {shape}
    assert len(partitions) == len(set(partitions)) == 4


def test_leaders_alone_match_the_selector_of_the_pool(sim: Sim) -> None:
    del sim
    pool = one(POOLS)["spec"]
    chosen = ",".join(f"{key}={value}" for key, value in pool["selector"]["matchLabels"].items())
    labels = [
        each["metadata"]["labels"]
        for each in kubectl("-n", "llm", "get", "pods", "-l", chosen)["items"]
    ]
    assert {each[INDEX] for each in labels} == {"0"}
    assert {each[POOL_MEMBER_LABEL] for each in labels} == {"qwen"}
    roles = sorted(each[ROLE_LABEL] for each in labels)
    assert roles == ["decode", "decode", "prefill", "prefill"]


def test_pool_route_and_policies_are_accepted_and_name_each_other(sim: Sim) -> None:
    del sim
    pool, route = one(POOLS), one(ROUTES)["spec"]
    picker = kubectl("-n", "llm", "get", "service", pool["spec"]["endpointPickerRef"]["name"])
    assert pool["spec"]["endpointPickerRef"]["failureMode"] == "FailClose"
    assert pool["spec"]["endpointPickerRef"]["port"]["number"] in {
        each["port"] for each in picker["spec"]["ports"]
    }
    assert [each["name"] for each in route["parentRefs"]] == [one(GATEWAYS)["metadata"]["name"]]
    targets = [each for rule in route["rules"] for each in rule["backendRefs"]]
    targets += [one(kind)["spec"]["targetRef"] for kind in (POLICIES, CHECKS)]
    assert {(each["group"], each["kind"], each["name"]) for each in targets} == {
        ("inference.networking.k8s.io", "InferencePool", "qwen")
    }


def test_one_field_of_the_route_changes_one_policy(sim: Sim, shape: str) -> None:
    before = slices()
    sim.set_config(dict(config(slice=shape, answerSeconds=600)))
    steps = Steps()
    sim.up(on_event=steps)
    assert [kind for kind, _ in steps.changes] == ["update"]
    assert one(POLICIES)["spec"]["default"]["timeoutSec"] == 600
    assert slices() == before


def test_another_template_of_one_role_restarts_its_groups_on_their_slices(
    sim: Sim, shape: str
) -> None:
    before = slices()
    changes = {"answerSeconds": 600, "prefill.maxNumSeqs": 16}
    sim.set_config(dict(config(slice=shape, **changes)))
    steps = Steps()
    sim.up(on_event=steps)
    groups = sorted(name for _, name in steps.changes if name.endswith("-lws"))
    assert groups == ["qwen-prefill-0-lws", "qwen-prefill-1-lws"]
    assert {kind for kind, _ in steps.changes} == {"update"}
    assert slices() == before


def test_a_group_that_is_taken_away_frees_its_slice_and_no_other(sim: Sim, shape: str) -> None:
    before = slices()
    changes = {"answerSeconds": 600, "prefill.maxNumSeqs": 16, "decode.replicas": 1}
    sim.set_config(dict(config(slice=shape, **changes)))
    sim.up()
    deadline = time.monotonic() + 60
    while len(slices()) == len(before) and time.monotonic() < deadline:
        time.sleep(1)
    gone = set(before) - set(slices())
    assert len(gone) == 1
    assert all("decode-1" in name for name, _ in gone)


def test_destroy_ends_groups_before_their_way_in_and_that_before_the_queues(sim: Sim) -> None:
    seen = Departures()
    for kind in (GROUPS, POOLS, GATEWAYS, ROUTES, POLICIES, CHECKS, QUEUES):
        seen.watch(kind, "-n", "llm")
    seen.watch("pods", "-n", "llm", "-l", f"{POOL_MEMBER_LABEL}=qwen")
    time.sleep(2)
    try:
        sim.destroy()
        time.sleep(1)
    finally:
        seen.end()
    drained = max(*seen.gone["pods"], *seen.gone[GROUPS])
    # Stamps of the API server are whole seconds.
    way_in = {
        kind: min(seen.told[kind]) for kind in (ROUTES, POLICIES, CHECKS, POOLS, GATEWAYS, QUEUES)
    }
    assert [kind for kind, told in way_in.items() if told < int(drained)] == []
    route_gone = int(max(seen.gone[ROUTES]))
    after_the_route = (POOLS, GATEWAYS, POLICIES, CHECKS)
    assert [kind for kind in after_the_route if way_in[kind] < route_gone] == []
    assert slices() == {}

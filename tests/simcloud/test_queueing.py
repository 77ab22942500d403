"""Kueue and its neighbours in the simulated cluster: late webhooks, conditions, slices."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from simcloud.clock import Clock
from simcloud.kubernetes import Kubernetes
from simcloud.kubernetes.slices import SLICE
from simcloud.provider import Service
from simcloud.store import Call
from tests.simcloud.harness import CallError, Live, Props, Provider, providers

POOL = "gcp:container/nodePool:NodePool"
RELEASE = "kubernetes:helm.sh/v3:Release"
NAMESPACE = "kubernetes:core/v1:Namespace"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
ROLE = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"
KUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:"
LWS = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
JOBSET = "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet"

WAITS = {"pulumi.com/waitFor": "condition=Active"}
CONTROLLER = "slice-controller-controller-manager"


class Cluster:
    """A cluster with two cubes of one block, and the objects on it by kind and name."""

    def __init__(
        self, folder: Path, scale: float = 0.0, blocks: Sequence[str] = ("b", "b")
    ) -> None:
        self._gcp, _ = providers(folder)
        self.store = self._gcp.service.store
        given = {"name": "serving", "location": "us-central1", "deletionProtection": False}
        made = self._gcp.create("gcp:container/cluster:Cluster", "serving", given)
        kubeconfig = {"clusters": [{"cluster": {"server": f"https://{made.outputs['endpoint']}"}}]}
        service = Service(Kubernetes(), self.store, Clock(scale=scale))
        self._k8s = Provider(service, {"kubeconfig": json.dumps(kubeconfig)}, f"{folder}")
        self._live: dict[tuple[str, str], Live] = {}
        self._cubes = [self._cube(index, block) for index, block in enumerate(blocks)]

    def _cube(self, index: int, block: str) -> Live:
        affinity = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [
                f"projects/p/reservations/r/reservationBlocks/{block}/reservationSubBlocks/{index}"
            ],
        }
        given = {
            "name": f"cube-{index}",
            "cluster": "serving",
            "location": "us-central1",
            "nodeCount": 16,
            "nodeConfig": {"machineType": "tpu7x-standard-4t", "reservationAffinity": affinity},
        }
        return self._gcp.create(POOL, f"cube-{index}", given)

    def make(self, type_: str, name: str, *, namespace: str = "", **body: Any) -> Live:
        metadata: Props = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        metadata.update(body.pop("metadata", {}))
        group, _, kind = type_.removeprefix("kubernetes:").rpartition(":")
        version = group.removeprefix("core/")
        made = self._k8s.create(
            type_,
            name,
            {"apiVersion": version, "kind": kind, "metadata": metadata, **body},
        )
        self._live[type_, name] = made
        return made

    def drop(self, type_: str, name: str) -> None:
        self._k8s.delete(type_, name, self._live[type_, name])

    def drop_cube(self, index: int) -> None:
        self._gcp.delete(POOL, f"cube-{index}", self._cubes[index])

    def chart(self, name: str) -> None:
        chart = f"oci://registry.k8s.io/{name}/charts/{name}"
        given = {"chart": chart, "version": "1.0.0", "name": name, "namespace": f"{name}-system"}
        self.make(NAMESPACE, f"{name}-system")
        self._live[RELEASE, name] = self._k8s.create(RELEASE, name, given)

    def controller(self, verbs: Sequence[str] = ("get", "list", "watch")) -> None:
        self.make(NAMESPACE, "slice-controller-system")
        rules = [
            {"apiGroups": ["kueue.x-k8s.io"], "resources": ["admissionchecks"], "verbs": [*verbs]}
        ]
        self.make(ROLE, "slice-controller", rules=rules)
        labels = {"app": "slice-controller"}
        pod = {"containers": [{"name": "manager", "image": "controller@sha256:0"}]}
        self.make(
            DEPLOYMENT,
            CONTROLLER,
            namespace="slice-controller-system",
            spec={
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        )

    def check(self) -> None:
        spec = {"controllerName": "accelerator.gke.io/slice"}
        self.make(f"{KUEUE}AdmissionCheck", "slices", spec=spec, metadata={"annotations": WAITS})

    def flavor(self, topology: str = "slices") -> None:
        self.make(f"{KUEUE}ResourceFlavor", "slices", spec={"topologyName": topology})

    def topology(self) -> None:
        levels = [{"nodeLabel": "kubernetes.io/hostname"}]
        self.make(f"{KUEUE}Topology", "slices", spec={"levels": levels})

    def queue(self) -> None:
        resources = [{"name": "google.com/tpu", "nominalQuota": "128"}]
        group = {
            "coveredResources": ["google.com/tpu"],
            "flavors": [{"name": "slices", "resources": resources}],
        }
        strategy = {"admissionChecks": [{"name": "slices", "onFlavors": ["slices"]}]}
        spec = {"resourceGroups": [group], "admissionChecksStrategy": strategy}
        self.make(f"{KUEUE}ClusterQueue", "tpu", spec=spec, metadata={"annotations": WAITS})

    def everything(self) -> None:
        for name in ("jobset", "lws", "kueue"):
            self.chart(name)
        self.controller()
        for make in (self.check, self.topology, self.flavor, self.queue):
            make()
        for name, value in (("low", 1000), ("high", 3000)):
            self.make(f"{KUEUE}WorkloadPriorityClass", name, value=value)
        self.make(NAMESPACE, "llm")
        spec = {"clusterQueue": "tpu"}
        self.make(f"{KUEUE}LocalQueue", "tpu", namespace="llm", spec=spec)

    def stop(self, policy: str) -> None:
        """The queue as it is, but for its stop policy."""
        type_ = f"{KUEUE}ClusterQueue"
        old = self._live[type_, "tpu"]
        given = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "tpu"},
            "spec": {**old.inputs["spec"], "stopPolicy": policy},
        }
        self._live[type_, "tpu"] = self._k8s.update(type_, "tpu", old, given)

    def job(
        self, name: str, shape: str, count: int = 1, *, priority: str = "low", jobs: int = 1
    ) -> None:
        template = {
            "metadata": {"annotations": {"cloud.google.com/gke-tpu-slice-topology": shape}},
            "spec": {"containers": [{"name": "main", "image": "train"}], "restartPolicy": "Never"},
        }
        made = [
            {"name": f"w{index}", "replicas": count, "template": {"spec": {"template": template}}}
            for index in range(jobs)
        ]
        metadata = {
            "labels": {
                "kueue.x-k8s.io/queue-name": "tpu",
                "kueue.x-k8s.io/priority-class": priority,
            },
            "annotations": {"pulumi.com/waitFor": "jsonpath={.spec.suspend}=false"},
        }
        spec = {"replicatedJobs": made}
        self.make(JOBSET, name, namespace="llm", spec=spec, metadata=metadata)

    def group(self, name: str, shape: str) -> None:
        """A LeaderWorkerSet of one pod, waited for until it serves."""
        container = {
            "name": "vllm",
            "image": "vllm",
            "resources": {"limits": {"google.com/tpu": "4"}},
        }
        template = {
            "metadata": {"annotations": {"cloud.google.com/gke-tpu-slice-topology": shape}},
            "spec": {"containers": [container]},
        }
        metadata = {
            "labels": {"kueue.x-k8s.io/queue-name": "tpu"},
            "annotations": {
                "pulumi.com/waitFor": "condition=Available",
                "pulumi.com/timeoutSeconds": "6000",
            },
        }
        spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}}
        self.make(LWS, name, namespace="llm", spec=spec, metadata=metadata)

    def creation(self, name: str) -> Call:
        return next(
            each for each in self.store.calls() if each.name == name and each.method == "Create"
        )

    @property
    def slices(self) -> dict[str, list[str]]:
        """Partitions of every slice by its name."""
        return {each.name: each.props["spec"]["partitionIds"] for each in self.store.all(SLICE)}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.fixture
def ready(cluster: Cluster) -> Cluster:
    cluster.everything()
    return cluster


class TestWebhooks:
    def test_they_refuse_for_a_while_after_the_release_is_ready(self, tmp_path: Path) -> None:
        cluster = Cluster(tmp_path, scale=0.1)
        cluster.chart("kueue")
        with pytest.raises(CallError, match=r"failed calling webhook .*connection refused"):
            cluster.flavor()
        # No webhook looks at a Topology.
        cluster.topology()
        time.sleep(0.3 * 0.1)
        cluster.flavor()

    def test_what_they_refused_is_not_there(self, tmp_path: Path) -> None:
        cluster = Cluster(tmp_path, scale=0.1)
        cluster.chart("kueue")
        with pytest.raises(CallError):
            cluster.flavor()
        assert [each for each in cluster.store.all() if each.type.endswith("Flavor")] == []


def test_every_namespace_comes_with_a_service_account(cluster: Cluster) -> None:
    cluster.make(NAMESPACE, "llm")
    with pytest.raises(CallError, match=r'serviceaccounts .*default" already exists'):
        cluster.make("kubernetes:core/v1:ServiceAccount", "default", namespace="llm")
    cluster.drop(NAMESPACE, "llm")
    cluster.make(NAMESPACE, "llm")


class TestConditions:
    @pytest.mark.parametrize(
        "without",
        ["the controller", "its right to watch"],
    )
    def test_a_check_is_active_only_when_its_controller_can_answer(
        self, cluster: Cluster, without: str
    ) -> None:
        cluster.chart("kueue")
        if without == "its right to watch":
            cluster.controller(verbs=("get",))
        with pytest.raises(CallError, match="AdmissionCheck timed out waiting for condition"):
            cluster.check()

    @pytest.mark.parametrize(
        "parts",
        [
            (Cluster.check,),
            (Cluster.check, Cluster.topology),
            (Cluster.check, Cluster.flavor),
            (Cluster.topology, Cluster.flavor),
        ],
        ids=["no flavor", "no flavor for the topology", "no topology", "no check"],
    )
    def test_a_queue_is_active_only_when_all_it_names_is_there(
        self, cluster: Cluster, parts: Sequence[Callable[[Cluster], None]]
    ) -> None:
        cluster.chart("kueue")
        cluster.controller()
        for make in parts:
            make(cluster)
        with pytest.raises(CallError, match="ClusterQueue timed out waiting for condition"):
            cluster.queue()

    def test_a_queue_with_all_of_them_is_active(self, ready: Cluster) -> None:
        (queue,) = [each for each in ready.store.all() if each.type.endswith(":ClusterQueue")]
        assert queue.status == "ready"


class TestFinalizers:
    @pytest.mark.parametrize("kind", ["Topology", "ResourceFlavor", "AdmissionCheck"])
    def test_an_object_stays_while_another_names_it(self, ready: Cluster, kind: str) -> None:
        with pytest.raises(CallError, match=r"finalizers .*kueue.x-k8s.io/resource-in-use"):
            ready.drop(f"{KUEUE}{kind}", "slices")

    def test_a_queue_stays_while_a_workload_holds_its_quota(self, ready: Cluster) -> None:
        ready.job("train", "2x2x2")
        with pytest.raises(CallError, match=r"finalizers .*resource-in-use"):
            ready.drop(f"{KUEUE}ClusterQueue", "tpu")
        ready.drop(JOBSET, "train")
        ready.drop(f"{KUEUE}ClusterQueue", "tpu")

    def test_a_pool_stays_while_a_slice_lies_on_it(self, ready: Cluster) -> None:
        ready.job("train", "4x4x4")
        ((used,),) = ready.slices.values()
        with pytest.raises(CallError, match="already being used by 'llm-train-0'"):
            ready.drop_cube(int(used.split("-")[1]))
        ready.drop(JOBSET, "train")
        ready.drop_cube(int(used.split("-")[1]))


class TestSlices:
    def test_small_ones_share_a_cube(self, ready: Cluster) -> None:
        ready.job("train", "2x2x2", count=6)
        ids = [each for found in ready.slices.values() for each in found]
        assert len(ids) == len(set(ids)) == 6
        assert {each.rpartition("-2x2x2-")[0] for each in ids} == {"cube-0"}

    def test_a_large_one_spans_cubes_of_a_block(self, ready: Cluster) -> None:
        ready.job("train", "4x4x8")
        assert list(ready.slices.values()) == [["cube-0-4x4x4-0", "cube-1-4x4x4-0"]]

    def test_servers_start_on_them_and_a_job_is_only_admitted(self, ready: Cluster) -> None:
        ready.job("train", "2x2x2")
        ready.group("decode", "2x2x1")
        assert ready.creation("train").minutes == 1
        assert ready.creation("decode").minutes == 1 + 7

    def test_servers_are_waited_for_until_they_started(self, tmp_path: Path) -> None:
        ready = Cluster(tmp_path, scale=0.01)
        ready.everything()
        ready.group("decode", "2x2x1")
        (formed,) = (each.ready for each in ready.store.all(SLICE))
        assert ready.creation("decode").ended >= formed + 7 * 0.01

    def test_a_job_without_room_waits_and_has_its_turn_later(self, ready: Cluster) -> None:
        ready.job("first", "4x4x8")
        with pytest.raises(CallError, match="timed out waiting for jsonpath"):
            ready.job("second", "2x2x1")
        assert list(ready.slices) == ["llm-first-0"]
        ready.drop(JOBSET, "first")
        assert list(ready.slices) == ["llm-second-0"]

    def test_a_higher_priority_takes_what_it_needs(self, ready: Cluster) -> None:
        ready.job("small", "2x2x2", count=6)
        ready.job("large", "4x4x8", priority="high")
        assert list(ready.slices) == ["llm-large-0"]

    def test_a_higher_priority_leaves_alone_what_is_not_in_its_way(self, ready: Cluster) -> None:
        ready.job("small", "2x2x2", count=6)
        ready.job("large", "4x4x4", priority="high")
        assert len([each for each in ready.slices if each.startswith("llm-small")]) == 6

    @pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
    def test_a_stopped_queue_admits_nobody_until_it_goes_on(
        self, ready: Cluster, policy: str
    ) -> None:
        ready.stop(policy)
        with pytest.raises(CallError, match="timed out waiting for jsonpath"):
            ready.job("train", "2x2x2")
        assert ready.slices == {}
        ready.stop("None")
        assert list(ready.slices) == ["llm-train-0"]

    def test_a_held_queue_leaves_alone_what_runs(self, ready: Cluster) -> None:
        ready.job("train", "2x2x2")
        ready.stop("Hold")
        assert list(ready.slices) == ["llm-train-0"]

    def test_a_drained_queue_sends_jobs_back_and_servers_keep_their_slices(
        self, ready: Cluster
    ) -> None:
        ready.job("train", "2x2x2")
        ready.group("decode", "2x2x1")
        ready.stop("HoldAndDrain")
        assert list(ready.slices) == ["llm-decode-0"]
        ready.drop(LWS, "decode")
        ready.drop(f"{KUEUE}ClusterQueue", "tpu")

    def test_a_slice_that_is_stuck_outlives_the_drain(self, ready: Cluster) -> None:
        ready.job("train", "2x2x2")
        ready.store.set_faults(["delete Slice=error*0"])
        ready.stop("HoldAndDrain")
        assert list(ready.slices) == ["llm-train-0"]

    def test_all_slices_of_a_job_lie_in_one_block(self, tmp_path: Path) -> None:
        apart = Cluster(tmp_path, blocks=("a", "b"))
        apart.everything()
        with pytest.raises(CallError, match="timed out waiting for jsonpath"):
            apart.job("train", "4x4x4", count=2)
        apart.job("single", "4x4x4")
        assert apart.slices == {"llm-single-0": ["cube-0-4x4x4-0"]}

    def test_a_jobset_of_two_jobs_is_admitted_whole(self, tmp_path: Path) -> None:
        apart = Cluster(tmp_path, blocks=("a", "b"))
        apart.everything()
        apart.job("train", "4x4x4", jobs=2)
        assert sorted(apart.slices.values()) == [["cube-0-4x4x4-0"], ["cube-1-4x4x4-0"]]
        apart.drop(JOBSET, "train")
        apart.job("taken", "2x2x1")
        with pytest.raises(CallError, match="timed out waiting for jsonpath"):
            apart.job("again", "4x4x4", jobs=2)
        assert list(apart.slices) == ["llm-taken-0"]

    def test_one_that_failed_to_form_is_formed_again(self, tmp_path: Path) -> None:
        ready = Cluster(tmp_path, scale=0.02)
        ready.everything()
        ready.store.set_faults(["create Slice=error"])
        ready.job("train", "2x2x2")
        assert list(ready.slices) == ["llm-train-0"]

    def test_one_that_never_forms_keeps_its_job_waiting(self, ready: Cluster) -> None:
        ready.store.set_faults(["create Slice=error*0"])
        with pytest.raises(CallError, match="JobSet timed out waiting for jsonpath"):
            ready.job("train", "2x2x2")

    def test_one_that_does_not_go_keeps_its_job_and_is_named(self, ready: Cluster) -> None:
        ready.job("train", "2x2x2")
        ready.store.set_faults(["delete Slice=error*0"])
        with pytest.raises(CallError, match="Slice llm-train-0 is DEACTIVATING"):
            ready.drop(JOBSET, "train")
        assert list(ready.slices) == ["llm-train-0"]

"""Workloads that would never run, or never end, are told why before they are sent."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from catalog.jobs import Job, jobset
from catalog.releases import RELEASE_SETS
from catalog.workloads import Queue, flaws, slice_name_is_cut

QUEUE = Queue(
    name="tpu",
    namespaces=["llm"],
    shapes=["2x2x1", "2x2x2", "4x4x4", "4x4x8"],
    blocks=[2],
    priorities={"low": 1000, "medium": 2000, "high": 3000, "urgent": 4000},
    serving_priority="high",
)
SHAPE = "cloud.google.com/gke-tpu-slice-topology"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"

Manifest = dict[str, Any]


def job(**fields: Any) -> Job:
    said: dict[str, Any] = {
        "name": "train",
        "namespace": "llm",
        "queue": "tpu",
        "image": "example/train:1.0.0",
        "command": ["train"],
        "shape": "2x2x2",
        "count": 2,
        "priority": "low",
        "cpu": "8",
        "memory": "32Gi",
        "restarts": 3,
    }
    return Job(**{**said, **fields})


def pod(shape: str) -> Manifest:
    (made,) = jobset(job(shape=shape))["spec"]["replicatedJobs"]
    template: Manifest = made["template"]["spec"]["template"]
    return {"metadata": {"annotations": {SHAPE: shape}}, "spec": template["spec"]}


def lws(shape: str = "2x2x2", size: int = 2, *, leader: bool = False) -> Manifest:
    template = {"size": size, "workerTemplate": pod(shape)}
    if leader:
        template["leaderTemplate"] = pod(shape)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "decode",
            "namespace": "llm",
            "labels": {QUEUE_NAME: "tpu", PRIORITY: "urgent"},
        },
        "spec": {"replicas": 1, "leaderWorkerTemplate": template},
    }


def plain_job(shape: str = "2x2x2") -> Manifest:
    (made,) = jobset(job(shape=shape))["spec"]["replicatedJobs"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": jobset(job(shape=shape))["metadata"],
        "spec": made["template"]["spec"],
    }


def _template(manifest: Manifest) -> Manifest:
    spec = manifest["spec"]
    if manifest["kind"] == "JobSet":
        found: Manifest = spec["replicatedJobs"][0]["template"]["spec"]["template"]
        return found
    if manifest["kind"] == "Job":
        return dict(spec)["template"]  # type: ignore[no-any-return]
    return spec["leaderWorkerTemplate"]["workerTemplate"]  # type: ignore[no-any-return]


def _pods(manifest: Manifest) -> Manifest:
    return _template(manifest)["spec"]  # type: ignore[no-any-return]


def static_selector(it: Manifest) -> None:
    _pods(it)["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = "2x2x2"


def queue_as_annotation(it: Manifest) -> None:
    labels = it["metadata"]["labels"]
    it["metadata"]["annotations"] = {QUEUE_NAME: labels.pop(QUEUE_NAME)}


def another_queue(it: Manifest) -> None:
    it["metadata"]["labels"][QUEUE_NAME] = "gpu"


def digit_namespace(it: Manifest) -> None:
    it["metadata"]["namespace"] = "1llm"


def dotted_name(it: Manifest) -> None:
    it["metadata"]["name"] = "train.v2"


def no_priority(it: Manifest) -> None:
    it["metadata"]["labels"].pop(PRIORITY)


def above_serving(it: Manifest) -> None:
    it["metadata"]["labels"][PRIORITY] = "urgent"


def too_few_pods(it: Manifest) -> None:
    it["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = 1


def other_completions(it: Manifest) -> None:
    it["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = 4


def no_toleration(it: Manifest) -> None:
    _pods(it)["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]


def wrong_toleration(it: Manifest) -> None:
    _pods(it)["tolerations"] = [{"key": "google.com/tpu", "value": "absent"}]


def no_accelerator(it: Manifest) -> None:
    _pods(it)["nodeSelector"] = {"kubernetes.io/os": "linux"}


def two_accelerators(it: Manifest) -> None:
    del _pods(it)["nodeSelector"]
    among = {
        "key": "cloud.google.com/gke-tpu-accelerator",
        "operator": "In",
        "values": ["tpu7x", "tpu-v6e-slice"],
    }
    terms = {"nodeSelectorTerms": [{"matchExpressions": [among]}]}
    _pods(it)["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    }


def half_a_host(it: Manifest) -> None:
    _pods(it)["containers"][0]["resources"]["limits"]["google.com/tpu"] = 2


def a_large_host(it: Manifest) -> None:
    _pods(it)["containers"][0]["resources"]["requests"]["memory"] = "1Ti"


def two_containers(it: Manifest) -> None:
    resources = {"requests": {"cpu": "220"}, "limits": {"memory": "1Gi"}}
    _pods(it)["containers"].append({"name": "data", "resources": resources})


def no_shape(it: Manifest) -> None:
    del _template(it)["metadata"]["annotations"][SHAPE]


def unknown_shape(it: Manifest) -> None:
    _template(it)["metadata"]["annotations"][SHAPE] = "3x3x3"


def no_level(it: Manifest) -> None:
    _template(it)["metadata"]["annotations"][SHAPE] = "2x4x4"


def static_affinity(it: Manifest) -> None:
    it_is = {"key": "cloud.google.com/gke-tpu-topology", "operator": "In", "values": ["2x2x2"]}
    _pods(it)["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [it_is]}]
            }
        }
    }


def no_unit(it: Manifest) -> None:
    _pods(it)["containers"][0]["resources"]["requests"]["memory"] = "128"


def no_quantity(it: Manifest) -> None:
    _pods(it)["containers"][0]["resources"]["requests"]["memory"] = "128 GB"


def no_number(it: Manifest) -> None:
    it["spec"]["replicatedJobs"][0]["replicas"] = "many"


def no_list(it: Manifest) -> None:
    it["spec"]["replicatedJobs"] = "jobs"


def long_class(it: Manifest) -> None:
    it["metadata"]["labels"][PRIORITY] = 64 * "p"


def two_jobs(it: Manifest) -> None:
    """Each has room, both at once do not."""
    jobs = it["spec"]["replicatedJobs"]
    jobs[0]["replicas"] = 9
    jobs.append({**copy.deepcopy(jobs[0]), "name": "more"})


def always_restart(it: Manifest) -> None:
    _pods(it)["restartPolicy"] = "Always"


def too_many(it: Manifest) -> None:
    it["spec"]["replicatedJobs"][0]["replicas"] = 17


def long_name(it: Manifest) -> None:
    it["metadata"]["name"] = "a-name-of-which-its-pods-make-names-that-are-too-long-for"


def a_deployment(it: Manifest) -> None:
    it["kind"] = "Deployment"


JOBSETS: list[tuple[Callable[[Manifest], None], str, str]] = [
    (static_selector, "spec.nodeSelector[cloud.google.com/gke-tpu-topology]", "never admitted"),
    (queue_as_annotation, f"metadata.annotations[{QUEUE_NAME}]", "from a label"),
    (another_queue, f"metadata.labels[{QUEUE_NAME}]", "starts at once, on no slice"),
    (digit_namespace, "metadata.namespace", "must begin with a letter"),
    (dotted_name, "metadata.name", "no dots"),
    (no_priority, f"metadata.labels[{PRIORITY}]", "names a priority class"),
    (above_serving, f"metadata.labels[{PRIORITY}]", "4000 is above serving's 3000"),
    (too_few_pods, "template.spec.parallelism", "has 2 hosts, one pod each"),
    (other_completions, "template.spec.completions", "has 2 hosts, one pod each"),
    (no_toleration, "spec.tolerations", "carry the taint google.com/tpu=present"),
    (wrong_toleration, "spec.tolerations", "carry the taint google.com/tpu=present"),
    (no_accelerator, "nodeSelector[cloud.google.com/gke-tpu-accelerator]", "do not select exactly"),
    (two_accelerators, "nodeSelector[cloud.google.com/gke-tpu-accelerator]", "do not select"),
    (half_a_host, "resources.limits[google.com/tpu]", "a host of a slice to itself: 4 chips"),
    (a_large_host, "resources.requests[memory]", "a host has 960Gi"),
    (two_containers, "resources.requests[cpu]", "a host has 224"),
    (no_shape, f"annotations[{SHAPE}]", "read from this annotation alone"),
    (unknown_shape, f"annotations[{SHAPE}]", "every side is a multiple of 4"),
    (no_level, f"annotations[{SHAPE}]", "the topology has no level for it"),
    (always_restart, "spec.restartPolicy", "Never or OnFailure"),
    (too_many, "spec.replicatedJobs[0].replicas", "at most 16 slices of 2x2x2 lie on the 2 cubes"),
    (long_name, "metadata.name", "too long for their host name"),
    (static_affinity, "affinity[cloud.google.com/gke-tpu-topology]", "never admitted"),
    (no_unit, "resources.requests[memory]", "a number without a unit counts bytes"),
    (no_quantity, "resources.requests[memory]", "no quantity such as"),
    (no_number, "spec", "not of the form its kind has"),
    (no_list, "spec", "not of the form its kind has"),
    (long_class, f"metadata.labels[{PRIORITY}]", "at most 63 characters, this 64"),
    (two_jobs, "spec.replicatedJobs", "never lie at once on the 2 cubes"),
    (a_deployment, "kind", "Jobs, JobSets and LeaderWorkerSets only"),
]


@pytest.mark.parametrize(("spoil", "path", "rule"), JOBSETS)
def test_a_spoilt_jobset_is_told_why(
    spoil: Callable[[Manifest], None], path: str, rule: str
) -> None:
    manifest = copy.deepcopy(jobset(job()))
    spoil(manifest)
    found = flaws(manifest, QUEUE)
    assert [each for each in found if each.path.endswith(path) and rule in each.rule], found
    assert [each for each in found if not each.fix or not str(each.source)] == []


def test_what_the_builder_makes_has_no_flaw() -> None:
    wrong = {
        shape: found
        for shape in QUEUE.shapes
        if (found := flaws(jobset(job(shape=shape, count=1)), QUEUE))
    }
    assert wrong == {}


@pytest.mark.parametrize("memory", ["129e6", "0.1Gi", "900Gi", "134217728000m"])
def test_every_spelling_of_a_quantity_is_read(memory: str) -> None:
    manifest = jobset(job())
    _pods(manifest)["containers"][0]["resources"]["requests"]["memory"] = memory
    assert flaws(manifest, QUEUE) == []


def test_what_is_not_said_has_its_default() -> None:
    manifest = jobset(job(count=1))
    manifest["spec"]["replicatedJobs"][0]["replicas"] = None
    assert flaws(manifest, QUEUE) == []


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": ""},
        {"key": "google.com/tpu", "operator": "Exists", "effect": ""},
        {"key": "google.com/tpu", "value": "present"},
    ],
)
def test_every_way_to_tolerate_the_taint_counts(toleration: Manifest) -> None:
    manifest = jobset(job())
    _pods(manifest)["tolerations"] = [toleration]
    assert flaws(manifest, QUEUE) == []


class TestRoom:
    """Kueue looks for one block for all slices of a job, and admits a JobSet whole."""

    TWO = Queue(**{**vars(QUEUE), "blocks": [2, 1]})

    def test_blocks_are_not_added_up(self) -> None:
        (flaw,) = flaws(jobset(job(shape="4x4x4", count=3)), self.TWO)
        assert "at most 2 slices of 4x4x4 lie on the 2 cubes of one block" in flaw.rule
        assert flaws(jobset(job(shape="4x4x4", count=2)), self.TWO) == []

    def test_jobs_of_one_jobset_may_lie_in_blocks_of_their_own(self) -> None:
        manifest = jobset(job(shape="4x4x4", count=2))
        jobs = manifest["spec"]["replicatedJobs"]
        jobs.append({**copy.deepcopy(jobs[0]), "name": "more", "replicas": 1})
        assert flaws(manifest, self.TWO) == []
        (flaw,) = flaws(manifest, QUEUE)
        assert flaw.path == "spec.replicatedJobs"

    @pytest.mark.parametrize(
        ("hosts", "blocks", "fit"),
        [
            ([16, 16], [2], True),
            ([32, 16], [2], False),
            ([24, 24, 8], [2, 2], True),
            ([24, 24, 24], [2, 2], False),
            ([20, 12, 17, 15], [2, 2], True),
            ([], [], True),
        ],
    )
    def test_jobs_are_packed_into_blocks(
        self, hosts: list[int], blocks: list[int], fit: bool
    ) -> None:
        assert Queue(**{**vars(QUEUE), "blocks": blocks}).fit(hosts) is fit

    def test_a_namespace_has_a_limit(self) -> None:
        queue = Queue(**{**vars(QUEUE), "chips": {"llm": 64}})
        for manifest in (jobset(job(shape="4x4x8", count=1)), plain_job("4x4x8")):
            (flaw,) = flaws(manifest, queue)
            assert "takes 128 chips, namespace llm may have at most 64" in flaw.rule
        assert flaws(jobset(job(shape="4x4x4", count=1)), queue) == []


def test_a_plain_job_is_checked_like_a_jobset() -> None:
    assert flaws(plain_job(), QUEUE) == []
    spoilt = plain_job()
    spoilt["spec"]["parallelism"] = 3
    assert [each.path for each in flaws(spoilt, QUEUE)] == ["spec.parallelism"]


def test_an_accelerator_in_the_affinity_counts_as_selected() -> None:
    manifest = jobset(job())
    two_accelerators(manifest)
    terms = _pods(manifest)["affinity"]["nodeAffinity"]
    wanted = terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    wanted[0]["matchExpressions"][0]["values"] = ["tpu7x"]
    assert flaws(manifest, QUEUE) == []


class TestLeaderWorkerSets:
    """One partition a group, leader and worker alike, nothing above them."""

    def test_a_right_one_has_no_flaw(self) -> None:
        assert flaws(lws(), QUEUE) == []
        assert flaws(lws("2x2x1", 1), QUEUE) == []
        assert flaws(lws(leader=True), QUEUE) == []

    def test_it_is_no_larger_than_a_cube(self) -> None:
        (flaw,) = flaws(lws("4x4x8", 32), QUEUE)
        assert "must lie in one partition" in flaw.rule

    def test_its_size_is_the_hosts_of_its_shape(self) -> None:
        (flaw,) = flaws(lws("2x2x2", 4), QUEUE)
        assert (flaw.path, flaw.fix) == ("spec.leaderWorkerTemplate.size", "set 2")

    def test_a_group_of_one_has_no_leader_template(self) -> None:
        (flaw,) = flaws(lws("2x2x1", 1, leader=True), QUEUE)
        assert flaw.path == "spec.leaderWorkerTemplate.leaderTemplate"
        assert "never admitted" in flaw.rule

    def test_leader_and_worker_are_alike(self) -> None:
        manifest = lws(leader=True)
        leader = copy.deepcopy(manifest["spec"]["leaderWorkerTemplate"]["leaderTemplate"])
        manifest["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = leader
        leader["spec"]["tolerations"][0]["effect"] = "NoSchedule"
        leader["spec"]["nodeSelector"]["team"] = "a"
        (flaw,) = flaws(manifest, QUEUE)
        assert "nodeSelector differs from the worker's" in flaw.rule

    def test_nothing_preempts_it(self) -> None:
        manifest = lws()
        manifest["metadata"]["labels"][PRIORITY] = "high"
        (flaw,) = flaws(manifest, QUEUE)
        assert "never frees its Slice" in flaw.rule

    def test_several_replicas_are_a_warning(self) -> None:
        manifest = lws()
        manifest["spec"]["replicas"] = 2
        (flaw,) = flaws(manifest, QUEUE)
        assert flaw.severity == "warning"
        assert "stay taken" in flaw.rule

    @pytest.mark.parametrize(("kueue", "limit"), [("0.18.6", 51), ("0.17.4", 39)])
    def test_its_name_fits_kueues_label(self, kueue: str, limit: int) -> None:
        (releases,) = [each for each in RELEASE_SETS if each.kueue == kueue]
        queue = Queue(**{**vars(QUEUE), "releases": releases})
        manifest = lws()
        manifest["metadata"]["name"] = "n" * limit
        assert flaws(manifest, queue) == []
        manifest["metadata"]["name"] = "n" * (limit + 1)
        (flaw,) = flaws(manifest, queue)
        assert f"at most {limit} characters" in flaw.rule


def test_a_jobset_needs_a_job() -> None:
    manifest = jobset(job())
    manifest["spec"]["replicatedJobs"] = []
    (flaw,) = flaws(manifest, QUEUE)
    assert flaw.path == "spec.replicatedJobs"


def test_long_names_of_slices_are_known_to_be_cut() -> None:
    assert not slice_name_is_cut("llm", "train")
    assert slice_name_is_cut("llm-d-pd-disaggregation", "kueue-jobset-simple-subslicing")

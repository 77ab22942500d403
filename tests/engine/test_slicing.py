"""The slicing lab on the real engine: gates, queues, slices, preemption and an orderly end."""

import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from components import hooks
from simcloud.__main__ import show_slices
from simcloud.engine import OperationFailed, Sim
from simcloud.store import Call
from tests.support.engine import Steps, simulated
from tests.support.lab import FILE, lab_config

pytestmark = pytest.mark.engine

SLICE = "kubernetes:accelerator.gke.io/v1beta1:Slice"

lab = partial(simulated, name="lab", file=FILE)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts fit the simulated minutes."""
    monkeypatch.setattr(hooks, "FIRST_PAUSE", 0.005)
    monkeypatch.setattr(hooks, "LONGEST_PAUSE", 0.02)


def section(**fields: Any) -> dict[str, Any]:
    return {"queueing": {**lab_config()["tpuserve:queueing"], **fields}}


def slices(sim: Sim) -> dict[str, list[str]]:
    """Partitions of every slice by the workload that has it."""
    found: dict[str, list[str]] = {}
    for each in sim.cloud.resources(SLICE):
        owner = each.props["metadata"]["annotations"]["simcloud/owner"]
        found.setdefault(owner, []).extend(each.props["spec"]["partitionIds"])
    return found


def done(calls: list[Call], method: str, name: str) -> Call:
    (found,) = [
        each for each in calls if (each.method, each.name) == (method, name) and not each.error
    ]
    return found


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hooks, "FIRST_PAUSE", 0.005)
        patch.setattr(hooks, "LONGEST_PAUSE", 0.02)
        with lab(tmp_path_factory.mktemp("lab")) as sim:
            yield sim


REFUSED = "error(Internal error occurred: failed calling webhook: connection refused)*3"


@pytest.fixture(scope="module")
def planned(sim: Sim) -> Steps:
    """The preview of a stack that does not exist yet."""
    steps = Steps()
    sim.preview(on_event=steps)
    return steps


@pytest.fixture(scope="module")
def calls(sim: Sim, planned: Steps) -> list[Call]:
    """The first update: webhooks refuse three times, and cubes take four times as long."""
    assert planned.taken
    gates = [
        f"create {kind}@operators-{key}-gate={REFUSED}"
        for key, kind in (("kueue", "ResourceFlavor"), ("jobset", "JobSet"),
                          ("lws", "LeaderWorkerSet"))
    ]  # fmt: skip
    sim.cloud.set_faults("; ".join([*gates, "create NodePool@cubes-*=slow(4)*0"]))
    sim.up()
    return sim.cloud.log()


class TestLife:
    """In order: what follows destroys the stack at the end."""

    def test_a_fresh_preview_shows_every_object(
        self, sim: Sim, planned: Steps, calls: list[Call]
    ) -> None:
        assert calls
        shown = [name for operation, name in planned.taken if operation == "create"]
        made = [each["urn"].rsplit("::", 1)[1] for each in sim.export()["resources"]]
        assert sorted(shown) == sorted(made)
        assert {"queues-tpu-queue", "smoke-super-slice-jobset", "cubes-001"} <= set(made)

    def test_nothing_but_its_gate_is_sent_to_a_webhook_before_it_answers(
        self, calls: list[Call]
    ) -> None:
        refused = {each.name for each in calls if "failed calling webhook" in each.error}
        assert refused == {"operators-kueue-gate", "operators-jobset-gate", "operators-lws-gate"}
        for gate in refused:
            assert done(calls, "Create", gate)

    def test_what_needs_a_webhook_comes_after_its_gate(self, calls: list[Call]) -> None:
        gate = done(calls, "Create", "operators-kueue-gate")
        early = [
            each.name
            for each in calls
            if each.method == "Create"
            and each.name.startswith("queues-")
            and ":kueue.x-k8s.io/" in each.type
            and each.started < gate.ended
        ]
        assert early == []

    def test_queues_do_not_wait_for_cubes(self, sim: Sim, calls: list[Call]) -> None:
        finished = _finished(sim, _minutes(calls))
        assert finished["cubes-000"] > 30
        assert finished["queues-lab-local-queue"] < 20
        assert finished["smoke-sub-slices-jobset"] >= finished["cubes-000"]

    def test_queues_are_active_within_the_longest_chain_of_operators(
        self, sim: Sim, calls: list[Call]
    ) -> None:
        """In simulated minutes, from the system pool to Active, along what really waits."""
        minutes = _minutes(calls)
        finished = _finished(sim, minutes)
        took = finished["queues-lab-local-queue"] - finished["tpuserve-lab-system"]
        chain = [
            minutes[name]
            for name in (
                "operators-kueue",
                "slice-controller-manager",
                "queues-check",
                "queues-tpu-queue",
                "queues-lab-local-queue",
            )
        ]
        assert min(chain) > 0
        assert took <= 1.1 * sum(chain)

    def test_the_second_job_pushed_the_first_one_out(self, sim: Sim, calls: list[Call]) -> None:
        first = done(calls, "Create", "smoke-sub-slices-jobset")
        second = done(calls, "Create", "smoke-super-slice-jobset")
        assert first.ended <= second.started
        assert slices(sim) == {"lab/super-slice": ["cubes-000-4x4x4-0", "cubes-001-4x4x4-0"]}

    def test_the_demo_tells_what_the_cluster_did(
        self, sim: Sim, calls: list[Call], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert calls
        assert [tuple(each) for each in sim.cloud.slicing()] == [
            ("ClusterQueue tpu", "", "Active"),
            (
                "JobSet lab/sub-slices",
                "6 x 2x2x2",
                "slices formed, then pushed out by lab/super-slice",
            ),
            ("JobSet lab/super-slice", "1 x 4x4x8", "1 slice ACTIVE on cubes-000, cubes-001"),
        ]
        show_slices(sim)
        shown = " ".join(re.sub(r"[^\w .,:/-]", " ", capsys.readouterr().out).split())
        for words in ("ClusterQueue tpu Active", "lab/sub-slices 6 x 2x2x2", "pushed out by"):
            assert words in shown

    def test_the_outputs_say_what_a_slice_is_and_how_to_ask(
        self, sim: Sim, calls: list[Call]
    ) -> None:
        assert calls
        outputs = {key: each.value for key, each in sim.outputs().items()}
        assert outputs["slices"]["2x2x2"] == {
            "pods": 2,
            "chips": 8,
            "devices": 16,
            "partition": "2x2x2",
            "partitions": 1,
            "atMost": 16,
        }
        assert outputs["slices"]["4x4x8"]["devices"] == 256
        assert outputs["queues"]["label"] == "kueue.x-k8s.io/queue-name: tpu"
        assert outputs["queues"]["clusterQueues"] == {"tpu": {"namespaces": ["lab"], "chips": 128}}

    def test_a_second_run_changes_nothing(self, sim: Sim, calls: list[Call]) -> None:
        assert calls
        steps = Steps()
        sim.preview(on_event=steps)
        assert steps.taken
        assert steps.changes == []
        assert set(sim.up().summary.resource_changes or {}) == {"same"}
        assert set(sim.refresh().summary.resource_changes or {}) == {"same"}

    def test_other_chips_update_the_quota_and_nothing_else(self, sim: Sim) -> None:
        pools = lab_config()["tpuserve:tpuPools"]
        sim.set_config({"tpuPools": {"cubes": {**pools["cubes"], "cubes": 3}}})
        steps = Steps()
        sim.preview(on_event=steps)
        sim.set_config({"tpuPools": pools})
        assert sorted(steps.changes) == [
            ("create", "cubes-002"),
            ("update", "queues-tpu-queue"),
        ]

    def test_other_versions_move_the_definition_first_and_ask_the_gates_again(
        self, sim: Sim
    ) -> None:
        sim.set_config(section(releases={"kueue": "0.17.4", "jobset": "0.11.1", "lws": "0.8.0"}))
        before = len(sim.cloud.log())
        steps = Steps()
        sim.up(on_event=steps)
        assert sorted(steps.changes) == [
            ("update", "operators-jobset"),
            ("update", "operators-jobset-gate"),
            ("update", "operators-jobsets.jobset.x-k8s.io"),
            ("update", "operators-kueue"),
            ("update", "operators-kueue-gate"),
        ]
        calls = sim.cloud.log()[before:]
        definition, release, gate = (
            done(calls, "Update", name)
            for name in (
                "operators-jobsets.jobset.x-k8s.io",
                "operators-jobset",
                "operators-jobset-gate",
            )
        )
        assert definition.ended <= release.started
        assert release.ended <= gate.started
        sim.set_config(section())
        sim.up()

    def test_another_shape_moves_the_queue_over_and_stops_nothing(self, sim: Sim) -> None:
        sim.set_config(section(shapes=["2x2x2", "4x4x8"]))
        before, running = len(sim.cloud.log()), slices(sim)
        steps = Steps()
        sim.up(on_event=steps)
        touched = {name for _, name in steps.changes}
        assert touched == {"queues-topology", "queues-slices-flavor", "queues-tpu-queue"}
        calls = sim.cloud.log()[before:]
        order = [
            ("Create", "queues-topology"),
            ("Create", "queues-slices-flavor"),
            ("Update", "queues-tpu-queue"),
            ("Delete", "queues-slices-flavor"),
            ("Delete", "queues-topology"),
        ]
        taken = [done(calls, method, name) for method, name in order]
        assert [
            (one.name, other.name)
            for one, other in itertools.pairwise(taken)
            if one.ended > other.started
        ] == []
        assert slices(sim) == running

    def test_destroy_leaves_nothing_in_the_right_order(self, sim: Sim) -> None:
        before = len(sim.cloud.log())
        sim.destroy()
        calls = sim.cloud.log()[before:]
        order = [
            ["smoke-super-slice-jobset"],
            ["queues-lab-local-queue"],
            ["queues-tpu-queue"],
            ["queues-slices-flavor", "queues-check"],
            ["queues-topology"],
            ["operators-kueue"],
        ]
        wrong = [
            (one, other)
            for first, second in itertools.pairwise(order)
            for one in first
            for other in second
            if done(calls, "Delete", one).ended > done(calls, "Delete", other).started
        ]
        assert wrong == []
        for late in ("slice-controller-manager", "operators-kueue", "cubes-000", "cubes-001"):
            last = "queues-check" if "controller" in late else "smoke-super-slice-jobset"
            started = done(calls, "Delete", late).started
            assert done(calls, "Delete", last).ended <= started, late
        left = {each.type for each in sim.cloud.resources()}
        assert left <= {"gcp:compute/previewFeature:PreviewFeature"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the lab in its cloud, for copies."""
    root = tmp_path_factory.mktemp("made")
    with lab(root) as sim:
        sim.up()
    return root


class TestTrouble:
    def test_a_webhook_that_never_answers_ends_the_update_with_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hooks, "PATIENCE_SECONDS", 0.05)
        with lab(tmp_path) as sim:
            sim.cloud.set_faults(
                'create LeaderWorkerSet=error(failed calling webhook "mlws": refused)*0'
            )
            with pytest.raises(OperationFailed) as failed:
                sim.up()
            said = str(failed.value)
            assert "the webhook for LeaderWorkerSets (lws-system) did not answer" in said
            assert "kubectl -n lws-system get pods,endpointslices" in said
            sim.cloud.set_faults("")
            sim.up()
            assert slices(sim)
            sim.destroy()

    def test_a_check_that_nobody_answers_says_where_to_look(self, tmp_path: Path) -> None:
        with lab(tmp_path) as sim:
            sim.cloud.set_faults(
                "create AdmissionCheck=partial(AdmissionCheck timed out waiting for condition)"
            )
            with pytest.raises(OperationFailed) as failed:
                sim.up()
            assert "admission check slices: is not Active after 300 s" in str(failed.value)
            assert "kubectl describe admissioncheck slices" in str(failed.value)
            # The check is kept and repaired by the next run.
            sim.cloud.set_faults("")
            sim.up()
            steps = Steps()
            sim.preview(on_event=steps)
            assert steps.changes == []

    def test_a_slice_that_fails_to_form_is_tried_again(self, tmp_path: Path) -> None:
        with lab(tmp_path) as sim:
            sim.cloud.set_faults("create Slice@lab-super-slice*=error")
            sim.up()
            assert list(slices(sim)) == ["lab/super-slice"]

    def test_chips_that_are_held_stop_a_job_and_the_update_says_which(self, tmp_path: Path) -> None:
        with lab(tmp_path) as sim:
            sim.cloud.set_faults("create Slice@lab-super-slice*=error*0")
            with pytest.raises(OperationFailed) as failed:
                sim.up()
            assert "JobSet lab/super-slice: was not admitted within 600 s" in str(failed.value)
            assert "kubectl -n lab get workloads,jobsets,pods" in str(failed.value)

    def test_a_slice_that_does_not_go_is_named_and_keeps_its_cubes(
        self, made: Path, tmp_path: Path
    ) -> None:
        with lab(copytree(made, tmp_path / "lab")) as sim:
            sim.cloud.set_faults("delete Slice@lab-super-slice*=error*0")
            with pytest.raises(OperationFailed) as failed:
                sim.destroy(run_program=True)
            said = str(failed.value)
            assert "Slice lab-super-slice-0" in said
            assert "accelerator.gke.io/slice-finalizer" in said
            assert "kubectl get slices" in said
            assert "Finalizers are never removed here" in said
            assert list(slices(sim)) == ["lab/super-slice"]
            names = {each.name for each in sim.cloud.resources("gcp:container/nodePool:NodePool")}
            assert {"cubes-000", "cubes-001"} <= names
            assert sim.cloud.count("kubernetes:kueue.x-k8s.io/v1beta2:Topology") == 1

    def test_without_the_program_the_provider_still_names_it(
        self, made: Path, tmp_path: Path
    ) -> None:
        with lab(copytree(made, tmp_path / "lab")) as sim:
            sim.cloud.set_faults("delete Slice@lab-super-slice*=error*0")
            with pytest.raises(OperationFailed, match="Slice lab-super-slice-0 is DEACTIVATING"):
                sim.destroy()

    def test_jobs_the_stack_does_not_know_are_sent_back_first(self, tmp_path: Path) -> None:
        """The end of docs/run-a-job.md: somebody's JobSet, HoldAndDrain, up, destroy."""
        train = {
            "namespace": "lab",
            "image": "example/train:1.0.0",
            "command": ["train"],
            "shape": "2x2x2",
            "priority": "low",
        }
        with lab(tmp_path, config=section(smoke=None, jobs={"train": train})) as sim:
            sim.up()
            _forget(sim, "train")
            sim.set_config(section(smoke=None, stop="HoldAndDrain"))
            # Left in its queue until now: the update did not wait for it.
            assert list(slices(sim)) == ["lab/train"]
            steps = Steps()
            sim.up(on_event=steps)
            assert ("update", "queues-tpu-queue") in steps.changes
            assert slices(sim) == {}
            sim.destroy(run_program=True)
            left = {each.type for each in sim.cloud.resources()}
            assert left <= {"gcp:compute/previewFeature:PreviewFeature"}

    def test_jobs_the_stack_does_not_know_keep_queue_and_cubes(
        self, made: Path, tmp_path: Path
    ) -> None:
        """Somebody's own JobSet in the queue, sent with kubectl."""
        with lab(copytree(made, tmp_path / "lab")) as sim:
            _forget(sim, "smoke")
            with pytest.raises(OperationFailed) as failed:
                sim.destroy(continue_on_error=True)
            said = str(failed.value)
            assert "already being used by 'lab-super-slice-0'" in said
            assert "'tpu' timed out waiting to be deleted" in said
            assert "kueue.x-k8s.io/resource-in-use" in said
            assert list(slices(sim)) == ["lab/super-slice"]


def _minutes(calls: list[Call]) -> dict[str, float]:
    """Simulated minutes each creation took."""
    return {each.name: each.minutes for each in calls if each.method == "Create"}


def _finished(sim: Sim, minutes: dict[str, float]) -> dict[str, float]:
    """When each resource is ready, if it starts once all it depends on are."""
    resources = {each["urn"]: each for each in sim.export()["resources"]}
    children: dict[str, list[str]] = {}
    for urn, each in resources.items():
        children.setdefault(each.get("parent", ""), []).append(urn)
    known: dict[str, float] = {}

    def end(urn: str) -> float:
        if urn not in known:
            each = resources[urn]
            needs = each.get("dependencies") or []
            if not each.get("custom"):
                needs = children.get(urn, [])
            start = max(map(end, needs), default=0.0)
            known[urn] = start + minutes.get(urn.rsplit("::", 1)[1], 0.0)
        return known[urn]

    return {urn.rsplit("::", 1)[1]: end(urn) for urn in resources}


def _forget(sim: Sim, word: str) -> None:
    """Take resources out of the state and leave them in the cloud."""
    exported = sim.stack.export_stack()
    state = dict(exported.deployment or {})
    gone = {each["urn"] for each in state["resources"] if f"::{word}" in each["urn"]}
    assert gone
    state["resources"] = [each for each in state["resources"] if each["urn"] not in gone]
    exported.deployment = state
    sim.stack.import_stack(exported)

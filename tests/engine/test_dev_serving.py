"""The dev stack serves a model: what overlaps, what waits, what an edit does, what stays secret."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi import automation as auto

from simcloud.engine import OperationFailed, Sim
from simcloud.store import Call
from tests.support.dev import TOKEN
from tests.support.engine import Steps, simulated
from tests.support.files import ROOT, stack_config

pytestmark = pytest.mark.engine

AUTOPILOT = ROOT / "examples" / "autopilot" / "Pulumi.autopilot.yaml"
SECRET = "4dabf18193072939515e22adb298388d"
"""How Pulumi marks an encrypted value in a state."""
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def _serving(**fields: Any) -> dict[str, Any]:
    """The section with fields of the served model changed."""
    return {"llama": {**stack_config("dev")["tpuserve:serving"]["llama"], **fields}}


def _created(sim: Sim, after: int = 0) -> dict[str, Call]:
    """Creations that went well, by logical name."""
    calls = sim.cloud.log()[after:]
    return {each.name: each for each in calls if each.method == "Create" and not each.error}


@contextmanager
def _changed(sim: Sim, config: Mapping[str, Any]) -> Iterator[Steps]:
    """What a preview would do with some sections changed; they are put back."""
    sim.set_config(config)
    steps = Steps()
    try:
        sim.preview(on_event=steps)
        yield steps
    finally:
        shipped = stack_config("dev")
        sim.set_config({key: shipped.get(f"tpuserve:{key}") for key in config})


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    """The shipped stack, whose TPU nodes took long to come."""
    with simulated(tmp_path_factory.mktemp("dev"), "dev", scale=0.05) as sim:
        sim.cloud.set_faults("create NodePool@trillium-pool=slow(12)")
        sim.up(parallel=64)
        yield sim


class TestOrder:
    """Weights are there when the TPU node is."""

    def test_staging_runs_while_the_tpu_pool_is_made(self, dev: Sim) -> None:
        calls = _created(dev)
        staging, pool = calls["staging-llama"], calls["trillium-pool"]
        assert pool.started < staging.started
        assert staging.ended < pool.ended

    def test_staging_starts_with_the_first_node_that_can_run_it(self, dev: Sim) -> None:
        calls = _created(dev)
        staging = calls["staging-llama"]
        assert calls["tpuserve-dev-system"].ended <= staging.started
        between = [
            each.name
            for each in calls.values()
            if calls["tpuserve-dev-system"].ended <= each.started < staging.started
            and each.minutes > 0.1
        ]
        assert between == []

    def test_the_server_starts_with_the_last_of_node_and_weights(self, dev: Sim) -> None:
        calls = _created(dev)
        server = calls["llama-server"]
        assert server.started >= max(calls[n].ended for n in ("staging-llama", "trillium-pool"))

    def test_the_autoscaler_comes_after_the_first_replica(self, dev: Sim) -> None:
        calls = _created(dev)
        assert calls["llama-scale"].started >= calls["llama-server"].ended


class TestChange:
    """What an edit of the stack file does, and what it leaves alone."""

    def test_another_revision_is_staged_beside_the_old_one(self, dev: Sim) -> None:
        with _changed(dev, {"serving": _serving(revision="0" * 40)}) as steps:
            assert set(steps.changes) == {
                ("create-replacement", "staging-llama"),
                ("replace", "staging-llama"),
                ("delete-replaced", "staging-llama"),
                ("update", "llama-server"),
            }
            order = [name for operation, name in steps.taken if operation != "same"]
            assert order.index("staging-llama") < order.index("llama-server")

    def test_more_replicas_touch_the_autoscaler_and_the_pool_alone(self, dev: Sim) -> None:
        pools = stack_config("dev")["tpuserve:tpuPools"]
        pools["trillium"] = {**pools["trillium"], "slices": {"min": 1, "max": 3}}
        config = {"serving": _serving(replicas={"min": 1, "max": 3}), "tpuPools": pools}
        with _changed(dev, config) as steps:
            assert ("update", "llama-scale") in steps.changes
            assert ("update", "trillium-pool") in steps.changes
            others = {name for _, name in steps.changes} - {"llama-scale", "trillium-pool"}
            assert others <= {"llama-server"}  # whose patience grows with the replicas
            assert [o for o, _ in steps.changes if "replace" in o or "delete" in o] == []

    def test_a_load_balancer_is_added_without_touching_the_server(self, dev: Sim) -> None:
        with _changed(dev, {"serving": _serving(exposure={"kind": "internal"})}) as steps:
            assert ("create", "llama-gateway") in steps.changes
            assert "llama-server" not in {name for _, name in steps.changes}
            assert [o for o, _ in steps.changes if o not in ("create", "update")] == []

    def test_a_live_count_of_replicas_is_left_to_the_autoscaler(self, dev: Sim) -> None:
        dev.cloud.drift(DEPLOYMENT, "llama", "spec.replicas", 2)
        steps = Steps()
        dev.refresh()
        dev.preview(on_event=steps)
        assert "llama-server" not in {name for _, name in steps.changes}


def test_a_failed_copy_starts_no_server_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with simulated(tmp_path, "dev") as sim:
        sim.cloud.set_faults("create Job=partial")
        with pytest.raises(OperationFailed, match="staging-llama"):
            sim.up()
        assert sim.cloud.count(DEPLOYMENT) == 0
        assert sim.cloud.count("gcp:container/nodePool:NodePool") == 2
        sim.cloud.set_faults("")
        before = len(sim.cloud.log())
        sim.up()
        assert "llama-server" in _created(sim, before)
        assert "trillium-pool" not in _created(sim, before)


def test_the_token_is_nowhere_in_clear(tmp_path: Path) -> None:
    """Not in state, outputs, events, output text, or any file of engine and cloud."""
    heard: list[str] = []

    def listen(event: Any) -> None:
        heard.append(json.dumps(event.to_json()) if hasattr(event, "to_json") else repr(event))

    config = {"storage": None, "huggingFaceToken": auto.ConfigValue(TOKEN, secret=True)}
    with simulated(tmp_path, "dev", config) as sim:
        sim.preview(on_event=listen, on_output=heard.append, diff=True)
        sim.up(on_event=listen, on_output=heard.append, show_secrets=False)
        assert sim.cloud.count("gcp:secretmanager/secretVersion:SecretVersion") == 1
        assert len(heard) > 100
        assert [text for text in heard if TOKEN in text] == []
        values = {key: output.value for key, output in sim.outputs().items()}
        assert TOKEN not in json.dumps(values)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    (state,) = [path for path in files if path.match("state/.pulumi/stacks/**/dev.json")]
    versions = [
        each
        for each in json.loads(state.read_text())["checkpoint"]["latest"]["resources"]
        if each["type"].endswith(":SecretVersion")
    ]
    assert [sorted(each["inputs"]["secretData"]) for each in versions] == [[SECRET, "ciphertext"]]
    assert [str(path) for path in files if TOKEN.encode() in path.read_bytes()] == []


def test_a_token_in_plain_text_stops_the_program_and_is_not_repeated(tmp_path: Path) -> None:
    token = "hf_" + "plain" * 6
    with simulated(tmp_path, "dev", {"storage": None, "huggingFaceToken": token}) as sim:
        with pytest.raises(OperationFailed, match="stands in plain text") as failed:
            sim.preview()
        assert token not in str(failed.value)
        assert [each for each in sim.cloud.log() if each.urn] == []


@pytest.fixture(scope="module")
def autopilot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    root = tmp_path_factory.mktemp("autopilot")
    with simulated(root, "autopilot", file=AUTOPILOT) as sim:
        yield sim


class TestAutopilot:
    """The example's stack file, through its life."""

    def test_it_differs_from_dev_in_what_makes_nodes_alone(self) -> None:
        example = yaml.safe_load(AUTOPILOT.read_text())["config"]
        shipped = stack_config("dev")
        differing = {key for key in {*example, *shipped} if example.get(key) != shipped.get(key)}
        assert differing == {"tpuserve:cluster", "tpuserve:tpuPools"}

    def test_it_comes_up_as_previewed_and_stays(self, autopilot: Sim) -> None:
        previewed = dict(autopilot.preview().change_summary)
        up = dict(autopilot.up().summary.resource_changes or {})
        assert previewed == up
        steps = Steps()
        autopilot.preview(on_event=steps)
        assert steps.changes == []
        assert set(autopilot.refresh().summary.resource_changes or {}) == {"same"}

    def test_the_cluster_makes_the_nodes(self, autopilot: Sim) -> None:
        assert autopilot.cloud.count("gcp:container/nodePool:NodePool") == 0
        cluster = autopilot.cloud.find("gcp:container/cluster:Cluster", "tpuserve-autopilot").props
        assert cluster["enableAutopilot"] is True
        (server,) = autopilot.cloud.resources(DEPLOYMENT)
        selector = server.props["spec"]["template"]["spec"]["nodeSelector"]
        assert selector["cloud.google.com/gke-tpu-topology"] == "2x4"
        assert "cloud.google.com/gke-nodepool" not in selector

    def test_destroy_leaves_nothing(self, autopilot: Sim) -> None:
        autopilot.destroy()
        assert autopilot.cloud.count() == 0

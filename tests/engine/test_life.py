"""Both shipped stacks through their life: preview, up, nothing left to do, destroy."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simcloud.engine import OperationFailed, Sim
from tests.support.engine import Steps, simulated
from tests.support.files import stack_config
from tests.support.recorder import record

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module", params=["dev", "prod"])
def sim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with simulated(tmp_path_factory.mktemp(request.param), request.param) as sim:
        yield sim


@pytest.fixture(scope="module")
def previewed(sim: Sim) -> dict[str, int]:
    return dict(sim.preview().change_summary)


@pytest.fixture(scope="module")
def up(sim: Sim, previewed: dict[str, int]) -> dict[str, int]:
    assert previewed
    return dict(sim.up().summary.resource_changes or {})


def test_an_update_does_what_the_preview_said(
    previewed: dict[str, int], up: dict[str, int]
) -> None:
    assert previewed == up
    assert set(up) == {"create"}


def test_the_engine_registers_what_the_recorder_records(sim: Sim, up: dict[str, int]) -> None:
    graph = record(stack_config(sim.stack_name), stack=sim.stack_name)
    assert up["create"] == len(graph.resources) + 1  # the stack itself


@pytest.mark.usefixtures("up")
class TestAfterUp:
    """In order: what follows destroys the stack at the end."""

    def test_a_second_preview_has_nothing_to_do(self, sim: Sim) -> None:
        steps = Steps()
        sim.preview(on_event=steps)
        assert steps.taken
        assert steps.changes == []

    def test_a_refresh_finds_nothing(self, sim: Sim) -> None:
        changes = dict(sim.refresh().summary.resource_changes or {})
        assert set(changes) == {"same"}

    def test_the_outputs_are_typed_and_hold_no_secret(self, sim: Sim) -> None:
        outputs = sim.outputs()
        assert [key for key, output in outputs.items() if output.secret] == []
        values: dict[str, Any] = {key: output.value for key, output in outputs.items()}
        name = f"tpuserve-{sim.stack_name}"
        assert values["cluster"]["name"] == name
        assert values["cluster"]["credentials"].startswith(
            f"gcloud container clusters get-credentials {name} --location=us-central1"
        )
        assert values["versions"]["gke"] == "1.36.0-gke.3712000"
        pools = {
            key: (pool["hosts"], pool["chips"], pool["devices"])
            for key, pool in values["tpuPools"].items()
        }
        expected = {"dev": {"trillium": (2, 16, 16)}, "prod": {"cubes": (32, 128, 256)}}
        assert pools == expected[sim.stack_name]

    def test_the_state_holds_no_credential(self, sim: Sim) -> None:
        text = json.dumps(sim.export())
        assert "cluster_id" in text
        found = [word for word in ("BEGIN PRIVATE KEY", "client-key", "hf_") if word in text]
        assert found == []

    def test_destroy_leaves_nothing_and_respects_protection(self, sim: Sim) -> None:
        if stack_config(sim.stack_name).get("tpuserve:protect"):
            with pytest.raises(OperationFailed, match="protected"):
                sim.destroy()
            assert sim.cloud.count() > 0
            sim.set_config({"protect": False})
            changed = dict(sim.up().summary.resource_changes or {})
            # Deletion protection is the cluster's own; buckets may be emptied from now on.
            assert changed["update"] == 3
        sim.destroy()
        left = {each.type for each in sim.cloud.resources()}
        # Google offers no way to switch a preview feature off again; the provider forgets it.
        assert left <= {"gcp:compute/previewFeature:PreviewFeature"}


def test_a_wrong_stack_file_stops_before_any_resource(tmp_path: Path) -> None:
    location = stack_config("dev")["tpuserve:location"]
    wrong = {"tpuserve:location": {**location, "zone": "us-east5-a"}, "tpuserve:tpuPool": {}}
    with simulated(tmp_path, "dev", wrong) as sim:
        with pytest.raises(OperationFailed, match="has 2 errors") as failed:
            sim.preview()
        calls = [each for each in sim.cloud.log() if each.urn]
    assert "lies in region us-east5" in str(failed.value)
    assert calls == []

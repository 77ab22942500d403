"""Both shipped stacks through their life: preview, up, nothing left to do, destroy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi import automation as auto

from simcloud.engine import OperationFailed, Sim
from tests.support.dev import TOKEN, TOKEN_KEY
from tests.support.engine import Steps, simulated
from tests.support.files import stack_config
from tests.support.recorder import record

pytestmark = pytest.mark.engine


def _storage(stack: str) -> dict[str, Any]:
    """The stack's own, with the token in place of a secret that somebody else keeps."""
    shipped = stack_config(stack).get("tpuserve:storage", {})
    return {key: value for key, value in shipped.items() if key != "huggingFaceSecret"}


@pytest.fixture(scope="module", params=["dev", "prod"])
def sim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    token = auto.ConfigValue(TOKEN, secret=True)
    config = {"storage": _storage(request.param), "huggingFaceToken": token}
    with simulated(tmp_path_factory.mktemp(request.param), request.param, config) as sim:
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
    storage = {"tpuserve:storage": _storage(sim.stack_name)}
    config = {**stack_config(sim.stack_name), **storage, TOKEN_KEY: TOKEN}
    graph = record(config, stack=sim.stack_name, secrets=[TOKEN_KEY])
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

    def test_the_token_is_in_no_file_in_clear(self, sim: Sim) -> None:
        assert sim.cloud.count("gcp:secretmanager/secretVersion:SecretVersion") == 1
        files = [path for path in sim.root.rglob("*") if path.is_file()]
        states = [path for path in files if path.match(f"**/stacks/**/{sim.stack_name}.json")]
        assert ["SecretVersion" in path.read_text() for path in states] == [True]
        assert [str(path) for path in files if TOKEN.encode() in path.read_bytes()] == []
        assert TOKEN not in str(sim.outputs())

    def test_destroy_leaves_nothing_and_respects_protection(self, sim: Sim) -> None:
        if stack_config(sim.stack_name).get("tpuserve:protect"):
            with pytest.raises(OperationFailed, match="protected"):
                sim.destroy()
            assert sim.cloud.count() > 0
            sim.set_config({"protect": False})
            changed = dict(sim.up().summary.resource_changes or {})
            # The cluster and the token protect themselves; buckets may be emptied from now on.
            assert changed["update"] == 4
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
    assert str(failed.value).count("lies in region us-east5") == 1
    assert calls == []

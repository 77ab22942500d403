"""Failures midway: what was made is kept, the next `up` finishes, nothing is made twice."""

import shlex
from functools import partial
from pathlib import Path

import pytest

from simcloud.engine import OperationFailed, Sim
from tests.support import engine
from tests.support.engine import Steps
from tests.support.files import ROOT

pytestmark = pytest.mark.engine

simulated = partial(engine.simulated, checkpoints=True)

FAULTS = {
    "quota": "create NodePool@cubes-001=quota",
    "stockout": "create NodePool@cubes-000=stockout",
    "conflict": "create Cluster=conflict",
    "denied": "create IAMMember#2=denied",
}


def _complete(sim: Sim) -> None:
    """Finish the deployment, and see that it is whole and single."""
    sim.up()
    names = [(each.type, each.name) for each in sim.cloud.resources()]
    assert len(names) == len(set(names))
    assert [name for kind, name in sorted(names) if kind.endswith(":NodePool")] == [
        "cubes-000",
        "cubes-001",
        "system",
    ]
    steps = Steps()
    sim.preview(on_event=steps)
    assert steps.taken
    assert steps.changes == []


@pytest.mark.parametrize("kind", FAULTS)
def test_the_next_update_finishes_after_an_error(tmp_path: Path, kind: str) -> None:
    with simulated(tmp_path, "bare-prod") as sim:
        sim.cloud.set_faults(FAULTS[kind])
        with pytest.raises(OperationFailed, match="googleapi: Error"):
            sim.up()
        made = sim.cloud.count()
        assert made > 5
        sim.cloud.set_faults("")
        _complete(sim)
        assert sim.cloud.count() > made


def test_a_killed_engine_is_picked_up_again(tmp_path: Path) -> None:
    with simulated(tmp_path, "bare-prod") as sim:
        sim.cloud.set_faults("create Cluster=crash-before")
        with pytest.raises(OperationFailed, match="killed"):
            sim.up()
    with simulated(tmp_path, "bare-prod") as sim:
        sim.cloud.set_faults("")
        sim.cancel()
        _complete(sim)


def _import_command() -> list[str]:
    """The arguments of the guide's `pulumi import`."""
    text = (ROOT / "docs" / "recover.md").read_text().replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if line.startswith("pulumi import ")]
    return shlex.split(line)[2:]


def test_a_pool_its_engine_did_not_live_to_see_is_imported_as_the_guide_says(
    tmp_path: Path,
) -> None:
    with simulated(tmp_path, "bare-dev") as sim:
        sim.cloud.set_faults("create NodePool@trillium-pool=crash")
        with pytest.raises(OperationFailed, match="killed"):
            # One at a time: no other object is lost from the state with it.
            sim.up(parallel=1)
    with simulated(tmp_path, "bare-dev") as sim:
        sim.cloud.set_faults("")
        pool = sim.cloud.find("gcp:container/nodePool:NodePool", "trillium")
        sim.cancel()
        with pytest.raises(OperationFailed, match=r"Error 409.*trillium' already exists"):
            sim.up(continue_on_error=True)
        assert set(sim.refresh().summary.resource_changes or {}) == {"same"}
        sim.import_object(*_import_command())
        steps = Steps()
        sim.up(on_event=steps)
        assert steps.changes == [("update", "trillium-pool")]
        assert steps.reasons["trillium-pool"] == ["deletionPolicy"]
        assert sim.cloud.find(pool.type, pool.name).serial == pool.serial
        assert [each["type"] for each in sim.export()["pending_operations"]] == ["creating"]
        assert set(sim.refresh(clear_pending_creates=True).summary.resource_changes or {}) == {
            "same"
        }
        assert not sim.export().get("pending_operations")
        again = Steps()
        sim.preview(on_event=again)
        assert again.taken
        assert again.changes == []
        sim.destroy()
        assert sim.cloud.resources() == []


def test_a_network_in_use_is_not_lost_by_a_failed_destroy(tmp_path: Path) -> None:
    with simulated(tmp_path, "bare-dev") as sim:
        sim.up()
        sim.cloud.set_faults("delete Network=in-use")
        with pytest.raises(OperationFailed, match="already being used"):
            sim.destroy()
        assert sim.cloud.count("gcp:compute/network:Network") == 1
        sim.cloud.set_faults("")
        sim.destroy()
        assert sim.cloud.resources() == []

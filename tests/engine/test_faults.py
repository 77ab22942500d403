"""Failures midway: what was made is kept, the next `up` finishes, nothing is made twice."""

from pathlib import Path

import pytest

from simcloud.engine import OperationFailed, Sim
from tests.support.engine import Steps, simulated

pytestmark = pytest.mark.engine

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

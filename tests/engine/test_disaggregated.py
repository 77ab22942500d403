"""The prod stack's model on the real engine: up, verified from its outputs, grown, shrunk, gone."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.verify import Options, endpoints_of, verify
from ops.verify.evidence import Status
from tests.ops.test_verify_groups import KUBECTL, Silent, cluster
from tests.support.engine import Steps, simulated
from tests.support.files import stack_config
from tests.support.split_servers import ENGINE, FRONT, GATEWAY, serve
from tests.support.variants import changed

pytestmark = pytest.mark.engine

DECODE = "tpuserve:serving.qwen.decode.replicas"
SPARE = "tpuserve:serving.qwen.spareSlices"
LENGTH = "tpuserve:serving.qwen.maxModelLen"
GROUPS = [
    f"qwen-{role}-{index}-lws"
    for role, count in (("prefill", 2), ("decode", 4))
    for index in range(count)
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("split")


@pytest.fixture(scope="module")
def outputs(root: Path) -> Iterator[dict[str, Any]]:
    with simulated(root, "prod") as sim:
        sim.up()
        yield {name: each.value for name, each in sim.outputs().items()}


def grown(root: Path, decode: int) -> Steps:
    return _steps(root, {DECODE: decode})


def _steps(root: Path, changes: dict[str, Any]) -> Steps:
    steps = Steps()
    config = changed(stack_config("prod"), changes)
    with simulated(root, "prod", config) as sim:
        sim.up(on_event=steps)
    return steps


@pytest.mark.usefixtures("outputs")
class TestLife:
    """In order: each starts where the one before ended."""

    def test_the_outputs_are_what_verify_needs(
        self, outputs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (found,) = endpoints_of(outputs)
        assert found.groups is not None
        assert found.groups.engine_ports == {"prefill": FRONT, "decode": ENGINE}
        assert outputs["verify"].endswith("--accuracy")
        table, program = tmp_path / "table.json", tmp_path / "kubectl"
        program.write_text(KUBECTL.format(python=sys.executable, table=str(table)))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}")
        with serve(prefill=found.groups.prefill, decode=found.groups.decode) as site:
            table.write_text(json.dumps(cluster(site)))
            here = found.model_copy(update={"url": site.url, "address": GATEWAY})
            evidence = verify(
                [here], options=Options(direct=True, wait=5, timeout=20), reporter=Silent()
            )
        checks = {each.name: each.status for each in evidence.endpoints[0].checks}
        assert set(checks.values()) == {Status.PASSED}
        assert checks["accuracy"] is Status.PASSED

    def test_one_more_group_is_one_more_object(self, root: Path) -> None:
        made = [each for each in grown(root, 5).changes if "qwen" in each[1]]
        assert made == [("create", "qwen-decode-4"), ("create", "qwen-decode-4-lws")]

    def test_fewer_groups_take_whole_objects_away(self, root: Path) -> None:
        gone = [each for each in grown(root, 3).changes if "qwen" in each[1]]
        assert {operation for operation, _ in gone} == {"delete"}
        assert {name for _, name in gone} == {
            f"qwen-decode-{index}{end}" for index in (3, 4) for end in ("", "-lws")
        }

    def test_without_spare_slices_another_flag_changes_objects_where_they_are(
        self, root: Path
    ) -> None:
        steps = _steps(root, {DECODE: 3, LENGTH: 16384})
        changes = {each for each in steps.changes if each[1].endswith("-lws")}
        assert changes == {("update", name) for name in GROUPS[:-1]}

    def test_with_spare_slices_new_groups_serve_before_old_ones_end(self, root: Path) -> None:
        spare = {SPARE: 6, LENGTH: 16384}
        _steps(root, spare)
        steps = _steps(root, {**spare, LENGTH: 8192})
        taken = [each for each in steps.taken if each[1] in GROUPS]
        made = [taken.index(("create-replacement", name)) for name in GROUPS]
        ended = [taken.index(("delete-replaced", name)) for name in GROUPS]
        assert max(made) < min(ended)
        assert {reason for name in GROUPS for reason in steps.reasons[name]} >= {"metadata.name"}
        assert not any(operation == "update" for operation, _ in taken)

    def test_destroy_takes_groups_before_anything_they_stand_on(self, root: Path) -> None:
        steps = Steps()
        unlocked = changed(stack_config("prod"), {"tpuserve:protect": False})
        with simulated(root, "prod", unlocked) as sim:
            sim.up()
            sim.destroy(on_event=steps)
        order = [name for operation, name in steps.taken if operation == "delete"]
        groups = [name for name in order if name.startswith("qwen-") and name.endswith("-lws")]
        last = max(order.index(name) for name in groups)
        beneath = ("cubes-000", "cubes-001", "queues-tpu-queue", "qwen-router", "qwen-gateway")
        assert len(groups) == 6
        assert [name for name in beneath if order.index(name) < last] == []

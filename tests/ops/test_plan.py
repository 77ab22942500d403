"""The plan shows every slice that a stack asks for, whole, and what else could be formed."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ops.plan import app
from tests.support.files import stack_config
from tests.support.lab import lab_config
from tests.support.variants import changed

JOB = {
    "namespace": "llm",
    "image": "example/train:1.0.0",
    "command": ["train"],
    "shape": "2x2x2",
    "count": 3,
    "priority": "low",
}


def told(folder: Path, config: dict[str, Any], **changes: Any) -> str:
    """What the command prints of a changed stack file, words apart by single spaces."""
    file = folder / "Pulumi.plan.yaml"
    file.write_text(yaml.safe_dump({"config": changed(config, changes)}))
    done = CliRunner().invoke(app, ["--stack", str(file)])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def prod(folder: Path, **changes: Any) -> str:
    return told(folder, stack_config("prod"), **changes)


def test_models_spare_slices_and_jobs_are_packed_together(tmp_path: Path) -> None:
    plan = prod(
        tmp_path,
        **{"tpuserve:serving.qwen.spareSlices": 6, "tpuserve:queueing.jobs": {"train": JOB}},
    )
    cube = (
        "3 x 2x2x2 job train, 2 x 2x2x1 qwen prefill, 4 x 2x2x1 qwen decode, 4 x 2x2x1 qwen spare"
    )
    rows = (cube, "2 x 2x2x1 qwen spare")
    assert [row for row in rows if row not in plan] == []


def test_jobs_of_the_lab_are_drawn_and_the_one_that_must_wait_is_told(tmp_path: Path) -> None:
    plan = told(tmp_path, lab_config())
    assert plan.count("1 x 4x4x8 smoke super") == 2
    assert "smoke sub waits until others end: 6 x 2x2x2, priority low" in plan


def test_a_shape_that_no_workload_may_ask_for_is_said_to_be_one(tmp_path: Path) -> None:
    plan = prod(tmp_path, **{"tpuserve:queueing.shapes": ["2x2x1"]})
    legal, _, others = plan.partition("not in queueing.shapes:")
    assert "26 of 2x2x1" in legal
    assert "of 2x2x2" not in legal
    assert "13 of 2x2x2, 6 of 2x2x4, 3 of 2x4x4, 1 of 4x4x4" in others


@pytest.mark.parametrize("columns", ["80", None])
def test_no_value_is_cut_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    plan = prod(tmp_path)
    assert "tpu7x-standard-4t" in plan
    assert "\N{HORIZONTAL ELLIPSIS}" not in plan


def test_what_fits_on_a_host_and_when_another_comes_is_told(tmp_path: Path) -> None:
    plan = told(tmp_path, stack_config("dev"))
    # 128 GiB of the 256 of a host of eight: 70B in bfloat16 (the model card), less what is shared.
    assert "llama │ 8 │ 4096 │ 128 │ 51% of 256 GiB" in plan
    assert "1..2, vllm:num_requests_waiting 10" in plan


def test_queues_are_told_with_their_chips(tmp_path: Path) -> None:
    plan = told(tmp_path, stack_config("prod"))
    assert "tpu │ llm │ 128" in plan
    assert "priorities: high 3000, medium 2000, low 1000; model servers have high" in plan

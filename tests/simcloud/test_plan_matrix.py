"""Every change and mistake of the measured matrix plans the same on the simulated provider."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.simcloud.harness import MiniEngine, Step, providers
from tests.simcloud.matrix_program import program

MATRIX = json.loads((Path(__file__).parents[1] / "data" / "gcp-plan-matrix.json").read_text())

DISAGREEMENTS: dict[str, str] = {}
"""Rows that plan otherwise here, by their settings, each with the reason."""

# Rows of the matrix list these paths because the measuring provider kept its state in memory and
# dropped empty collections; a provider that reads them back shows no such change.
NOISE = re.compile(r"nodeConfig\.(resourceLabels|resourceManagerTags|storagePools|tags)")


def label(row: dict[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in row["set"].items())


def measured(row: dict[str, Any]) -> set[tuple[str, str, frozenset[tuple[str, str]]]]:
    return {
        (kind, key, frozenset((p, k) for p, k in detail.items() if not NOISE.fullmatch(p)))
        for kind, key, detail in row["steps"]
    }


def planned(steps: list[Step]) -> set[tuple[str, str, frozenset[tuple[str, str]]]]:
    return {(kind, key, frozenset(detail.items())) for kind, key, detail in steps}


OTHER_WORDS = {
    "CLUSTER=Tpu_Main": "the measuring provider had a text of its own for the cluster name's rule",
    "COUNT=-1": "the measuring provider had a range where the real one has a lower bound",
}
"""Mistakes caught at the same place with another message."""


def place(error: str) -> str:
    return error.partition("Examine values at ")[2]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> MiniEngine:
    made = MiniEngine(providers(tmp_path_factory.mktemp("cloud"))[0])
    made.up(program({}))
    return made


def test_the_unchanged_program_plans_nothing(engine: MiniEngine) -> None:
    assert engine.preview(program({})) == ([], [])


@pytest.mark.parametrize("row", MATRIX["changes"], ids=label)
def test_a_change_plans_what_was_measured(engine: MiniEngine, row: dict[str, Any]) -> None:
    steps, errors = engine.preview(program(row["set"]))
    assert errors == []
    assert (planned(steps) == measured(row)) is (label(row) not in DISAGREEMENTS), steps


@pytest.mark.parametrize("row", MATRIX["mistakes"], ids=label)
def test_a_mistake_is_caught_or_passes_as_measured(engine: MiniEngine, row: dict[str, Any]) -> None:
    steps, errors = engine.preview(program(row["set"]))
    if row["ok"]:
        assert errors == []
        assert planned(steps) == measured(row)
        return
    # The matrix cuts long messages off, and one row has a line of the engine itself.
    wanted = [error for error in row["errors"] if error.partition(":")[0]]
    assert len(errors) == len(wanted)
    if label(row) in OTHER_WORDS:
        assert {place(error) for error in errors} == {place(error) for error in wanted}
    else:
        assert [e for e in errors if not any(e.startswith(text) for text in wanted)] == []

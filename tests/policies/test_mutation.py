"""The mutation proof itself: it sees a rule that does not see."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mutation import changed, main, prove
from rules.model import DROP, UNKNOWN
from tests.policies.support import graph, rule, world


def test_a_blind_rule_is_missed() -> None:
    blind = replace(rule("NET-01"), check=lambda _: iter(()))
    score = prove(graph(world.dev()), rules=[blind])
    assert [(t.rule.id, t.resource) for t in score.missed] == [("NET-01", "net")] * 2
    assert score.percent == 0


def test_a_rule_that_always_complains_proves_nothing() -> None:
    noisy = replace(rule("NET-01"), check=lambda _: iter(["always"]))
    score = prove(graph(world.dev()), rules=[noisy])
    assert {t.outcome for t in score.trials} == {"broken"}


def test_a_guard_with_nothing_to_break_is_untried() -> None:
    score = prove(graph(world.dev()), rules=[rule("TPU-26")])
    assert score.trials == ()
    assert len(score.untried) == len(rule("TPU-26").guards)


@pytest.mark.parametrize(
    ("path", "bad", "expected"),
    [
        (("a", "b"), 2, {"a": {"b": 2}, "l": [1]}),
        (("a", "b"), DROP, {"a": {}, "l": [1]}),
        (("l", 0), lambda n: n + 1, {"a": {"b": 1}, "l": [2]}),
        (("new", "deep"), 1, {"a": {"b": 1}, "l": [1], "new": {"deep": 1}}),
    ],
)
def test_one_place_is_changed(path: tuple[str | int, ...], bad: object, expected: object) -> None:
    tree = {"a": {"b": 1}, "l": [1]}
    assert changed(tree, path, bad) == expected
    assert tree == {"a": {"b": 1}, "l": [1]}


@pytest.mark.parametrize("path", [("l", 5), ("l", "x"), ("u", "x")])
def test_where_there_is_nothing_nothing_is_changed(path: tuple[str | int, ...]) -> None:
    tree = {"l": [1], "u": UNKNOWN}
    assert changed(tree, path, 2) is not tree
    assert changed(tree, path, 2) != tree
    assert not isinstance(changed(tree, path, 2), dict)


def test_the_command_prints_a_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(world.prod()))
    assert main([str(path), "prod"]) == 0
    assert "mutations caught (100.0 %)" in capsys.readouterr().out

"""Wrong stack files are told what is wrong: the field, the rule, the fix, and nothing else."""

import copy
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.problem import ConfigError, Problem
from config.stack import check
from tests.support.files import stack_config
from tests.support.variants import changed

TODAY = date(2026, 12, 1)
FREEZE = {"scope": "NO_UPGRADES", "from": "2026-12-01", "days": 31}
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "bad_stacks.yaml").read_text()
)


def _matches(problem: Problem, wanted: list[str]) -> bool:
    path, rule, fix = wanted
    return problem.path == path and rule in problem.rule and fix in problem.fix


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_stack_file_is_told_exactly_what_is_wrong(name: str) -> None:
    case = CASES[name]
    config = changed(stack_config(case["base"]), case["set"])
    errors = check(config, name="tpuserve-test", today=TODAY).errors
    unsaid = [each for each in case["errors"] if not any(_matches(p, each) for p in errors)]
    beside = [str(p) for p in errors if not any(_matches(p, each) for each in case["errors"])]
    assert (unsaid, beside) == ([], [])


@pytest.mark.parametrize("name", CASES)
def test_every_error_names_its_source_and_is_raised_at_once(name: str) -> None:
    case = CASES[name]
    config = changed(stack_config(case["base"]), case["set"])
    report = check(config, name="tpuserve-test", today=TODAY)
    assert [each.path for each in report.errors if not str(each.source)] == []
    with pytest.raises(ConfigError, match=f"has {len(report.errors)} error"):
        report.require()


def _nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where everything of a stack file stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from _nodes(each, (*path, key))


@pytest.mark.parametrize("base", ["dev", "prod"])
@pytest.mark.parametrize("strange", [None, "word", [1], 7, {1: 2}, True], ids=str)
def test_no_value_anywhere_ends_in_an_exception(base: str, strange: Any) -> None:
    config = stack_config(base)
    for path in _nodes(config):
        wrong = copy.deepcopy(config)
        holder: Any = wrong
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = strange
        assert all(map(str, check(wrong, name="tpuserve-test", today=TODAY).problems)), path


def test_a_key_that_is_no_text_is_an_error() -> None:
    report = check({**stack_config("dev"), 7: {}}, name="tpuserve-test", today=TODAY)
    assert [(each.path, each.rule) for each in report.errors] == [("config.7", "is no text")]


WARNINGS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a month without upgrades": (
        {"tpuserve:cluster.maintenance.exclusions": {"launch": FREEZE}},
        "tpuserve:cluster.maintenance.exclusions",
        "every 32 or 92 days (its pages disagree); 32 days from 2026-11-30 have 0",
    ),
    "a window of some hours a week": (
        {"tpuserve:cluster.maintenance": {"window": {"days": ["SU"]}}},
        "tpuserve:cluster.maintenance.window",
        "32 days have 24",
    ),
    "a pod range below a whole block": (
        {"tpuserve:network.pods": "10.64.0.0/16"},
        "tpuserve:network.pods",
        "carries 128 of the 144 cubes",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_what_is_doubtful_is_a_warning(name: str) -> None:
    change, path, rule = WARNINGS[name]
    report = check(changed(stack_config("prod"), change), name="tpuserve-test", today=TODAY)
    assert report.errors == []
    assert [(each.path, rule in each.rule) for each in report.warnings] == [(path, True)]


@pytest.mark.parametrize("base", ["dev", "prod"])
def test_the_shipped_files_are_right(base: str) -> None:
    report = check(stack_config(base), name="tpuserve-test", today=TODAY)
    assert report.problems == []


def test_a_value_under_an_unknown_key_is_never_printed() -> None:
    config = changed(stack_config("dev"), {"tpuserve:network.token": "hf_secret"})
    config["tpuserve:hfToken"] = "hf_secret"
    report = check(config, name="tpuserve-test", today=TODAY)
    assert len(report.errors) == 2
    assert [str(each) for each in report.errors if "hf_secret" in str(each)] == []

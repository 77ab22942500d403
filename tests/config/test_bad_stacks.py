"""Wrong stack files are told what is wrong: the field, the rule, the fix, and nothing else."""

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

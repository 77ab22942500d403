"""Wrong queueing sections are told what is wrong: the field, the rule, the fix, nothing else."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.problem import Problem
from config.stack import Report, check
from tests.support.files import stack_config
from tests.support.lab import lab_config
from tests.support.variants import changed

TODAY = date(2026, 12, 1)
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "bad_queueing.yaml").read_text()
)


def _checked(changes: dict[str, Any]) -> Report:
    return check(changed(lab_config(), changes), name="tpuserve-lab", today=TODAY)


def _matches(problem: Problem, wanted: list[str]) -> bool:
    path, rule, fix = wanted
    return problem.path == path and rule in problem.rule and fix in problem.fix


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_section_is_told_exactly_what_is_wrong(name: str) -> None:
    errors = _checked(CASES[name]["set"]).errors
    wanted = CASES[name]["errors"]
    unsaid = [each for each in wanted if not any(_matches(p, each) for p in errors)]
    beside = [str(p) for p in errors if not any(_matches(p, each) for each in wanted)]
    assert (unsaid, beside) == ([], [])


@pytest.mark.parametrize("name", CASES)
def test_every_error_names_its_source(name: str) -> None:
    assert [each.path for each in _checked(CASES[name]["set"]).errors if not str(each.source)] == []


def test_a_job_named_like_a_server_beside_it_is_told() -> None:
    train = {
        "namespace": "llm",
        "image": "example/train:1.0.0",
        "command": ["train"],
        "shape": "2x2x2",
        "priority": "low",
    }
    jobs = dict.fromkeys(("qwen", "qwen-epp", "qwen-decode-0", "train"), train)
    config = changed(stack_config("prod"), {"tpuserve:queueing.jobs": jobs})
    errors = check(config, name="tpuserve-prod", today=TODAY).errors
    assert {(each.path.rpartition(".")[2], each.rule) for each in errors} == {
        (key, f"makes a {kind} of this name, and so does tpuserve:serving.qwen")
        for key, kind in (
            ("qwen", "ServiceAccount"),
            ("qwen-epp", "ServiceAccount"),
            ("qwen-decode-0", "Service"),
        )
    }


def test_the_lab_has_no_problem() -> None:
    assert _checked({}).problems == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"tpuserve:queueing": "__removed__"}, "nothing here forms slices"),
        (
            {"tpuserve:queueing.stop": "HoldAndDrain", "tpuserve:queueing.smoke": None},
            "admit nothing and sends back what runs",
        ),
        (
            {"tpuserve:queueing.releases": {"kueue": "0.17.4", "jobset": "0.11.1"}},
            "was tested on Kubernetes 1.33 to 1.35, the cluster is 1.36",
        ),
        (
            {
                "tpuserve:queueing.namespaces": [],
                "tpuserve:queueing.teams": {"a": {"namespaces": ["lab"], "chips": 96}},
                "tpuserve:queueing.smoke": None,
            },
            "32 are nobody's",
        ),
        (
            {"tpuserve:queueing.sliceController.image": "example/slice-controller:latest"},
            "no exact version",
        ),
        (
            {"tpuserve:queueing.smoke.super.shape": "2x2x1"},
            "52 chips and have room side by side: nothing is pushed out",
        ),
    ],
)
def test_what_is_doubtful_is_a_warning(changes: dict[str, Any], rule: str) -> None:
    report = _checked(changes)
    assert report.errors == []
    assert [each for each in report.warnings if rule in each.rule]

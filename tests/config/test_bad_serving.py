"""Wrong words about served models are told: the field, the rule, the fix, and nothing else."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.problem import Problem
from config.stack import Report, check
from tests.support.files import stack_config
from tests.support.variants import changed

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "bad_serving.yaml").read_text()
)
SECRET = "thisisasecretthatnobodymaysee0"


def _check(changes: dict[str, Any]) -> Report:
    config = changed(stack_config("dev"), changes)
    return check(config, name="tpuserve-test", today=date(2026, 12, 1))


def _matches(problem: Problem, wanted: list[str]) -> bool:
    path, rule, fix = wanted
    return problem.path == path and rule in problem.rule and fix in problem.fix


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_told_and_nothing_beside(name: str) -> None:
    case, report = CASES[name], _check(CASES[name]["set"])
    for kind, said in (("errors", report.errors), ("warnings", report.warnings)):
        wanted = case.get(kind, [])
        unsaid = [each for each in wanted if not any(_matches(p, each) for p in said)]
        beside = [str(p) for p in said if not any(_matches(p, each) for each in wanted)]
        assert (kind, unsaid, beside) == (kind, [], [])
    told = report.problems
    assert [each.path for each in told if not (each.rule and each.fix and str(each.source))] == []


def test_every_row_names_words_of_rule_and_fix() -> None:
    """An empty word would be found in any message."""
    rows = [row for case in CASES.values() for row in case["errors"] + case.get("warnings", [])]
    assert [row for row in rows if not all(row)] == []
    assert all(case["errors"] for case in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_no_message_repeats_a_secret(name: str) -> None:
    problems = _check(CASES[name]["set"]).problems
    assert [str(each) for each in problems if SECRET in str(each) or "hf_aaaa" in str(each)] == []


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (
            {"tpuserve:serving.llama.maxNumSeqs": 128},
            "tpuserve:serving.llama.maxNumSeqs",
            "only 79 sequences of 4096 tokens fit at once",
        ),
        (
            {"tpuserve:images": {"modelServer": "docker.io/vllm/vllm-tpu:v0.29.0"}},
            "tpuserve:images.modelServer",
            "checked against vLLM 0.32.0",
        ),
        (
            {"tpuserve:serving.llama.model": "Qwen/Qwen3-32B", "tpuserve:serving.llama.revision":
             "__removed__", "tpuserve:serving.llama.weights": "gs://others/qwen"},
            "tpuserve:storage.huggingFaceSecret",
            "the token reaches nothing",
        ),
        (
            {"tpuserve:serving.llama.replicas": {"min": 1, "max": 1},
             "tpuserve:serving.llama.target": 5},
            "tpuserve:serving.llama.target",
            "the count of replicas is fixed at 1",
        ),
        (
            {"tpuserve:protect": True, "tpuserve:images": {
                "modelServer": f"docker.io/vllm/vllm-tpu:v0.32.0@sha256:{'1' * 64}"}},
            "tpuserve:serving.llama.pool",
            "spot capacity ends when Google says so",
        ),
        (
            {"tpuserve:protect": True, "tpuserve:images": {
                "modelServer": f"docker.io/vllm/vllm-tpu:v0.32.0@sha256:{'1' * 64}"}},
            "tpuserve:observability",
            "alerts reach nobody",
        ),
    ],
)  # fmt: skip
def test_what_is_doubtful_is_a_warning_and_stops_nothing(
    changes: dict[str, Any], path: str, words: str
) -> None:
    report = _check(changes)
    assert report.errors == []
    assert [p for p in report.warnings if p.path == path and words in p.rule]

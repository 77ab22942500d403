"""Wrong words about models on slices are told: the field, the rule, the fix, and nothing else."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.problem import Problem
from config.stack import Report, check
from tests.support.files import stack_config
from tests.support.variants import changed

TODAY = date(2026, 12, 1)
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "bad_disaggregated.yaml").read_text()
)
ANYTHING = "*"
"""Where one wrong word breaks rules of other sections as well, which have tests of their own."""


def _check(changes: dict[str, Any]) -> Report:
    config = changed(stack_config("prod"), changes)
    return check(config, name="tpuserve-test", today=TODAY)


def _matches(problem: Problem, wanted: list[str]) -> bool:
    path, rule, fix = wanted
    return problem.path == path and rule in problem.rule and fix in problem.fix


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_told_and_nothing_beside(name: str) -> None:
    wanted = [each for each in CASES[name]["errors"] if each[0] != ANYTHING]
    errors = _check(CASES[name]["set"]).errors
    assert [each for each in wanted if not any(_matches(p, each) for p in errors)] == []
    if len(wanted) == len(CASES[name]["errors"]):
        assert [str(p) for p in errors if not any(_matches(p, each) for each in wanted)] == []


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 25


def test_a_lopsided_stack_is_warned() -> None:
    warnings = _check({"tpuserve:serving.qwen.decode.replicas": 20}).warnings
    assert [each.path for each in warnings] == ["tpuserve:serving.qwen"]


def test_a_short_answer_time_is_warned() -> None:
    warnings = _check({"tpuserve:serving.qwen.answerSeconds": 30}).warnings
    assert [each.path for each in warnings] == ["tpuserve:serving.qwen.answerSeconds"]


FULL = {
    "tpuserve:serving.qwen.model": "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
    "tpuserve:serving.qwen.maxModelLen": 16384,
    "tpuserve:serving.qwen.maxNumSeqs": 32,
}


def test_what_only_a_hybrid_model_cannot_have_is_free_for_others() -> None:
    flags = ["--spec-method=ngram", "--no-enable-prefix-caching"]
    assert _check({**FULL, "tpuserve:serving.qwen.extraArgs": flags}).errors == []


def test_a_role_may_have_its_own_steps_and_logs() -> None:
    own = {
        "tpuserve:serving.qwen.decode.extraArgs": ["--async-scheduling", "--enable-log-requests"],
        "tpuserve:serving.qwen.decode.extraEnv": {"VLLM_LOGGING_LEVEL": "DEBUG"},
        "tpuserve:serving.qwen.prefill.maxNumBatchedTokens": 8192,
    }
    assert _check(own).errors == []


def test_devices_that_a_size_leaves_idle_are_told_with_the_size_that_does_not() -> None:
    two_hosts = {"tpuserve:serving.qwen.slice": "2x2x2", "tpuserve:serving.qwen.tensorParallel": 8}
    (warning,) = _check(two_hosts).warnings
    assert warning.path == "tpuserve:serving.qwen.tensorParallel"
    assert "8 of 16 devices" in warning.rule
    assert warning.fix == "use 16, or a smaller slice"


def test_a_key_that_is_also_a_policys_name_is_free() -> None:
    same = {"mode": "disaggregated", "model": "Qwen/Qwen3-32B", "weights": "gs://others/f"}
    assert _check({"tpuserve:serving.same-namespace": same}).errors == []

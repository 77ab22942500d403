"""The names of the pinned vLLM: what exists passes, what does not is refused with the nearest."""

import pytest

from catalog import vllm


def test_the_table_is_of_the_pinned_release_and_complete() -> None:
    release = vllm.release()
    assert (release.vllm, release.tpu_inference) == ("0.32.0", "0.32.0")
    assert release.source
    assert len(release.flags) > 300
    assert len(release.environment) > 350
    assert len(release.metrics) > 40


@pytest.mark.parametrize(
    "argument",
    [
        "--tensor-parallel-size=8",
        "--max-num-seqs",
        "--enable-prefix-caching",
        "--no-enable-prefix-caching",
        "--no-disable-hybrid-kv-cache-manager",
        "--kv-transfer-config.kv_role=kv_producer",
        "--limit-mm-per-prompt",
    ],
)
def test_flags_that_exist_pass(argument: str) -> None:
    assert vllm.flag_error(argument) is None


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--max-num-seq=3", "nearest is --max-num-seqs"),
        ("--tensor-parallel=8", "nearest is --tensor-parallel-size"),
        ("--no-prefix-caching", "--enable-prefix-caching|--no-"),
        ("-tp=8", "not a long option"),
        ("8", "not a long option"),
    ],
)
def test_flags_that_do_not_exist_are_refused(argument: str, words: str) -> None:
    problem = vllm.flag_error(argument)
    assert problem is not None
    assert any(word in problem for word in words.split("|"))


@pytest.mark.parametrize(
    "name",
    [
        "VLLM_XLA_CACHE_PATH",
        "VLLM_ENGINE_READY_TIMEOUT_S",
        "SKIP_JAX_PRECOMPILE",
        # Read outside the modules that list names, or by JAX, Ray and the hub.
        "TPU_KV_TRANSFER_PORT",
        "JAX_PLATFORMS",
        "HF_TOKEN",
        "RAY_health_check_timeout_ms",
    ],
)
def test_environment_names_that_work_pass(name: str) -> None:
    assert vllm.environment_error(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("VLLM_USE_V1", "V1 engine is the only one"),
        ("VLLM_ENGINE_CLIENT_STARTUP_TIMEOUT", "VLLM_ENGINE_READY_TIMEOUT_S"),
        ("VLLM_XLA_CACHE_PAT", "nearest is VLLM_XLA_CACHE_PATH"),
        ("RAY_heartbeat_timeout_milliseconds", "RAY_health_check_timeout_ms"),
    ],
)
def test_environment_names_without_effect_are_refused(name: str, words: str) -> None:
    assert words in (vllm.environment_error(name) or "")


@pytest.mark.parametrize(
    "name",
    [
        *vllm.AUTOSCALING_METRICS,
        "vllm:prompt_tokens_total",
        "vllm:time_to_first_token_seconds_bucket",
    ],
)
def test_metrics_that_are_published_pass(name: str) -> None:
    assert vllm.metric_error(name) is None


@pytest.mark.parametrize("name", ["gpu_cache_usage_perc", "vllm:gpu_cache_usage_perc"])
def test_the_old_cache_metric_is_refused_with_its_successor(name: str) -> None:
    problem = vllm.metric_error(name)
    assert problem is not None
    assert "removed" in problem
    assert "vllm:kv_cache_usage_perc" in problem


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("num_requests_waiting", "published as vllm:num_requests_waiting"),
        ("vllm:num_request_waiting", "nearest is vllm:num_requests_waiting"),
        ("vllm:num_requests_waiting_totals", "is not in vLLM"),
    ],
)
def test_metrics_that_are_not_published_are_refused(name: str, words: str) -> None:
    assert words in (vllm.metric_error(name) or "")


def test_no_retired_name_is_in_the_release() -> None:
    release = vllm.release()
    assert set(vllm.RETIRED_METRICS) & release.metrics == set()
    assert set(vllm.RETIRED_ENVIRONMENT) & release.environment == set()
    assert set(vllm.AUTOSCALING_METRICS) <= release.metrics

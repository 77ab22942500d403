"""Sizing, against figures published or measured elsewhere."""

import re

import pytest

from catalog.accelerators import TPU7X, V6E, Slice, slices
from catalog.models import MODELS, ModelProfile, find
from catalog.sizing import (
    COMFORTABLE_SHARE,
    LARGEST_SHARE,
    TYPICAL_TOKENS,
    fit,
    illegal_tensor_parallel,
    kv_bytes_per_token,
    kv_bytes_per_token_per_device,
    legal_tensor_parallel,
    startup_budget_seconds,
)

V6E_8 = next(s for s in slices(V6E, (2, 4)) if not s.multi_host)
TPU7X_4 = next(iter(slices(TPU7X, (2, 2, 1))))
TPU7X_8 = next(iter(slices(TPU7X, (2, 2, 2))))

LLAMA_70B = find("meta-llama/Llama-3.1-70B-Instruct")
QWEN_HYBRID = find("Qwen/Qwen3.5-397B-A17B-FP8")
CODER = find("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8")
GPT_OSS = find("openai/gpt-oss-120b")


@pytest.mark.parametrize(
    ("model", "kib"),
    [
        ("meta-llama/Llama-3.1-8B", 128),
        ("meta-llama/Llama-3.3-70B-Instruct", 320),
        ("meta-llama/Llama-3.1-405B-Instruct", 504),
        ("Qwen/Qwen3-32B", 256),
        ("Qwen/Qwen3-235B-A22B-FP8", 188),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", 248),
        ("Qwen/Qwen3.5-397B-A17B-FP8", 30),
        ("google/gemma-3-27b-it", 496),
        ("deepseek-ai/DeepSeek-R1", 69),
        ("openai/gpt-oss-120b", 72),
    ],
)
def test_the_cache_of_one_token_has_its_known_size(model: str, kib: int) -> None:
    assert kv_bytes_per_token(find(model)) / 1024 == pytest.approx(kib, abs=0.5)


@pytest.mark.parametrize(
    ("model", "tpu", "share"),
    [
        ("meta-llama/Llama-3.1-8B", V6E_8, 0.06),
        ("meta-llama/Llama-3.1-70B", V6E_8, 0.51),
        ("Qwen/Qwen3-32B", V6E_8, 0.24),
        ("google/gemma-3-27b-it", V6E_8, 0.20),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", TPU7X_4, 0.50),
        ("meta-llama/Llama-3.1-405B-Instruct", TPU7X_8, 0.49),
        ("Qwen/Qwen3.5-397B-A17B-FP8", TPU7X_4, 0.49),
        ("Qwen/Qwen3.5-397B-A17B-FP8", TPU7X_8, 0.25),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", TPU7X_4, 0.58),
        ("deepseek-ai/DeepSeek-R1", TPU7X_4, 0.84),
        ("openai/gpt-oss-120b", TPU7X_4, 0.28),
    ],
)
def test_weights_take_their_known_share_of_hbm(model: str, tpu: Slice, share: float) -> None:
    assert fit(find(model), tpu).weights_share == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize(
    ("model", "tpu", "tokens"),
    [
        ("meta-llama/Llama-3.1-70B", V6E_8, 324_000),
        ("Qwen/Qwen3-32B", V6E_8, 690_000),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", TPU7X_4, 1_000_000),
    ],
)
def test_the_cache_holds_its_known_number_of_tokens(model: str, tpu: Slice, tokens: int) -> None:
    assert fit(find(model), tpu).kv_tokens == pytest.approx(tokens, rel=0.03)


@pytest.mark.parametrize("accelerator", ["v6e", "tpu7x"])
def test_what_was_seen_to_run_or_to_fail_agrees_with_the_sizes(accelerator: str) -> None:
    """tpu-inference's CI runs v6e on 8 chips; its failures there are all for lack of HBM."""
    tpu = {"v6e": V6E_8, "tpu7x": TPU7X_4}[accelerator]
    seen = [(m, s) for m in MODELS.values() if (s := m.status_on(accelerator))]
    assert {status.verdict for _, status in seen} >= {"passes"}
    wrong = [m.id for m, s in seen if fit(m, tpu).fits is not (s.verdict == "passes")]
    assert wrong == []


def test_the_dtype_in_hbm_counts_and_not_the_one_on_disk() -> None:
    """MXFP4 would take a quarter of a v6e-8; widened to bf16 it does not fit, as CI found."""
    assert GPT_OSS.weights_gb * 1e9 < 0.25 * 256 * 2**30
    assert not fit(GPT_OSS, V6E_8).fits


def test_kv_heads_are_replicated_up_to_the_tensor_parallel_size() -> None:
    def total(size: int) -> int:
        return size * kv_bytes_per_token_per_device(LLAMA_70B, size)

    assert total(4) == total(8) == kv_bytes_per_token(LLAMA_70B)
    assert total(16) == 2 * kv_bytes_per_token(LLAMA_70B)


def test_fp8_saves_nothing_when_a_device_holds_one_kv_head() -> None:
    """Heads are packed into 32-bit words: key and value of one head fill half of one in fp8."""

    def sizes(model: ModelProfile, size: int) -> tuple[int, int]:
        return (
            kv_bytes_per_token_per_device(model, size, "bf16"),
            kv_bytes_per_token_per_device(model, size, "fp8"),
        )

    bf16, fp8 = sizes(LLAMA_70B, 8)
    assert fp8 == bf16
    bf16, fp8 = sizes(LLAMA_70B, 4)
    assert fp8 == bf16 / 2


def test_odd_head_dimensions_are_padded_to_128_but_64_is_not() -> None:
    odd = ModelProfile.model_validate({**LLAMA_70B.model_dump(), "head_dim": 96})
    assert kv_bytes_per_token_per_device(odd, 8) == kv_bytes_per_token_per_device(LLAMA_70B, 8)
    # gpt-oss at tensor parallel 4: two KV heads of 64, key beside value.
    assert 4 * kv_bytes_per_token_per_device(GPT_OSS, 4) == kv_bytes_per_token(GPT_OSS)


def test_the_latent_cache_is_whole_on_every_device() -> None:
    deepseek = find("deepseek-ai/DeepSeek-R1")
    sizes = {kv_bytes_per_token_per_device(deepseek, size) for size in (1, 8, 16)}
    assert sizes == {61 * (512 + 128) * 2}


def test_the_state_of_a_hybrid_model_is_held_per_sequence() -> None:
    few, many = (fit(QWEN_HYBRID, TPU7X_4, max_num_seqs=n) for n in (16, 512))
    states_gib = (512 - 16) * 180 / 1024
    token_gib = 8 * kv_bytes_per_token_per_device(QWEN_HYBRID, 8) / 2**30
    assert few.kv_tokens - many.kv_tokens == pytest.approx(states_gib / token_gib, rel=1e-3)
    assert many.needed_share > few.needed_share


@pytest.mark.parametrize(
    ("model", "devices", "legal"),
    [
        (LLAMA_70B, 8, (1, 2, 4, 8)),
        (LLAMA_70B, 16, (1, 2, 4, 8, 16)),
        (QWEN_HYBRID, 16, (1, 2, 4, 8, 16)),
        # 96 attention heads and 8 KV heads: 3, 6 and 12 divide the former and not the latter.
        (CODER, 16, (1, 2, 4, 8, 16)),
        (find("deepseek-ai/DeepSeek-R1"), 8, (1, 2, 4, 8)),
    ],
)
def test_legal_tensor_parallel_sizes(
    model: ModelProfile, devices: int, legal: tuple[int, ...]
) -> None:
    assert legal_tensor_parallel(model, devices) == legal
    refused = [n for n in range(1, devices + 1) if illegal_tensor_parallel(model, n, devices)]
    assert sorted({*refused, *legal}) == list(range(1, devices + 1))
    assert set(refused) & set(legal) == set()


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (3, "64 attention heads must divide evenly"),
        (32, "the slice has 8 devices"),
        (0, "the slice has 8 devices"),
    ],
)
def test_an_illegal_tensor_parallel_size_is_an_error_with_the_legal_ones(
    size: int, words: str
) -> None:
    found = fit(LLAMA_70B, V6E_8, tensor_parallel=size)
    assert not found.fits
    assert words in found.errors[0]
    assert "1, 2, 4, 8" in found.errors[0]


def test_heads_that_do_not_divide_one_another_are_refused() -> None:
    problem = illegal_tensor_parallel(CODER, 12, 16)
    assert problem is not None
    assert "8 KV heads one must divide the other" in str(problem)


def test_a_small_tensor_parallel_size_has_only_the_memory_of_its_devices() -> None:
    found = fit(LLAMA_70B, V6E_8, tensor_parallel=4)
    assert found.hbm_gib == 128
    assert not found.fits
    assert any("idle" in warning for warning in found.warnings)


def test_more_than_the_largest_share_is_an_error_that_says_what_to_do() -> None:
    found = fit(find("Qwen/Qwen3-235B-A22B-FP8"), V6E_8)
    assert found.weights_share > LARGEST_SHARE
    assert [e for e in found.errors if "85% of HBM" in e and "more chips" in e] == [*found.errors]


def test_more_than_the_comfortable_share_is_a_warning() -> None:
    found = fit(find("deepseek-ai/DeepSeek-R1"), TPU7X_4)
    assert COMFORTABLE_SHARE < found.needed_share <= LARGEST_SHARE
    assert found.fits
    assert "tokens are left" in found.warnings[0]


def test_a_length_beyond_the_cache_is_an_error() -> None:
    found = fit(find("deepseek-ai/DeepSeek-R1"), TPU7X_4, max_model_len=163840)
    assert not found.fits
    assert any("163840" in error for error in found.errors)


def test_a_length_beyond_the_model_is_an_error() -> None:
    found = fit(LLAMA_70B, TPU7X_8, max_model_len=200_000)
    assert ["131072 tokens" in error for error in found.errors] == [True]


def test_the_settings_of_the_public_walkthrough_fit() -> None:
    """GKE docs, 'Serve an LLM using TPU Trillium on GKE with vLLM': 4096 tokens, 128 sequences."""
    found = fit(find("meta-llama/Llama-3.1-70B"), V6E_8, max_model_len=4096, max_num_seqs=128)
    assert found.fits
    assert found.full_length_sequences == 79
    assert ["only 79 sequences" in warning for warning in found.warnings] == [True]


@pytest.mark.parametrize("tpu", [V6E_8, TPU7X_4, TPU7X_8], ids=lambda s: s.accelerator.name)
def test_what_is_suggested_is_legal_and_has_room_for_usual_requests(tpu: Slice) -> None:
    wrong = []
    for model in MODELS.values():
        found = fit(model, tpu)
        if not found.fits:
            continue
        again = fit(
            model,
            tpu,
            tensor_parallel=found.tensor_parallel,
            max_model_len=found.max_model_len,
            max_num_seqs=found.max_num_seqs,
        )
        usual = min(TYPICAL_TOKENS, again.max_model_len)
        room = max(usual * again.max_num_seqs, again.max_model_len) <= again.kv_tokens
        if not again.fits or not room or found.max_model_len > model.max_context:
            wrong.append((model.id, found.max_model_len, found.max_num_seqs))
    assert wrong == []


def test_concurrency_follows_from_usual_requests_and_not_from_the_longest() -> None:
    """324,066 tokens of cache: 19 sequences of 16,384 tokens, or 158 of 2,048."""
    found = fit(LLAMA_70B, V6E_8)
    assert (found.max_model_len, found.full_length_sequences) == (16384, 19)
    assert (found.max_num_seqs, found.warnings) == (128, ())
    assert fit(LLAMA_70B, V6E_8, max_model_len=1024).max_num_seqs == 256


def test_a_suggested_concurrency_is_no_mistake_of_the_user() -> None:
    found = fit(LLAMA_70B, V6E_8)
    again = fit(LLAMA_70B, V6E_8, max_num_seqs=found.max_num_seqs)
    assert (found.warnings, len(again.warnings)) == ((), 1)


def test_the_default_parallel_size_leaves_no_part_of_the_slice_over() -> None:
    """48 heads over 6 of 8 devices would be legal, and two devices idle in a shape of 2 x 4."""
    odd = LLAMA_70B.model_copy(update={"attention_heads": 48, "kv_heads": 6})
    assert 6 in legal_tensor_parallel(odd, 8)
    assert fit(odd, V6E_8).tensor_parallel == 2
    assert fit(odd, V6E_8, tensor_parallel=6).tensor_parallel == 6


def test_the_startup_budget_grows_with_the_weights_within_its_bounds() -> None:
    budgets = [
        startup_budget_seconds(m) for m in sorted(MODELS.values(), key=lambda m: m.weights_gb)
    ]
    assert budgets == sorted(budgets)
    assert min(budgets) == 30 * 60
    assert 3600 < startup_budget_seconds(QWEN_HYBRID) <= max(budgets) <= 4 * 3600


@pytest.mark.parametrize(
    ("given", "setting", "raised"),
    [
        ({"max_model_len": 163840}, "max_model_len", "max_model_len"),
        ({"max_model_len": 8192, "utilization": 0.3}, "utilization", "utilization"),
    ],
)
def test_the_setting_that_is_named_helps_by_the_number_that_is_named(
    given: dict[str, float], setting: str, raised: str
) -> None:
    model = find("deepseek-ai/DeepSeek-R1")
    found = fit(model, TPU7X_4, **given)  # type: ignore[arg-type]
    (misfit,) = [each for each in found.misfits if each.severe]
    assert misfit.setting == setting
    number = float(re.findall(r"use ([\d.]+)", misfit.fix)[0])
    value = int(number) if raised == "max_model_len" else number
    assert fit(model, TPU7X_4, **{**given, raised: value}).fits  # type: ignore[arg-type]


def test_sequences_whose_state_has_no_room_are_told_how_many_have() -> None:
    model = find("Qwen/Qwen3.5-397B-A17B-FP8")
    (misfit,) = [m for m in fit(model, TPU7X_4, max_num_seqs=4000).misfits if m.severe]
    assert misfit.setting == "max_num_seqs"
    most = int(re.findall(r"use (\d+)", misfit.fix)[0])
    assert fit(model, TPU7X_4, max_num_seqs=most).fits
    assert not fit(model, TPU7X_4, max_num_seqs=most + 1).fits

"""The model catalogue: every entry is complete, sourced and sound."""

import re
from datetime import date

import pytest
from pydantic import ValidationError

from catalog.accelerators import ACCELERATORS
from catalog.models import MODELS, ModelProfile, UnknownModelError, find


def test_every_entry_says_where_and_when_it_was_read() -> None:
    assert [m.id for m in MODELS.values() if not m.source or not m.read] == []
    statuses = [s for m in MODELS.values() for s in m.status]
    assert len(statuses) > 10
    assert [s for s in statuses if not s.source or s.read > date(2026, 11, 30)] == []


def test_every_status_is_of_a_known_accelerator_and_given_once() -> None:
    names = [(m.id, s.accelerator) for m in MODELS.values() for s in m.status]
    assert [name for name in names if name[1] not in ACCELERATORS] == []
    assert len(set(names)) == len(names)


def test_weights_agree_with_parameters_and_dtype() -> None:
    """Bytes for each parameter; block scales and unquantised layers add a little."""
    width = {"bf16": (1.95, 2.05), "fp8": (0.97, 1.05), "mxfp4": (0.5, 0.6)}
    wrong = []
    for model in MODELS.values():
        for gigabytes, dtype in (
            (model.weights_gb, model.checkpoint_dtype),
            (model.resident_gb, model.resident_dtype),
        ):
            low, high = width[dtype]
            if not low <= gigabytes / model.parameters_billion <= high:
                wrong.append((model.id, dtype, gigabytes))
    assert wrong == []


def test_only_a_dtype_that_is_widened_on_load_changes_the_size() -> None:
    widened = {m.id for m in MODELS.values() if m.resident_gb != m.weights_gb}
    assert widened == {"openai/gpt-oss-120b"}


def test_instruct_models_have_a_chat_template_and_llama_bases_have_none() -> None:
    wrong = [
        m.id for m in MODELS.values() if re.search(r"Instruct|-it$", m.id) and not m.chat_template
    ]
    assert wrong == []
    assert not find("meta-llama/Llama-3.1-70B").chat_template
    assert not find("meta-llama/Llama-3.1-8B").chat_template


def test_llama_and_gemma_need_an_accepted_licence() -> None:
    gated = {m.id.split("/")[0] for m in MODELS.values() if m.gated}
    free = {m.id.split("/")[0] for m in MODELS.values() if not m.gated}
    assert gated == {"meta-llama", "google"}
    assert gated & free == set()


def test_the_hybrid_model_keeps_keys_for_a_quarter_of_its_layers() -> None:
    hybrids = [m for m in MODELS.values() if m.hybrid]
    assert [m.id for m in hybrids] == ["Qwen/Qwen3.5-397B-A17B-FP8"]
    assert hybrids[0].kv_layers * 4 == hybrids[0].layers


def test_an_unknown_model_names_its_nearest_and_the_way_out() -> None:
    with pytest.raises(UnknownModelError, match=r"Nearest: meta-llama/Llama-3.1-70B-Instruct"):
        find("meta-llama/llama-3.1-70b-instruct")
    with pytest.raises(UnknownModelError, match=r"describe it .* parameters_billion"):
        find("nobody/knows-this")


def own(**changes: object) -> dict[str, object]:
    """What a stack file says of a model that is not listed."""
    return {
        "id": "mine/own",
        "parameters_billion": 8,
        "checkpoint_dtype": "bf16",
        "weights_gb": 16,
        "resident_dtype": "bf16",
        "resident_gb": 16,
        "layers": 32,
        "kv_layers": 32,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "max_context": 8192,
        "chat_template": True,
        "licence": "mit",
        "gated": False,
        **changes,
    }


def test_a_model_of_ones_own_takes_the_same_fields() -> None:
    profile = ModelProfile.model_validate(own())
    assert (profile.source, profile.read, profile.hybrid) == ("the stack file", None, False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": 16}, "weights"),
        ({"id": "own"}, "pattern"),
        ({"kv_layers": 40}, r"kv_layers \(40\) exceeds layers \(32\)"),
        ({"state_mib_per_sequence": 90}, "give the number of full-attention layers"),
        ({"latent_dim": 512}, "latent_dim belongs to attention: multi-head-latent"),
        ({"attention": "multi-head-latent"}, "latent_dim is None"),
        ({"kv_heads": 5}, r"attention_heads \(32\) is not a multiple of kv_heads \(5\)"),
        ({"resident_gb": 4}, r"less than 8 billion parameters take in bf16 \(16 GB\)"),
        ({"resident_dtype": "mxfp4"}, "resident_dtype"),
    ],
)
def test_a_contradictory_profile_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ModelProfile.model_validate(own(**changes))


def test_all_contradictions_are_reported_together() -> None:
    with pytest.raises(ValidationError, match=r"kv_layers.*attention_heads.*resident_gb"):
        ModelProfile.model_validate(own(kv_layers=40, kv_heads=5, resident_gb=4))

"""The model catalogue: every entry is complete, sourced and sound."""

import re
from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from catalog.accelerators import ACCELERATORS
from catalog.models import MODELS, ModelProfile, UnknownModelError, find
from config.serving import ModelShape


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


def test_an_unknown_model_names_its_nearest() -> None:
    with pytest.raises(UnknownModelError, match=r"nearest: meta-llama/Llama-3.1-70B-Instruct"):
        find("meta-llama/llama-3.1-70b-instruct")
    with pytest.raises(UnknownModelError, match=r"is not in catalog/models.py$"):
        find("nobody/knows-this")


FOUR_BITS: dict[str, Any] = {
    "id": "mine/four-bits", "parametersBillion": 70, "dtype": "int4", "weightsGb": 39.8,
    "residentDtype": "int4", "residentGb": 40, "layers": 80, "attentionHeads": 64, "kvHeads": 8,
    "headDim": 128, "maxContext": 8192,
}  # fmt: skip


def test_a_model_that_stays_in_four_bits_can_be_described() -> None:
    profile = ModelShape.model_validate(FOUR_BITS).profile
    assert (profile.weights_gb, profile.resident_gb) == (39.8, 40)
    widened = {key: value for key, value in FOUR_BITS.items() if not key.startswith("resident")}
    assert ModelShape.model_validate(widened).profile.resident_gb == 140


def test_a_shape_says_all_that_sizing_reads_of_a_model() -> None:
    """The same model by its id and by its shape is sized alike."""
    listed = find("Qwen/Qwen3.5-397B-A17B-FP8")
    shape = {
        "id": listed.id, "parametersBillion": 397, "dtype": "fp8", "weightsGb": 406,
        "residentGb": 406, "layers": 60, "kvLayers": 15, "stateMibPerSequence": 180,
        "attentionHeads": 32, "kvHeads": 2, "headDim": 256, "maxContext": 262144,
    }  # fmt: skip
    profile = ModelShape.model_validate(shape).profile
    said_by_the_catalogue_alone = {"licence", "status", "notes", "source", "read"}
    differing = {
        field
        for field in ModelProfile.model_fields
        if getattr(profile, field) != getattr(listed, field)
    }
    assert differing <= said_by_the_catalogue_alone


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

"""The language models this project knows: shape, weight size, licence gate, and where they run.

Shapes are those of the MaxText model configs (github.com/AI-Hypercomputer/maxtext, read 2026-08)
or, where a row says so, of the model's own `config.json`. Weight sizes follow from parameters and
dtype; only Qwen3.5's is a measured one. Status per accelerator comes from the support matrices of
github.com/vllm-project/tpu-inference at b8692ff (2026-08-22).
"""

import difflib
from datetime import date
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Dtype = Literal["bf16", "fp8", "mxfp4", "int4"]
ResidentDtype = Literal["bf16", "fp8", "int4"]
Attention = Literal["grouped-query", "multi-head-latent"]

_MAXTEXT = "MaxText model configs, src/maxtext/configs/models"
_HUB = "model card and config.json on Hugging Face"
_TPU_INFERENCE = "vllm-project/tpu-inference support matrices, b8692ff"
_READ = date(2026, 8, 22)


class AcceleratorStatus(BaseModel):
    """Whether a model has been seen to run under vLLM on an accelerator, and by whom."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accelerator: str
    """Name in `catalog.accelerators`."""
    verdict: Literal["passes", "fails"]
    note: str
    source: str = _TPU_INFERENCE
    read: date = _READ


class ModelProfile(BaseModel):
    """What sizing needs to know of a model; a stack file says it of one not listed (ModelShape).

    Sizes: `weights_gb` and `resident_gb` in 10^9 bytes, `state_mib_per_sequence` in MiB, lengths in
    tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    """Repository on the hub, `organisation/name`."""
    parameters_billion: Annotated[float, Field(gt=0)]
    checkpoint_dtype: Dtype
    weights_gb: Annotated[float, Field(gt=0)]
    """Size of the checkpoint: what is staged and read."""
    resident_dtype: ResidentDtype
    resident_gb: Annotated[float, Field(gt=0)]
    """Size in HBM. Equal to `weights_gb` unless the server widens the dtype on load."""
    layers: Annotated[int, Field(gt=0)]
    kv_layers: Annotated[int, Field(gt=0)]
    """Layers that keep keys and values for every token; fewer than `layers` in a hybrid model."""
    attention_heads: Annotated[int, Field(gt=0)]
    kv_heads: Annotated[int, Field(gt=0)]
    head_dim: Annotated[int, Field(gt=0)]
    attention: Attention = "grouped-query"
    latent_dim: Annotated[int, Field(gt=0)] | None = None
    """Compressed key/value width of multi-head latent attention; the rotary part is `head_dim`."""
    state_mib_per_sequence: Annotated[float, Field(ge=0)] = 0
    """Recurrent state of a hybrid model, held per running sequence whatever its length."""
    max_context: Annotated[int, Field(gt=0)]
    chat_template: bool
    licence: str
    gated: bool
    """The hub asks for an accepted licence and a token before it serves the weights."""
    status: tuple[AcceleratorStatus, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = "the stack file"
    read: date | None = None
    """Day the source was read; none for a model described in a stack file."""

    @property
    def hybrid(self) -> bool:
        """Some layers keep a recurrent state instead of keys and values."""
        return self.state_mib_per_sequence > 0

    def status_on(self, accelerator: str) -> AcceleratorStatus | None:
        return next((s for s in self.status if s.accelerator == accelerator), None)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        if self.kv_layers > self.layers:
            problems.append(f"kv_layers ({self.kv_layers}) exceeds layers ({self.layers})")
        if self.hybrid and self.kv_layers == self.layers:
            problems.append(
                "state_mib_per_sequence says hybrid, but kv_layers equals layers: give the number "
                "of full-attention layers as kv_layers"
            )
        if (self.latent_dim is None) == (self.attention == "multi-head-latent"):
            problems.append(
                "latent_dim belongs to attention: multi-head-latent and to no other; "
                f"attention is {self.attention}, latent_dim is {self.latent_dim}"
            )
        if self.attention_heads % self.kv_heads:
            problems.append(
                f"attention_heads ({self.attention_heads}) is not a multiple of kv_heads "
                f"({self.kv_heads})"
            )
        floor = 0.9 * self.parameters_billion * _BYTES[self.resident_dtype]
        if self.resident_gb < floor:
            problems.append(
                f"resident_gb ({self.resident_gb:g}) is less than {self.parameters_billion:g} "
                f"billion parameters take in {self.resident_dtype} ({floor / 0.9:.0f} GB): is "
                "resident_dtype right?"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


_BYTES = {"bf16": 2.0, "fp8": 1.0, "int4": 0.5}


class UnknownModelError(LookupError):
    """A model neither listed here nor described in the stack file."""


def find(model_id: str) -> ModelProfile:
    """The profile of a hub id; UnknownModelError names the nearest ids."""
    if profile := MODELS.get(model_id):
        return profile
    lowered = {known.lower(): known for known in MODELS}
    near = [
        lowered[m] for m in difflib.get_close_matches(model_id.lower(), lowered, n=3, cutoff=0.5)
    ]
    hint = f"; nearest: {', '.join(near)}" if near else ""
    msg = f"model {model_id!r} is not in catalog/models.py{hint}"
    raise UnknownModelError(msg)


def _passes(accelerator: str, note: str, source: str = _TPU_INFERENCE) -> AcceleratorStatus:
    return AcceleratorStatus(accelerator=accelerator, verdict="passes", note=note, source=source)


def _fails(accelerator: str, note: str) -> AcceleratorStatus:
    return AcceleratorStatus(accelerator=accelerator, verdict="fails", note=note)


def _like(base: ModelProfile, **changes: object) -> ModelProfile:
    """The same shape under another id; validated again, unlike `model_copy`."""
    return ModelProfile.model_validate({**base.model_dump(), **changes})


_NO_HBM_V6E = _fails("v6e", "matrix: not enough HBM")
_PASSES_BOTH = (_passes("v6e", "matrix: passing"), _passes("tpu7x", "matrix: passing"))

_LLAMA_8B_INSTRUCT = ModelProfile(
    id="meta-llama/Llama-3.1-8B-Instruct",
    parameters_billion=8.03,
    checkpoint_dtype="bf16",
    weights_gb=16.1,
    resident_dtype="bf16",
    resident_gb=16.1,
    layers=32,
    kv_layers=32,
    attention_heads=32,
    kv_heads=8,
    head_dim=128,
    max_context=131072,
    chat_template=True,
    licence="llama3.1",
    gated=True,
    status=_PASSES_BOTH,
    source=f"{_MAXTEXT}; {_HUB}",
    read=_READ,
)

_LLAMA_70B_INSTRUCT = ModelProfile(
    id="meta-llama/Llama-3.3-70B-Instruct",
    parameters_billion=70.6,
    checkpoint_dtype="bf16",
    weights_gb=141.2,
    resident_dtype="bf16",
    resident_gb=141.2,
    layers=80,
    kv_layers=80,
    attention_heads=64,
    kv_heads=8,
    head_dim=128,
    max_context=131072,
    chat_template=True,
    licence="llama3.3",
    gated=True,
    status=_PASSES_BOTH,
    source=f"{_MAXTEXT}; {_HUB}",
    read=_READ,
)

_LLAMA_405B_INSTRUCT = ModelProfile(
    id="meta-llama/Llama-3.1-405B-Instruct",
    parameters_billion=406,
    checkpoint_dtype="bf16",
    weights_gb=812,
    resident_dtype="bf16",
    resident_gb=812,
    layers=126,
    kv_layers=126,
    attention_heads=128,
    kv_heads=8,
    head_dim=128,
    max_context=131072,
    chat_template=True,
    licence="llama3.1",
    gated=True,
    source=f"{_MAXTEXT}; {_HUB}",
    read=_READ,
)

_QWEN3_235B_FP8 = ModelProfile(
    id="Qwen/Qwen3-235B-A22B-FP8",
    parameters_billion=235,
    checkpoint_dtype="fp8",
    weights_gb=236,
    resident_dtype="fp8",
    resident_gb=236,
    layers=94,
    kv_layers=94,
    attention_heads=64,
    kv_heads=4,
    head_dim=128,
    max_context=40960,
    chat_template=True,
    licence="apache-2.0",
    gated=False,
    source=f"{_MAXTEXT}; {_HUB}",
    read=_READ,
)

_DEEPSEEK_R1 = ModelProfile(
    id="deepseek-ai/DeepSeek-R1",
    parameters_billion=671,
    checkpoint_dtype="fp8",
    weights_gb=689,
    resident_dtype="fp8",
    resident_gb=689,
    layers=61,
    kv_layers=61,
    attention_heads=128,
    kv_heads=1,
    head_dim=64,
    attention="multi-head-latent",
    latent_dim=512,
    max_context=163840,
    chat_template=True,
    licence="mit",
    gated=False,
    status=(_NO_HBM_V6E,),
    notes=("VLLM_MLA_DISABLE changes its cache layout; sizing assumes it is unset",),
    source=f"{_MAXTEXT}; {_HUB}",
    read=_READ,
)

_ALL = (
    _LLAMA_8B_INSTRUCT,
    _like(_LLAMA_8B_INSTRUCT, id="meta-llama/Llama-3.1-8B", chat_template=False, status=()),
    _LLAMA_70B_INSTRUCT,
    _like(
        _LLAMA_70B_INSTRUCT, id="meta-llama/Llama-3.1-70B-Instruct", licence="llama3.1", status=()
    ),
    _like(
        _LLAMA_70B_INSTRUCT,
        id="meta-llama/Llama-3.1-70B",
        chat_template=False,
        licence="llama3.1",
        status=(
            _passes(
                "v6e",
                "published walkthrough on ct6e-standard-8t",
                "GKE docs, 'Serve an LLM using TPU Trillium on GKE with vLLM'",
            ),
        ),
        notes=("base model: /v1/chat/completions answers 400 unless --chat-template is given",),
    ),
    _LLAMA_405B_INSTRUCT,
    _like(
        _LLAMA_405B_INSTRUCT,
        id="meta-llama/Llama-3.1-405B-Instruct-FP8",
        checkpoint_dtype="fp8",
        weights_gb=410,
        resident_dtype="fp8",
        resident_gb=410,
    ),
    ModelProfile(
        id="Qwen/Qwen3-32B",
        parameters_billion=32.8,
        checkpoint_dtype="bf16",
        weights_gb=65.5,
        resident_dtype="bf16",
        resident_gb=65.5,
        layers=64,
        kv_layers=64,
        attention_heads=64,
        kv_heads=8,
        head_dim=128,
        max_context=40960,
        chat_template=True,
        licence="apache-2.0",
        gated=False,
        status=_PASSES_BOTH,
        source=f"{_MAXTEXT}; {_HUB}",
        read=_READ,
    ),
    _QWEN3_235B_FP8,
    _like(_QWEN3_235B_FP8, id="Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", max_context=262144),
    ModelProfile(
        id="Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
        parameters_billion=480,
        checkpoint_dtype="fp8",
        weights_gb=482,
        resident_dtype="fp8",
        resident_gb=482,
        layers=62,
        kv_layers=62,
        attention_heads=96,
        kv_heads=8,
        head_dim=128,
        max_context=262144,
        chat_template=True,
        licence="apache-2.0",
        gated=False,
        status=(
            _NO_HBM_V6E,
            _passes("tpu7x", "matrix: passing; llm-d serves it on 2x2x1 dynamic slices"),
        ),
        notes=("full attention: the safe choice for prefill/decode on TPU",),
        source=_HUB,
        read=_READ,
    ),
    ModelProfile(
        id="Qwen/Qwen3.5-397B-A17B-FP8",
        parameters_billion=397,
        checkpoint_dtype="fp8",
        weights_gb=406,
        resident_dtype="fp8",
        resident_gb=406,
        layers=60,
        kv_layers=15,
        attention_heads=32,
        kv_heads=2,
        head_dim=256,
        # 45 recurrent layers x 64 heads x 128 x 128 in fp32; half of it in bf16.
        state_mib_per_sequence=180,
        max_context=262144,
        chat_template=True,
        licence="apache-2.0",
        gated=False,
        status=(
            _NO_HBM_V6E,
            _passes(
                "tpu7x",
                "4 chips, tensor parallel 8",
                "AI-Hypercomputer/tpu-recipes, Ironwood inference; weights 406 GB from llm-d "
                "guides",
            ),
        ),
        notes=(
            "hybrid: prefill/decode needs vLLM >= 0.30.0, prefix caching on both roles and an "
            "accuracy check first (tpu-inference PR 2652)",
        ),
        source=f"{_MAXTEXT}; llm-d guides for the weight size",
        read=_READ,
    ),
    ModelProfile(
        id="google/gemma-3-27b-it",
        parameters_billion=27.4,
        checkpoint_dtype="bf16",
        weights_gb=54.8,
        resident_dtype="bf16",
        resident_gb=54.8,
        layers=62,
        kv_layers=62,
        attention_heads=32,
        kv_heads=16,
        head_dim=128,
        max_context=131072,
        chat_template=True,
        licence="gemma",
        gated=True,
        status=_PASSES_BOTH,
        notes=("5 of 6 layers see a window of 1024 tokens; sizing counts them in full",),
        source=f"{_MAXTEXT}; {_HUB}",
        read=_READ,
    ),
    _DEEPSEEK_R1,
    _like(_DEEPSEEK_R1, id="deepseek-ai/DeepSeek-V3", licence="deepseek", status=()),
    ModelProfile(
        id="openai/gpt-oss-120b",
        parameters_billion=117,
        checkpoint_dtype="mxfp4",
        weights_gb=65,
        resident_dtype="bf16",
        resident_gb=234,
        layers=36,
        kv_layers=36,
        attention_heads=64,
        kv_heads=8,
        head_dim=64,
        max_context=131072,
        chat_template=True,
        licence="apache-2.0",
        gated=False,
        status=(_NO_HBM_V6E, _passes("tpu7x", "matrix: correctness passing, speed untested")),
        notes=(
            "MXFP4 is widened to bf16 on TPU, so HBM holds 3.6 times the checkpoint",
            "half of the layers see a window of 128 tokens; sizing counts them in full",
        ),
        source=f"{_MAXTEXT}; {_TPU_INFERENCE}",
        read=_READ,
    ),
)

MODELS = MappingProxyType({profile.id: profile for profile in _ALL})
"""Every known model by its hub id."""

"""Does a model fit a slice, and how much context and concurrency is left.

The arithmetic is per device, because that is where memory runs out: a device holds its share of the
weights and its shard of the KV cache. The cache layout is the one tpu-inference allocates (0.32.0,
`runner/kv_cache.py`, `kernels/*/kernel.py`, read 2026-11-30), padding included.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from catalog.accelerators import Slice
from catalog.models import ModelProfile

KvDtype = Literal["bf16", "fp8"]

GIB = 2**30
COMFORTABLE_SHARE = 0.6
LARGEST_SHARE = 0.85
DEFAULT_UTILIZATION = 0.9
"""vLLM's own default for --gpu-memory-utilization."""
TYPICAL_TOKENS = 2048
"""Prompt and answer of a usual request; a suggested --max-num-seqs has room for so many of these.
The cache is paged: a request takes what it has, not what it may grow to."""
MOST_SEQUENCES = 256
"""Largest --max-num-seqs suggested; AI-Hypercomputer/tpu-recipes uses 64 to 256 on TPU."""
FEWEST_SEQUENCES = 16
"""A suggested --max-model-len leaves room for this many sequences at full length."""

_LANES = 128
_WORD_BITS = 32
_KV_BITS = {"bf16": 16, "fp8": 8}
_RULE = (
    f"weights, recurrent state and one sequence at full length take at most {LARGEST_SHARE:.0%} of "
    "HBM, so that activations and compiled programs have room (RESOURCE_EXHAUSTED in "
    "tpu-recipes#151, tpu-inference#2333)"
)


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """One thing wrong with a model on a slice, and which of its settings to change how."""

    setting: str
    """An argument of `fit`; `model` or `slice` where none of them helps."""
    rule: str
    fix: str
    severe: bool = True

    def __str__(self) -> str:
        return f"{self.rule}. {self.fix[0].upper()}{self.fix[1:]}."


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The verdict on one model on one slice; GiB, and shares of the HBM the model uses."""

    tensor_parallel: int
    hbm_gib: float
    weights_gib: float
    weights_share: float
    needed_share: float
    """Weights, state of all sequences and one full-length sequence, as a share of HBM."""
    kv_tokens: int
    """Tokens the cache holds at once at the given utilization, activations not subtracted."""
    max_model_len: int
    max_num_seqs: int
    full_length_sequences: int
    """Sequences of max_model_len that run at once; further ones wait or are preempted."""
    misfits: tuple[Misfit, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.errors

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(str(each) for each in self.misfits if each.severe)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(str(each) for each in self.misfits if not each.severe)


def illegal_tensor_parallel(model: ModelProfile, size: int, devices: int) -> Misfit | None:
    """Why a tensor-parallel size is illegal for a model on so many devices, or None."""
    where = f"tensor parallel size {size} of {model.id}"
    legal = ", ".join(str(n) for n in legal_tensor_parallel(model, devices))
    rule = None
    if not 1 <= size <= devices:
        rule = f"{where}: the slice has {devices} devices"
    elif model.attention_heads % size:
        rule = (
            f"{where}: its {model.attention_heads} attention heads must divide evenly "
            "(vLLM, config/model.py)"
        )
    elif size % model.kv_heads and model.kv_heads % size:
        rule = (
            f"{where}: of the size and its {model.kv_heads} KV heads one must divide the other "
            "(tpu-inference 0.32.0, utils.py get_padded_num_heads)"
        )
    if rule is None:
        return None
    fix = f"leave it out, and the largest legal one is taken; legal on {devices} devices: {legal}"
    return Misfit(setting="tensor_parallel", rule=rule, fix=fix)


def legal_tensor_parallel(model: ModelProfile, devices: int) -> tuple[int, ...]:
    """All legal tensor-parallel sizes, ascending."""
    return tuple(
        size
        for size in range(1, devices + 1)
        if model.attention_heads % size == 0
        and (size % model.kv_heads == 0 or model.kv_heads % size == 0)
    )


def kv_bytes_per_token(model: ModelProfile, dtype: KvDtype = "bf16") -> int:
    """Keys and values of one token as the model defines them, without padding or replication."""
    width = _KV_BITS[dtype] // 8
    if model.latent_dim is not None:
        return model.kv_layers * (model.latent_dim + model.head_dim) * width
    return 2 * model.kv_layers * model.kv_heads * model.head_dim * width


def kv_bytes_per_token_per_device(model: ModelProfile, size: int, dtype: KvDtype = "bf16") -> int:
    """What one token takes on each of `size` devices, as the kernels lay it out.

    KV heads below `size` are replicated, the head dimension is padded to 128, and heads are padded
    to whole 32-bit words: with one KV head on a device, fp8 saves nothing over bf16. The latent
    cache of multi-head latent attention is whole on every device.
    """
    bits = _KV_BITS[dtype]
    if model.latent_dim is not None:
        elements = _align(model.latent_dim, _LANES) + _align(model.head_dim, _LANES)
        return model.kv_layers * elements * bits // 8
    heads = max(1, model.kv_heads // size)
    packing = _WORD_BITS // bits
    if model.head_dim == _LANES // 2:  # key and value share one row of 128 lanes
        elements = _align(heads, packing) * _LANES
    else:
        elements = _align(2 * heads, packing) * _align(model.head_dim, _LANES)
    return model.kv_layers * elements * bits // 8


def fit(
    model: ModelProfile,
    tpu: Slice,
    *,
    tensor_parallel: int | None = None,
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    kv_dtype: KvDtype = "bf16",
    utilization: float = DEFAULT_UTILIZATION,
) -> Fit:
    """Size a model on a slice; what is not given is chosen as large as is sensible.

    Severe misfits must stop a deployment, the others inform. An illegal tensor-parallel size is
    severe, and is sized with the largest legal one.
    """
    size = largest_tensor_parallel(model, tpu.devices)
    illegal = None
    if tensor_parallel is not None:
        illegal = illegal_tensor_parallel(model, tensor_parallel, tpu.devices)
        size = size if illegal else tensor_parallel

    hbm_gib = size * tpu.accelerator.hbm_gib / tpu.accelerator.devices_per_chip
    weights_gib = model.resident_gb * 1e9 / GIB
    token_gib = size * kv_bytes_per_token_per_device(model, size, kv_dtype) / GIB
    state_gib = model.state_mib_per_sequence / 1024
    room_gib = utilization * hbm_gib - weights_gib

    length = max_model_len
    if length is None:
        length = _sensible_length(model, room_gib, token_gib, state_gib)
    most = max(0, math.floor(room_gib / (length * token_gib + state_gib)))
    sequences = max_num_seqs
    if sequences is None:
        usual = room_gib / (min(length, TYPICAL_TOKENS) * token_gib + state_gib)
        if state_gib:
            # All have their state at once, beside one that has grown to full length.
            share = min(utilization, LARGEST_SHARE)
            usual = min(usual, (share * hbm_gib - weights_gib - length * token_gib) / state_gib)
        sequences = max(1, min(MOST_SEQUENCES, _power_of_two_below(max(0, math.floor(usual)))))
    needed_gib = weights_gib + length * token_gib + sequences * state_gib
    draft = Fit(
        tensor_parallel=size,
        hbm_gib=hbm_gib,
        weights_gib=weights_gib,
        weights_share=weights_gib / hbm_gib,
        needed_share=needed_gib / hbm_gib,
        kv_tokens=max(0, math.floor((room_gib - sequences * state_gib) / token_gib)),
        max_model_len=length,
        max_num_seqs=sequences,
        full_length_sequences=most,
    )
    memory = _Memory(
        devices=tpu.devices,
        hbm=hbm_gib,
        weights=weights_gib,
        token=token_gib,
        state=state_gib,
        utilization=utilization,
    )
    found = [
        *([illegal] if illegal else []),
        *_errors(model, tpu, draft, memory),
        *_warnings(model, tpu, draft, chosen=max_num_seqs is not None),
    ]
    return replace(draft, misfits=tuple(found))


@dataclass(frozen=True, kw_only=True)
class _Memory:
    """What each part takes on a slice, in GiB."""

    devices: int
    """Of the slice; `hbm` is of those that share a layer."""
    hbm: float
    weights: float
    token: float
    state: float
    """Of one sequence."""
    utilization: float

    def longest(self, sequences: int, share: float) -> int:
        """Tokens of one sequence that fit in a share of HBM, in whole blocks of 128."""
        room = share * self.hbm - self.weights - sequences * self.state
        return max(0, math.floor(room / self.token)) // _LANES * _LANES

    def sequences(self, length: int, share: float) -> int:
        """Sequences whose state fits beside one of full length."""
        room = share * self.hbm - self.weights - length * self.token
        return max(0, math.floor(room / self.state)) if self.state else 0

    def share(self, length: int, sequences: int) -> float:
        """Of HBM, for one sequence of full length and the state of all, in hundredths."""
        used = self.weights + length * self.token + sequences * self.state
        return math.ceil(100 * used / self.hbm) / 100


def _errors(model: ModelProfile, tpu: Slice, found: Fit, memory: _Memory) -> Iterator[Misfit]:
    length = f"max_model_len {found.max_model_len} of {model.id}"
    if found.max_model_len > model.max_context:
        yield Misfit(
            setting="max_model_len",
            rule=f"{length}: the model was made for {model.max_context} tokens ({model.source})",
            fix=f"use {model.max_context} or less; with rope scaling configured, give the model's "
            "shape with a larger max_context",
        )
    if found.needed_share > LARGEST_SHARE:
        rule = f"{_sizes(model, tpu, found)}. Rule: {_RULE}"
        yield _smaller(model, found, memory, LARGEST_SHARE, rule)
    elif found.max_model_len > found.kv_tokens:
        rule = (
            f"{length}: the cache holds {found.kv_tokens} tokens on {_describe(tpu)}, and vLLM "
            "does not start when one sequence cannot fit"
        )
        needed = memory.share(found.max_model_len, found.max_num_seqs)
        if memory.utilization < needed <= DEFAULT_UTILIZATION:
            yield Misfit(
                setting="utilization",
                rule=rule,
                fix=f"use {needed} or more; vLLM's default is {DEFAULT_UTILIZATION}",
            )
        else:
            yield _smaller(model, found, memory, memory.utilization, rule)


def _smaller(model: ModelProfile, found: Fit, memory: _Memory, share: float, rule: str) -> Misfit:
    """Which setting is to change, and how far."""
    largest = largest_tensor_parallel(model, memory.devices)
    if found.tensor_parallel < largest:
        fix = f"use {largest}: only the memory of the devices that share a layer counts"
        return Misfit(setting="tensor_parallel", rule=rule, fix=fix)
    if found.weights_share > share:
        smaller = ", or an fp8 checkpoint" if model.resident_dtype == "bf16" else ""
        return Misfit(
            setting="model",
            rule=rule,
            fix=f"use a larger slice, one with more chips, or another model{smaller}",
        )
    sequences = memory.sequences(found.max_model_len, share)
    if sequences:
        fix = f"use {sequences} or less, or a slice with more chips"
        return Misfit(setting="max_num_seqs", rule=rule, fix=fix)
    longest = memory.longest(found.max_num_seqs, share)
    fix = f"use {longest} or less, or a slice with more chips"
    if not longest:
        fix = "lower it and the number of sequences, or use a slice with more chips"
    return Misfit(setting="max_model_len", rule=rule, fix=fix)


def _warnings(model: ModelProfile, tpu: Slice, found: Fit, *, chosen: bool) -> Iterator[Misfit]:
    """`chosen` says that somebody set the number of sequences."""
    if COMFORTABLE_SHARE < found.needed_share <= LARGEST_SHARE:
        yield Misfit(
            setting="slice",
            rule=f"{_sizes(model, tpu, found)}: above {COMFORTABLE_SHARE:.0%} the cache is small, "
            f"{found.kv_tokens} tokens are left",
            fix="take a slice with more chips if requests are preempted",
            severe=False,
        )
    if chosen and 0 < found.full_length_sequences < found.max_num_seqs:
        yield Misfit(
            setting="max_num_seqs",
            rule=f"max_num_seqs {found.max_num_seqs} of {model.id}: only "
            f"{found.full_length_sequences} sequences of {found.max_model_len} tokens fit at "
            "once; when more grow that long, some are preempted and recomputed",
            fix=f"use {found.full_length_sequences}, or leave it where most are shorter",
            severe=False,
        )
    if found.tensor_parallel < tpu.devices:
        largest = largest_tensor_parallel(model, tpu.devices)
        yield Misfit(
            setting="tensor_parallel" if found.tensor_parallel < largest else "slice",
            rule=f"tensor parallel {found.tensor_parallel} of {model.id} leaves "
            f"{tpu.devices - found.tensor_parallel} of {tpu.devices} devices of "
            f"{_describe(tpu)} idle",
            fix=f"use {largest}, or a smaller slice"
            if found.tensor_parallel < largest
            else "use a smaller slice: its heads allow no larger size",
            severe=False,
        )
    status = model.status_on(tpu.accelerator.name)
    if status and status.verdict == "fails":
        yield Misfit(
            setting="model",
            rule=f"{model.id} on {status.accelerator}: {status.note} ({status.source})",
            fix="use another model, or another accelerator",
            severe=False,
        )


def _sizes(model: ModelProfile, tpu: Slice, found: Fit) -> str:
    rest = found.needed_share * found.hbm_gib - found.weights_gib
    return (
        f"{model.id} on {_describe(tpu)}, tensor parallel {found.tensor_parallel}: weights "
        f"{found.weights_gib:.0f} GiB in {model.resident_dtype}, state and one sequence of "
        f"{found.max_model_len} tokens {rest:.1f} GiB, together {found.needed_share:.0%} of "
        f"{found.hbm_gib:.0f} GiB"
    )


def _describe(tpu: Slice) -> str:
    return f"a {tpu.shape} slice of {tpu.accelerator.name} ({tpu.chips} chips)"


def largest_tensor_parallel(model: ModelProfile, devices: int) -> int:
    """The default: a legal size that leaves no part of the slice over."""
    return max(n for n in legal_tensor_parallel(model, devices) if devices % n == 0)


def startup_budget_seconds(model: ModelProfile) -> int:
    """How long a replica may take to serve: weights at 0.1 GB/s plus 20 minutes to compile.

    Bounded by 30 minutes and the 4 hours llm-d's TPU manifests allow (llm-d/llm-d,
    guides/optimized-baseline/modelserver/tpu, 2026-08). The rate is deliberately slow: vllm#23115
    reports loads through a bucket mount at that order.
    """
    return round(min(4 * 3600, max(1800, model.weights_gb / 0.1 + 1200)))


def _sensible_length(
    model: ModelProfile, room_gib: float, token_gib: float, state_gib: float
) -> int:
    room_for_tokens = max(0.0, room_gib - FEWEST_SEQUENCES * state_gib)
    longest = math.floor(room_for_tokens / token_gib / FEWEST_SEQUENCES)
    return min(model.max_context, max(1024, _power_of_two_below(longest)))


def _align(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _power_of_two_below(value: int) -> int:
    return 1 << (value.bit_length() - 1) if value > 0 else 0

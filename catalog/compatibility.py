"""May a model be prefilled in one place and decoded in another, and does anybody know the answers.

A transfer of keys and values that goes wrong raises no error: the text is merely wrong. What is
known of each kind of model and release of tpu-inference stands here, with its source; all of it is
about the one connector that is used.
"""

from dataclasses import dataclass
from datetime import date
from typing import Literal

from catalog.models import ModelProfile
from catalog.source import READ, Source

Kind = Literal["full-attention", "hybrid", "latent"]
Verdict = Literal["ok", "refuse", "needs proof"]
Version = tuple[int, int, int]

CONNECTOR = "TPUConnectorHMA"
MODULE = "tpu_inference.distributed.tpu_connector_hma"

WHEELS = Source(
    "tpu-inference 0.26.0 to 0.32.0 on PyPI, distributed/tpu_connector_hma.py and "
    "runner/tpu_runner.py, read and not run",
    date(2026, 11, 30),
)
MATRIX = Source("vllm-project/tpu-inference support matrices, b8692ff", date(2026, 8, 22))
STATE = Source("vllm-project/tpu-inference PR 2652", READ)
INITIALISER = Source("vllm-project/tpu-inference PR 3566; llm-d/llm-d PR 2533", READ)

NEWEST_READ: Version = (0, 32, 0)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is known of one kind of model in releases `first` to `last`, both included."""

    kind: Kind
    first: Version
    last: Version
    verdict: Verdict
    reason: str
    fix: str
    source: Source


_KINDS: tuple[Kind, ...] = ("full-attention", "hybrid", "latent")

_NO_INITIALISER = tuple(
    Row(
        kind=kind,
        first=(0, 27, 0),
        last=(0, 29, 9),
        verdict="refuse",
        reason="the connector lacks its base initialiser: the engine ends at start with "
        "AttributeError _kv_transfer_config",
        fix="use 0.30.0 or newer",
        source=INITIALISER,
    )
    for kind in _KINDS
)

TABLE: tuple[Row, ...] = (
    *_NO_INITIALISER,
    Row(
        kind="full-attention",
        first=(0, 26, 0),
        last=(0, 26, 9),
        verdict="ok",
        reason="keys and values of every layer are moved by block",
        fix="",
        source=WHEELS,
    ),
    Row(
        kind="full-attention",
        first=(0, 30, 0),
        last=NEWEST_READ,
        verdict="ok",
        reason="keys and values of every layer are moved by block; the matrix has P/D over DCN "
        "passing on TPU7x",
        fix="",
        source=MATRIX,
    ),
    Row(
        kind="latent",
        first=(0, 30, 0),
        last=NEWEST_READ,
        verdict="needs proof",
        reason="nobody has published answers of a latent cache that was moved between TPUs",
        fix="prove it: python -m ops verify --accuracy",
        source=MATRIX,
    ),
    Row(
        kind="hybrid",
        first=(0, 0, 0),
        last=(0, 26, 9),
        verdict="refuse",
        reason="recurrent state is taken from the wrong slots: published scores fell from 83.9 % "
        "to 14.6 % (mmlu_pro)",
        fix="use 0.30.0 or newer, or a model with full attention",
        source=STATE,
    ),
    Row(
        kind="hybrid",
        first=(0, 30, 0),
        last=NEWEST_READ,
        verdict="needs proof",
        reason="recurrent state is moved by block id, which is right only where the runner finds "
        "it by block as well: in cache mode `align`, that is with prefix caching and without "
        "speculative decoding. By reading; nobody has published its answers",
        fix="keep prefix caching on, and prove it: python -m ops verify --accuracy",
        source=WHEELS,
    ),
)
"""The first row that holds decides."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the table says of a model and a release."""

    verdict: Verdict
    reason: str
    fix: str
    source: Source


def kind_of(model: ModelProfile) -> Kind:
    if model.state_mib_per_sequence or model.kv_layers < model.layers:
        return "hybrid"
    return "latent" if model.attention == "multi-head-latent" else "full-attention"


def judge(model: ModelProfile, version: Version | None) -> Found:
    """The verdict on a model with a release; None is a release that nobody states."""
    kind = kind_of(model)
    if version is None:
        return Found(
            verdict="refuse",
            reason=f"nobody can tell which release the image holds, and {CONNECTOR} ends the "
            "engine or its answers in some",
            fix="use a tag that begins with vMAJOR.MINOR, or state the release of tpu-inference in "
            "it beside the image",
            source=WHEELS,
        )
    for row in TABLE:
        if row.kind == kind and row.first <= version <= row.last:
            return Found(
                verdict=row.verdict,
                reason=row.reason,
                fix=row.fix,
                source=row.source,
            )
    newer = version > NEWEST_READ
    return Found(
        verdict="needs proof" if newer else "refuse",
        reason=f"release {text(version)} is {'newer' if newer else 'older'} than any that was read "
        f"for models of kind {kind}",
        fix="prove its answers: python -m ops verify --accuracy"
        if newer
        else "use 0.30.0 or newer",
        source=WHEELS,
    )


PROOF_TOKENS = 1024
"""A passage, a question and its answer, beside what makes a prompt of `ops verify` long."""


def longest_local_prefill(max_model_len: int) -> int:
    """Largest `localPrefillTokens` with which a prompt can be shown to reach a prefill server.

    It has twice as many words as that, and a word is a token and a half at most in that text.
    """
    return max(0, (max_model_len - PROOF_TOKENS) // 3)


def parse(text: str) -> Version:
    """From MAJOR.MINOR.PATCH."""
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


def text(version: Version) -> str:
    return ".".join(map(str, version))

"""What sizing finds, in the words of a stack file."""

import re
from collections.abc import Iterator

from pydantic.alias_generators import to_camel

from catalog.accelerators import Slice
from catalog.disaggregated import ROLES
from catalog.partitions import slice_of
from catalog.source import READ, Source
from config.problem import Problem
from config.serving import RoleGroups, Served, ServedModel, disaggregated

PATH = "tpuserve:serving"
SIZING = "catalog/sizing.py"
SCHEDULER = Source("vLLM 0.32.0, config/scheduler.py", READ)


def misfits(
    path: str, said: Served, shape: Slice, role: RoleGroups | None = None, at: str = ""
) -> Iterator[Problem]:
    """Settings of a model that its slice has no room for; `at` is where a role says its own."""
    own = role.max_num_seqs if role else None
    merged = said.model_copy(update={"max_num_seqs": own or said.max_num_seqs})
    found = merged.fit(shape)
    for each in found.misfits:
        here = f"{at}." if own and each.setting == "max_num_seqs" else ""
        # A model on single hosts says its slice by the name of a pool.
        setting = each.setting if hasattr(said, each.setting) else "pool"
        given = said.profile.id if setting == "model" else getattr(merged, setting)
        yield Problem(
            path=f"{path}.{here}{to_camel(setting)}",
            value=given or getattr(found, setting),
            rule=_worded(each.rule),
            fix=_worded(each.fix),
            source=SIZING,
            severity="error" if each.severe else "warning",
        )


def _worded(text: str) -> str:
    """Settings under the names they have in a stack file."""
    return re.sub(
        r"\b(max_(?:context|model_len|num_seqs))\b", lambda found: to_camel(found[0]), text
    )


def steps_hold_their_sequences(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    found: list[Problem] = []
    for key, model in disaggregated(serving).items():
        for role in ROLES:
            own, tokens = model.role(role), model.max_num_batched_tokens
            sequences = own.max_num_seqs or model.fit(slice_of(model.slice)).max_num_seqs
            path = f"{PATH}.{key}.{role}" if own.max_num_batched_tokens else f"{PATH}.{key}"
            found += step(path, own.max_num_batched_tokens or tokens, sequences)
    yield from dict.fromkeys(found)


def step(path: str, tokens: int | None, sequences: int | None) -> Iterator[Problem]:
    """Whether a step of so many tokens serves so many sequences."""
    if tokens and sequences and tokens < sequences:
        yield Problem(
            path=f"{path}.maxNumBatchedTokens",
            value=tokens,
            rule=f"a step has a token for each of the {sequences} sequences that run at once: vLLM "
            "does not start",
            fix=f"use {sequences} or more, or a maxNumSeqs of {tokens} or less",
            source=SCHEDULER,
        )


CHECKS = (steps_hold_their_sequences,)

"""Prompts that no cache has seen, long enough to be read by a prefill server."""

import secrets

from catalog.compatibility import PROOF_TOKENS, longest_local_prefill
from ops.verify.checks import CheckFailedError
from ops.verify.endpoints import Groups

LEAST_WORDS = 1000
"""Long against a block of the cache, whose last part may be computed instead of moved."""

_PIECE = "The ledger lists nine crates of nails, two coils of rope, one box of chalk. "
_PIECE_WORDS = len(_PIECE.split())
_PIECE_TOKENS = 20
"""At most; a word is never less than one."""


def fresh(groups: Groups, end: str, *, start: str = "", least: int = LEAST_WORDS) -> str:
    """A prompt with text between start and end, and before both a line that was never sent.

    Raises CheckFailedError where a prompt that surely reaches prefill is longer than the model
    takes.
    """
    wanted = max(least, 2 * groups.local_prefill_tokens)
    pieces = min(-(-wanted // _PIECE_WORDS), _most_pieces(groups))
    return f"Entry {secrets.token_hex(8)}.\n{start}\n{_PIECE * pieces}\n{end}"


def _most_pieces(groups: Groups) -> int:
    if groups.local_prefill_tokens > longest_local_prefill(groups.max_model_len):
        msg = (
            f"no prompt can be shown to reach prefill: up to {groups.local_prefill_tokens} tokens "
            f"may stay in decode, and the model takes {groups.max_model_len}"
        )
        raise CheckFailedError(msg, "lower router.localPrefillTokens, or raise maxModelLen")
    return max(0, (groups.max_model_len - PROOF_TOKENS) // _PIECE_TOKENS)

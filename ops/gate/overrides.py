"""One sentence lets one refused thing through, for one commit."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

PREFIX = "gate-ok/"
# GitHub cuts labels at 50 characters, so the label carries a digest of the sentence.
_DIGEST_LENGTH = 16
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class Override:
    """What has to be said to let a finding through."""

    gate: str
    operation: str
    subject: str
    commit: str

    @property
    def sentence(self) -> str:
        return f"allow {self.gate} {self.operation} {self.subject} at {self.commit}"

    @property
    def label(self) -> str:
        digest = hashlib.sha256(self.sentence.encode()).hexdigest()[:_DIGEST_LENGTH]
        return f"{PREFIX}{digest}"


def check_commit(commit: str) -> str:
    """A full commit id; ValueError for anything an attacker could make collide or move."""
    if not _COMMIT.fullmatch(commit):
        msg = (
            f"{commit!r} is not a full commit id: 40 hexadecimal digits, as `git rev-parse` prints"
        )
        raise ValueError(msg)
    return commit


def given(
    gate: str, operation: str, subject: str, commits: Iterable[str], said: Iterable[str]
) -> Override | None:
    """The override among what was said that fits; sentences and labels both count."""
    words = {" ".join(each.split()) for each in said}
    for commit in commits:
        override = Override(gate=gate, operation=operation, subject=subject, commit=commit)
        if override.sentence in words or override.label in words:
            return override
    return None

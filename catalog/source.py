"""Where a fact was read, and when."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class Source:
    """A public document and the day it was read; `firm` is false where sources disagree."""

    text: str
    read: date
    firm: bool = True

    def __str__(self) -> str:
        note = "" if self.firm else ", unverified"
        return f"{self.text} (read {self.read:%Y-%m-%d}{note})"


READ = date(2026, 8, 31)
"""Day by which the public pages of this catalogue were last read, unless an entry says another."""


def docs(title: str, *, firm: bool = True) -> Source:
    """A page of Google Cloud's documentation."""
    return Source(f"Google Cloud docs, '{title}'", READ, firm)

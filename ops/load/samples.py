"""What was measured, one row a request, in columns that cost little to append to."""

from __future__ import annotations  # array[float] is a type only from Python 3.12 on

from array import array
from collections import Counter, deque
from dataclasses import dataclass, field
from math import nan

_RECENT = 1000


@dataclass
class Samples:
    """All requests of one run; times in seconds, starts counted from the beginning of the run.

    `ttft` is nan without streaming. Failed requests are kept apart, with their kind.
    """

    started: array[float] = field(default_factory=lambda: array("d"))
    latency: array[float] = field(default_factory=lambda: array("d"))
    ttft: array[float] = field(default_factory=lambda: array("d"))
    prompt_tokens: array[int] = field(default_factory=lambda: array("l"))
    completion_tokens: array[int] = field(default_factory=lambda: array("l"))
    failed: list[tuple[float, str]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    late: int = 0
    """Requests sent after they were due, because all clients were busy."""
    reconnects: int = 0
    """Kept connections found closed when they were used again."""
    recent: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """End, latency and time to first token of the last requests, for the live display."""

    def add(
        self,
        started: float,
        ended: float,
        *,
        prompt_tokens: int,
        completion_tokens: int,
        first: float = nan,
    ) -> None:
        latency, ttft = ended - started, first - started
        self.started.append(started)
        self.latency.append(latency)
        self.ttft.append(ttft)
        self.prompt_tokens.append(prompt_tokens)
        self.completion_tokens.append(completion_tokens)
        self.recent.append((ended, latency, ttft))

    def fail(self, started: float, kind: str) -> None:
        self.failed.append((started, kind))
        self.errors[kind] += 1

    @property
    def completed(self) -> int:
        return len(self.latency)

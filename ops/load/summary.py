"""Figures of a run: throughput, percentiles, errors by kind, and how they went over time."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.load.plan import Plan
from ops.load.samples import Samples

SCHEMA = 1
QUANTILES = (50, 90, 95, 99)

Column = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean, percentiles and maximum of one figure."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, kw_only=True)
class Interval:
    """What ended in one interval that begins `at` seconds after the start."""

    at: float
    requests_per_second: float
    failures_per_second: float
    tokens_per_second: float
    latency_p50: float | None
    latency_p95: float | None
    ttft_p50: float | None
    ttft_p95: float | None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The figures of one run, after its warm-up; times in seconds."""

    seconds: float
    completed: int
    failed: int
    unfinished: int
    late: int
    reconnects: int
    errors: dict[str, int]
    requests_per_second: float
    prompt_tokens: int
    completion_tokens: int
    tokens_per_second: float
    latency: Spread | None
    ttft: Spread | None
    seconds_per_token: Spread | None
    """Between tokens of one answer after the first; only measured when streaming."""
    client_cpu: float
    """CPU seconds a second that the load itself took, of one core."""
    timeline: tuple[Interval, ...]

    @property
    def failure_share(self) -> float:
        asked = self.completed + self.failed
        return self.failed / asked if asked else 1.0


def summarise(samples: Samples, plan: Plan, seconds: float, cpu_seconds: float) -> Summary:
    """The figures of all requests that started after the warm-up."""
    started, latency, ttft, answered = (
        np.array(column, dtype=float)
        for column in (samples.started, samples.latency, samples.ttft, samples.completion_tokens)
    )
    asked = np.array(samples.prompt_tokens, dtype=float)
    kept = started >= plan.warmup
    started, latency, ttft, answered, asked = (
        column[kept] for column in (started, latency, ttft, answered, asked)
    )
    failed = [(at, kind) for at, kind in samples.failed if at >= plan.warmup]
    kinds = sorted({kind for _, kind in failed})
    measured = max(seconds - plan.warmup, 1e-9)
    several = answered > 1
    between = (latency - ttft)[several] / (answered[several] - 1)
    return Summary(
        seconds=round(seconds, 3),
        completed=len(latency),
        failed=len(failed),
        unfinished=samples.unfinished,
        late=samples.late,
        reconnects=samples.reconnects,
        errors={kind: sum(each == kind for _, each in failed) for kind in kinds},
        requests_per_second=round(len(latency) / measured, 3),
        prompt_tokens=int(asked.sum()),
        completion_tokens=int(answered.sum()),
        tokens_per_second=round(float(answered.sum()) / measured, 3),
        latency=spread(latency),
        ttft=spread(ttft),
        seconds_per_token=spread(between),
        client_cpu=round(cpu_seconds / max(seconds, 1e-9), 3),
        timeline=_timeline(
            plan.warmup, seconds, started + latency, latency, ttft, answered, failed
        ),
    )


def as_table(
    summary: Summary, plan: Plan, *, url: str, model: str, started: datetime, interrupted: bool
) -> dict[str, Any]:
    """The result file."""
    return {
        "schema": SCHEMA,
        "command": "ops load",
        "url": url,
        "model": model,
        "started": started.isoformat(timespec="seconds"),
        "interrupted": interrupted,
        "plan": asdict(plan),
        **asdict(summary),
    }


def spread(column: Column) -> Spread | None:
    """The spread of the measured values, None when there are none."""
    column = column[~np.isnan(column)]
    if not len(column):
        return None
    p50, p90, p95, p99 = (round(float(q), 6) for q in np.percentile(column, QUANTILES))
    mean, largest = round(float(column.mean()), 6), round(float(column.max()), 6)
    return Spread(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, max=largest)


def _timeline(  # noqa: PLR0917  columns of one table
    begin: float,
    end: float,
    ended: Column,
    latency: Column,
    ttft: Column,
    answered: Column,
    failed: Sequence[tuple[float, str]],
) -> tuple[Interval, ...]:
    # At most 120 intervals of whole seconds, or of tenths in a run of a few seconds.
    length = max(end - begin, 0.1)
    width = max(1.0, np.ceil(length / 120)) if length >= 10 else length / 10
    edges = np.arange(begin, end, width)
    slot = np.floor((ended - begin) / width).astype(int)
    fails = np.floor((np.array([at for at, _ in failed], dtype=float) - begin) / width).astype(int)
    intervals = []
    for number, at in enumerate(edges):
        here = slot == number
        seconds = min(width, end - at)
        times, firsts = spread(latency[here]), spread(ttft[here])
        intervals.append(
            Interval(
                at=round(float(at), 3),
                requests_per_second=round(int(here.sum()) / seconds, 3),
                failures_per_second=round(int((fails == number).sum()) / seconds, 3),
                tokens_per_second=round(float(answered[here].sum()) / seconds, 3),
                latency_p50=times.p50 if times else None,
                latency_p95=times.p95 if times else None,
                ttft_p50=firsts.p50 if firsts else None,
                ttft_p95=firsts.p95 if firsts else None,
            )
        )
    return tuple(intervals)

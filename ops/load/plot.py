"""One picture of a run."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ops.load.summary import Interval, Spread, Summary

_BLUE, _ORANGE, _RED = "#1f6fb4", "#e08214", "#c0392b"


def draw(summary: Summary, path: Path, *, title: str) -> None:
    """Throughput, latency and time to first token over time, and their percentiles, as a PNG."""
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    figure.suptitle(title, fontsize=11)
    (requests, latency), (tokens, quantiles) = figure.subplots(2, 2)
    times = [interval.at for interval in summary.timeline]

    def line(axes: Axes, pick: Callable[[Interval], float | None], label: str, colour: str) -> None:
        values = [pick(interval) for interval in summary.timeline]
        axes.plot(
            times,
            [float("nan") if value is None else value for value in values],
            label=label,
            color=colour,
            linewidth=1.6,
            marker="." if len(times) < 40 else None,
        )

    line(requests, lambda i: i.requests_per_second, "completed", _BLUE)
    if summary.failed:
        line(requests, lambda i: i.failures_per_second, "failed", _RED)
    _finish(requests, "Requests per second")
    line(tokens, lambda i: i.tokens_per_second, "output tokens", _BLUE)
    _finish(tokens, "Output tokens per second")
    line(latency, lambda i: i.latency_p50, "whole answer, p50", _BLUE)
    line(latency, lambda i: i.latency_p95, "whole answer, p95", _ORANGE)
    if summary.ttft:
        line(latency, lambda i: i.ttft_p50, "first token, p50", "#7fb3d9")
        line(latency, lambda i: i.ttft_p95, "first token, p95", "#f3c38a")
    _finish(latency, "Latency, seconds")
    _bars(quantiles, summary)
    figure.savefig(path, dpi=110)


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel("seconds since the start", fontsize=8)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.05)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if len(axes.get_lines()) > 1:
        _legend(axes)


def _bars(axes: Axes, summary: Summary) -> None:
    rows: list[tuple[str, Spread, str]] = []
    if summary.ttft:
        rows.append(("first token", summary.ttft, _ORANGE))
    if summary.latency:
        rows.append(("whole answer", summary.latency, _BLUE))
    names = ["p50", "p90", "p95", "p99", "max"]
    height = 0.8 / max(len(rows), 1)
    for index, (label, spread, colour) in enumerate(rows):
        values = [getattr(spread, name) for name in names]
        places = [place + index * height for place in range(len(names))]
        bars = axes.barh(places, values, height, label=label, color=colour)
        axes.bar_label(bars, fmt=lambda value: f" {value:.3g} s", fontsize=8)
    axes.set_yticks([place + height * (len(rows) - 1) / 2 for place in range(len(names))], names)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("Percentiles, seconds", fontsize=10, loc="left")
    if rows:
        _legend(axes)


def _legend(axes: Axes) -> None:
    """Above the axes, to the right of the title, where no line can run through it."""
    axes.legend(
        fontsize=8, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.99), borderpad=0
    )

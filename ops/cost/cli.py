"""`python -m ops cost`: what a preview or a stack's state costs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from catalog.prices import HOURS_PER_MONTH
from ops.console import table_console
from ops.cost.pools import PoolCost, Range
from ops.cost.stack import (
    NOT_COUNTED,
    CostDelta,
    PoolDelta,
    StackCost,
    dollars,
    of_plan,
    of_state,
    over_budget,
)
from ops.preview.events import read
from ops.preview.plan import build
from ops.preview.source import event_file

app = typer.Typer(help="What TPU pools cost.")


@app.command()
def cost(
    source: Annotated[
        Path,
        typer.Argument(
            help="An event log of `pulumi preview`, a folder that holds one, or the file "
            "`pulumi stack export` wrote.",
            exists=True,
        ),
    ],
    budget: Annotated[
        float | None,
        typer.Option(help="Exit with 1 if a month at full size costs more USD than this."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Cost per pool and for the stack, the difference a diff makes, and a month left on."""
    delta = _delta(source)
    after = delta.after
    verdict = over_budget(after, budget) if budget is not None else None
    if as_json:
        typer.echo(json.dumps(_as_json(delta, verdict), indent=2, default=str))
    else:
        _show(delta, verdict)
    if verdict:
        raise typer.Exit(1)


def _delta(source: Path) -> CostDelta:
    path = event_file(source)
    text = path.read_text(encoding="utf-8", errors="replace")
    if '"deployment"' in text[:4096] or '"deployment"' in text[-4096:]:
        try:
            pools = of_state(text).pools
        except ValueError:
            pools = ()
        if pools:
            return CostDelta(pools=tuple(PoolDelta(before=each, after=each) for each in pools))
    return of_plan(build(read(path)))


def _show(delta: CostDelta, verdict: str | None) -> None:
    console = table_console(soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("pool", "machine", "capacity", "region", "chips", "USD/h", "change"):
        right = heading in ("chips", "USD/h", "change")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for each in delta.pools:
        shown = each.after or each.before
        if shown is None:
            continue
        table.add_row(
            each.pool,
            shown.machine,
            shown.capacity,
            shown.region,
            span(shown.chips),
            money(each.after),
            change(each),
        )
    if delta.pools:
        console.print(table, soft_wrap=False)
    console.print(totals(delta))
    for each in delta.pools:
        shown = each.after or each.before
        for note in shown.notes if shown else ():
            console.print(f"{each.pool}: {note}", style="dim")
    for source in sorted({str(pool.price.source) for pool in delta.after.pools if pool.price}):
        console.print(f"Price: {source}", style="dim")
    console.print(NOT_COUNTED, style="dim")
    if verdict:
        console.print(f"over budget: {verdict}", style="bold red")


def totals(delta: CostDelta) -> str:
    """One line: now, the difference, and what a month costs."""
    after = delta.after
    line = (
        f"{dollars(after.per_hour)}/h ({dollars(delta.per_hour, signed=True)}/h); left on for a "
        f"month ({HOURS_PER_MONTH} h) at full size {dollars(after.per_month)}"
    )
    if after.unpriced:
        line += f", plus {len(after.unpriced)} pool(s) without a known price or size"
    return line


def span(amount: Range | None) -> str:
    """`4`, `0-16`, or `?`."""
    if amount is None:
        return "?"
    return f"{amount.low:g}" if amount.low == amount.high else f"{amount.low:g}-{amount.high:g}"


def money(cost: PoolCost | None) -> str:
    if cost is None:
        return "gone"
    if cost.per_hour is None:
        return "unknown"
    low, high = cost.per_hour.low, cost.per_hour.high
    return dollars(high) if low == high else f"{dollars(low)} to {dollars(high)}"


def change(delta: PoolDelta) -> str:
    if not delta.changes:
        return "="
    return "unknown" if delta.per_hour is None else dollars(delta.per_hour, signed=True)


def _as_json(delta: CostDelta, verdict: str | None) -> dict[str, object]:
    after: StackCost = delta.after
    return {
        "perHour": after.per_hour,
        "leastPerHour": after.least_per_hour,
        "perMonth": after.per_month,
        "changePerHour": delta.per_hour,
        "changePerMonth": delta.per_month,
        "unknown": list(delta.unknown),
        "unpriced": [pool.pool for pool in after.unpriced],
        "overBudget": verdict,
        "pools": [
            {"before": _pool(each.before), "after": _pool(each.after)} for each in delta.pools
        ],
    }


def _pool(cost: PoolCost | None) -> dict[str, object] | None:
    return asdict(cost) if cost else None

"""The report for a person at a terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ops.cost.cli import totals
from ops.preview.disruption import NOTHING, Risk
from ops.preview.redact import Redactor
from ops.report.markdown import counts, diff
from ops.report.model import View, risks, verdict

_COLORS = {
    Risk.SAFE: "green",
    Risk.RESTARTS_PODS: "yellow",
    Risk.REMOVES: "yellow",
    Risk.ROLLS_NODES: "yellow",
    Risk.REPLACES_POOL: "red",
    Risk.OUTAGE: "red",
    Risk.LOSES_DATA: "bold red",
}
_VERDICTS = {
    "failed": "bold white on red",
    "blocked": "bold red",
    "changes": "bold",
    "drift": "bold yellow",
    "no changes": "bold green",
}


def show(view: View, console: Console, *, redactor: Redactor, verbose: bool = False) -> None:
    """One stack; `verbose` adds the properties of every change and the quieter findings."""
    lines = [*_verdict(view, verbose), *_changes(view, verbose)]
    for line in lines:
        redacted = redactor.text(line.plain)
        if redacted != line.plain:
            line.plain = redacted
    # One print: measuring and wrapping each line by itself takes longer than all the rest.
    console.print(Text("\n").join(lines), soft_wrap=True)


def _verdict(view: View, verbose: bool) -> Iterator[Text]:
    report = view.report
    head = f"{report.stack}: {verdict(report)}"
    said = risks(report)
    yield Text(f"{head} · {said}" if said else head, _VERDICTS[report.verdict])
    if report.counts:
        yield Text(counts(report))
    if view.cost.pools:
        yield Text(totals(view.cost))
    if report.policies:
        told = ", ".join(f"{number} {level}" for level, number in report.policies.items())
        yield Text(f"policies: {told}")
    for note in report.notes:
        yield Text(note, "yellow")
    for error in report.errors:
        yield Text(error, "red")
    for gate in view.gates:
        mark = "refused" if gate.refuses else "allowed" if gate.overridden else "advisory"
        yield Text(f"{gate.gate} {mark}: {gate.text}", "red" if gate.refuses else "")
        if gate.override and gate.refuses:
            yield Text(f"   {gate.override.sentence}", "dim")
    for finding in view.findings:
        if finding.level == "mandatory" or verbose:
            style = "red" if finding.level == "mandatory" else "dim"
            text = f"{finding.level}: {finding.policy}: {finding.resource}: {finding.message}"
            yield Text(text, style)


def _changes(view: View, verbose: bool) -> Iterator[Text]:
    shown = [each for each in view.acting if verbose or each[0].operation != "create"]
    for change, risk, effects in shown:
        line = Text(f"{change.operation:8}{change.name}  ")
        line.append(f"{change.kind}, {change.component}  ", "dim")
        line.append(risk.text, _COLORS[risk])
        yield line
        detail = [f"forced by {reason}" for reason in change.reasons]
        detail += [str(effect) for effect in effects if effect is not NOTHING]
        if verbose and change.operation != "create":
            detail += diff(change).splitlines()
        for each in detail:
            yield Text(f"        {each}", "dim")
    hidden = len(view.acting) - len(shown)
    if hidden:
        yield Text(f"{hidden} created (--verbose lists them)", "dim")
    for change in view.drift:
        yield Text(f"drift: {change.operation} {change.kind} {change.name}", "yellow")
        yield Text(diff(change), "dim")

"""`python -m ops gate`: refuse a plan that needs a second thought."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from ops.cost.stack import of_plan
from ops.gate.rules import Finding, judge
from ops.gate.said import gather
from ops.gate.settings import FILE, load_settings
from ops.github import GitHubError
from ops.preview.plan import Plan, build
from ops.preview.redact import Redactor
from ops.preview.source import load

app = typer.Typer(help="Refuse plans that need a second thought.")

REFUSED = 1
UNUSABLE = 2


@app.command()
def gate(  # noqa: PLR0917  typer reads the options from the signature
    sources: Annotated[
        list[Path],
        typer.Argument(help="Event logs of `pulumi preview`, or folders that hold one."),
    ],
    commit: Annotated[str, typer.Option(help="Full id of the commit the plan was made from.")] = "",
    allow: Annotated[
        list[str] | None, typer.Option(help="An override sentence or label, as printed.")
    ] = None,
    allow_file: Annotated[
        Path | None, typer.Option(help="Override sentences, one a line.", exists=True)
    ] = None,
    repository: Annotated[
        str, typer.Option(help="owner/name: read override labels from GitHub.")
    ] = "",
    pull: Annotated[
        int | None,
        typer.Option(help="Pull request; without it the one the commit was merged from."),
    ] = None,
    token: Annotated[str, typer.Option(envvar="GITHUB_TOKEN", help="GitHub token.")] = "",
    budget: Annotated[float | None, typer.Option(help="USD a month; overrides gates.yaml.")] = None,
    settings_file: Annotated[
        Path, typer.Option("--settings", help="Levels and thresholds.", exists=True)
    ] = FILE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Judge previews; exit 1 if something is refused, 2 if a preview cannot be judged."""
    console = Console(soft_wrap=True, highlight=False)
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        settings = load_settings(settings_file)
        said = gather(
            settings,
            commit=commit,
            words=_words(allow, allow_file),
            repository=repository,
            pull=pull,
            token=token,
        )
    except (ValidationError, ValueError, GitHubError) as error:
        errors.print(str(error), markup=False)
        raise typer.Exit(UNUSABLE) from error
    unusable = False
    verdicts: dict[str, list[Finding]] = {}
    for source in sources:
        preview = load(source)
        plan = build(preview.log, Redactor(), stack=preview.stack)
        if reason := cannot_judge(plan):
            errors.print(f"{plan.stack}: {reason}", markup=False)
            unusable = True
            continue
        gates = settings.gates(plan.stack).with_budget(budget)
        verdicts[plan.stack] = judge(
            plan, of_plan(plan), gates, commits=said.commits, said=said.words
        )
    if as_json:
        typer.echo(json.dumps({k: [as_dict(f) for f in v] for k, v in verdicts.items()}, indent=2))
    else:
        for note in said.notes:
            console.print(note, markup=False, style="yellow")
        for stack, findings in verdicts.items():
            _show(console, stack, findings, bool(said.commits))
    if unusable:
        raise typer.Exit(UNUSABLE)
    if any(finding.refuses for findings in verdicts.values() for finding in findings):
        raise typer.Exit(REFUSED)


def cannot_judge(plan: Plan) -> str | None:
    """A plan that broke off may hide the very step a gate is for."""
    if plan.complete:
        return None
    return "the preview did not finish, so there is nothing to judge; see its own errors"


def _words(allow: Iterable[str] | None, allow_file: Path | None) -> list[str]:
    lines = allow_file.read_text(encoding="utf-8").splitlines() if allow_file else []
    return [*(allow or []), *(line for line in lines if not line.startswith("#"))]


def _show(console: Console, stack: str, findings: list[Finding], bound: bool) -> None:
    refused = sum(finding.refuses for finding in findings)
    verdict = f"refused, {refused} reason(s)" if refused else "passes"
    console.print(f"{stack}: {verdict}", style="bold red" if refused else "bold green")
    for finding in findings:
        mark = "refused" if finding.refuses else "allowed" if finding.overridden else "advisory"
        console.print(f"  {finding.gate} {mark}: {finding.text}", markup=False)
        console.print(f"     fix: {finding.fix}", markup=False, style="dim")
        if finding.override and finding.refuses:
            console.print("     or let it through, for this commit only:", style="dim")
            console.print(f"       {finding.override.sentence}", markup=False)
            console.print(f"       label: {finding.override.label}", markup=False)
        elif finding.override:
            console.print(f"     by: {finding.override.sentence}", markup=False, style="dim")
    if refused and not bound:
        console.print("  Give --commit to be told the override text.", style="dim")


def as_dict(finding: Finding) -> dict[str, object]:
    override = finding.override
    return {
        "gate": finding.gate,
        "level": finding.level,
        "refuses": finding.refuses,
        "operation": finding.operation,
        "subject": finding.subject,
        "text": finding.text,
        "fix": finding.fix,
        "override": override and override.sentence,
        "label": override and override.label,
        "overridden": finding.overridden,
    }

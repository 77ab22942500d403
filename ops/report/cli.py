"""`python -m ops report`: what a preview would do, for a pull request, a machine, a terminal."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from pydantic_core import to_json
from rich.console import Console

from ops.gate.said import gather
from ops.gate.settings import FILE, load_settings
from ops.github import GitHub, GitHubError
from ops.preview.redact import Redactor, secrets_of_config
from ops.preview.source import load
from ops.report import comment as comments
from ops.report.budget import BUDGET
from ops.report.markdown import marker, render
from ops.report.model import Report, View, assemble, look
from ops.report.terminal import show

app = typer.Typer(help="Reports of `pulumi preview`.", no_args_is_help=True)

FAILED = 1
UNUSABLE = 2

Sources = Annotated[
    list[Path],
    typer.Argument(
        help="Event logs of `pulumi preview --event-log`, or folders with events.jsonl, "
        "output.txt and exit-code.",
    ),
]
ConfigSecrets = Annotated[
    list[Path] | None,
    typer.Option(
        help="What `pulumi config --show-secrets --json` printed: its secrets are blanked.",
        exists=True,
    ),
]


@app.command("render")
def render_report(  # noqa: PLR0917  typer reads the options from the signature
    sources: Sources,
    markdown: Annotated[Path | None, typer.Option(help="Write the comment here.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write JSON here.")] = None,
    commit: Annotated[str, typer.Option(help="Full id of the previewed commit.")] = "",
    base: Annotated[str, typer.Option(help="Commit the change is measured against.")] = "",
    run_url: Annotated[str, typer.Option(help="Where the whole output is kept.")] = "",
    tools: Annotated[str, typer.Option(help="Versions to state, such as the CLI's.")] = "",
    simulated: Annotated[bool, typer.Option(help="It ran on the simulated cloud.")] = False,
    allow: Annotated[list[str] | None, typer.Option(help="Gate overrides that were given.")] = None,
    repository: Annotated[str, typer.Option(help="owner/name, to read override labels.")] = "",
    pull: Annotated[int | None, typer.Option(help="Pull request with override labels.")] = None,
    token: Annotated[str, typer.Option(envvar="GITHUB_TOKEN")] = "",
    config_secrets: ConfigSecrets = None,
    settings_file: Annotated[
        Path, typer.Option("--settings", help="Levels and thresholds of gates.", exists=True)
    ] = FILE,
    budget: Annotated[int, typer.Option(help="Largest comment, in bytes.", min=3000)] = BUDGET,
    name: Annotated[str, typer.Option(help="Name in the comment's hidden marker.")] = "",
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False,
    strict: Annotated[
        bool, typer.Option(help="Exit 1 if a preview failed or a policy or gate refuses.")
    ] = False,
) -> None:
    """Show a report, and write it as Markdown and JSON where asked."""
    redactor = _redactor(config_secrets)
    try:
        settings = load_settings(settings_file)
        said = gather(
            settings,
            commit=commit,
            words=allow or (),
            repository=repository if pull is not None else "",
            pull=pull,
            token=token,
        )
    except (ValidationError, ValueError, GitHubError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNUSABLE) from error
    views = [
        look(load(source), settings, redactor=redactor, commits=said.commits, said=said.words)
        for source in sources
    ]
    report = assemble(
        views, commit=commit, base=base, run_url=run_url, tools=tools, simulated=simulated
    )
    if markdown:
        text = render(report, views, redactor=redactor, budget=budget, name=name)
        _write(markdown, text)
    if json_file:
        _write(json_file, summary_json(report, redactor))
    console = Console()
    for note in said.notes:
        console.print(note, markup=False, style="yellow")
    for view in views:
        show(view, console, redactor=redactor, verbose=verbose)
    if strict and any(view.report.verdict in ("failed", "blocked") for view in views):
        raise typer.Exit(FAILED)


@app.command("redact")
def redact_events(
    source: Annotated[Path, typer.Argument(help="Event log or text.", exists=True, dir_okay=False)],
    target: Annotated[Path, typer.Argument(help="Where the redacted log goes.")],
    config_secrets: ConfigSecrets = None,
) -> None:
    """Copy an event log, or what a command printed, without secrets, before it is stored."""
    redactor = _redactor(config_secrets)
    text = source.read_text(encoding="utf-8", errors="replace")
    _write(target, _redacted(text, redactor))


def _redacted(text: str, redactor: Redactor) -> str:
    """Events value by value; what stands between them as one text, for secrets span lines."""
    parts: list[str] = []
    between: list[str] = []
    for line in text.splitlines(keepends=True):
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            between.append(line)
            continue
        parts.append(redactor.text("".join(between)))
        between.clear()
        parts.append(json.dumps(redactor.event(event), ensure_ascii=False) + "\n")
    return "".join([*parts, redactor.text("".join(between))])


@app.command("post")
def post(  # noqa: PLR0917  typer reads the options from the signature
    markdown: Annotated[Path, typer.Argument(help="The comment `render` wrote.", exists=True)],
    repository: Annotated[str, typer.Option(help="owner/name", envvar="GITHUB_REPOSITORY")],
    pull: Annotated[int, typer.Option(help="Number of the pull request.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="The JSON `render` wrote, for the labels.")
    ] = None,
    token: Annotated[str, typer.Option(envvar="GITHUB_TOKEN")] = "",
    api: Annotated[str, typer.Option(envvar="GITHUB_API_URL")] = "https://api.github.com",
    author: Annotated[str, typer.Option(help="Whose comment is kept.")] = comments.BOT,
    quiet: Annotated[bool, typer.Option(help="Post nothing new when nothing changes.")] = False,
) -> None:
    """Create or update the pull request's one comment, and its `iac/` labels."""
    body = markdown.read_text(encoding="utf-8")
    if not body.startswith(marker("")[:20]):
        typer.echo(f"{markdown} does not start with the marker `render` writes", err=True)
        raise typer.Exit(UNUSABLE)
    report = Report.model_validate_json(json_file.read_text()) if json_file else None
    try:
        github = GitHub.open(repository, token, api=api)
        skip = quiet and report is not None and report.quiet
        outcome = comments.upsert(github, pull, body, author=author, skip_new=skip)
        if report:
            comments.set_labels(github, pull, report.labels)
    except GitHubError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from error
    typer.echo(f"comment {outcome}")


def summary_json(report: Report, redactor: Redactor) -> str:
    """The summary for machines, redacted value by value."""
    tree = redactor.tree(report.model_dump(mode="json", by_alias=True))
    return to_json(tree, indent=2).decode() + "\n"


def _redactor(config_secrets: Sequence[Path] | None) -> Redactor:
    known = os.environ.get("TPUSERVE_REDACT", "").splitlines()
    for path in config_secrets or ():
        try:
            known += secrets_of_config(path.read_text(encoding="utf-8"))
        except (ValueError, AttributeError) as error:
            typer.echo(
                f"{path}: not what `pulumi config --show-secrets --json` prints: {error}", err=True
            )
            raise typer.Exit(UNUSABLE) from error
    return Redactor(known)


def _write(path: Path, text: str) -> None:
    if str(path) == "-":
        sys.stdout.write(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


__all__ = ["View", "app", "post", "redact_events", "render_report"]

"""Check a stack file before anything is called: every problem at once, in less than a second."""

from typing import Annotated

import typer
import yaml

from ops.stack_file import judge, placeholders, settings, stack_file

app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    stack: Annotated[
        str, typer.Option("--stack", "-s", help="name of a stack here, or the path of its file")
    ],
) -> None:
    """Print all errors and warnings of a stack file; exit 1 when there is an error."""
    try:
        given = settings(stack)
    except (OSError, yaml.YAMLError) as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise typer.Exit(1) from None
    report = judge(stack, given)
    for problem in report.problems:
        colour = "red" if problem.severity == "error" else "yellow"
        head, *rest = str(problem).splitlines()
        typer.secho(head, fg=colour)
        typer.echo("\n".join([*rest, ""]))
    typer.echo(
        f"{stack_file(stack)}: {_count(len(report.errors), 'error')}, "
        f"{_count(len(report.warnings), 'warning')}"
    )
    if left := list(placeholders(given)):
        typer.secho(f"placeholders, yours to replace before an update: {', '.join(left)}", dim=True)
    raise typer.Exit(1 if report.errors else 0)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

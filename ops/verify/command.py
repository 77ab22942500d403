"""`python -m ops verify`: the options, the display and the exit code."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ops.verify.endpoints import API_KEY_VARIABLE, EndpointError, choose
from ops.verify.evidence import Check, Evidence, Result, Status, Subject, masked, write_atomically
from ops.verify.runner import Options, verify

EXIT_CODES = {
    Result.PASSED: 0,
    Result.FAILED: 1,
    Result.NOT_READY: 3,
    Result.INTERRUPTED: 130,
}
USAGE = 2
_HEARTBEAT_SECONDS = 30
_MARKS = {
    Status.PASSED: "[green]ok[/]",
    Status.FAILED: "[bold red]FAILED[/]",
    Status.SKIPPED: "[yellow]skipped[/]",
}

app = typer.Typer(add_completion=False)


@app.command()
def verify_command(
    *,
    stack: Annotated[
        str | None, typer.Option("--stack", "-s", help="Verify what this stack serves.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Verify this address instead; without /v1.")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(help="Verify this Service through kubectl: namespace/name:port."),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="kubectl context; default: the stack's cluster.")
    ] = None,
    endpoint: Annotated[str | None, typer.Option(help="Only this endpoint of the stack.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Served model name; default: what the stack says.")
    ] = None,
    prompt: Annotated[str, typer.Option(help="What is completed, greedily.")] = Options.prompt,
    expect: Annotated[
        str | None, typer.Option(help="Text the completion must contain, in any case.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1)] = Options.max_tokens,
    wait: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds until ready; default: by the model's size."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for one answer.")
    ] = Options.timeout,
    direct: Annotated[
        bool, typer.Option("--direct", help="Ask the model at its own address from here.")
    ] = False,
    accuracy: Annotated[
        bool | None,
        typer.Option(
            "--accuracy/--no-accuracy",
            help="Score 64 questions; default: for a stack's models on one host, and where "
            "nobody has published the answers.",
        ),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(help="Evidence file; default .tpuserve/verify[-STACK].json."),
    ] = None,
) -> None:
    """Wait until a model is served, ask it, and judge the answers.

    Checks /v1/models, a completion, a chat, a stream and the metrics, content and not only status.
    An API key is taken from TPUSERVE_API_KEY and from nowhere else.

    Exit code: 0 verified, 1 a check failed, 2 wrong usage, 3 never became ready, 130 interrupted.
    """
    key = os.environ.get(API_KEY_VARIABLE) or None
    console = Console(highlight=False)
    try:
        endpoints = choose(
            stack=stack,
            url=url,
            service=service,
            context=context,
            endpoint=endpoint,
            model=model,
        )
    except EndpointError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(USAGE) from None
    options = Options(
        prompt=prompt,
        expect=expect,
        max_tokens=max_tokens,
        timeout=timeout,
        wait=wait,
        direct=direct,
        accuracy=accuracy,
    )
    secrets = tuple(filter(None, (key, *(urlsplit(e.url or "").password for e in endpoints))))
    with _termination_as_interrupt(), Display(console, secrets) as display:
        found = verify(endpoints, options=options, reporter=display, stack=stack, key=key)
    path = evidence or Path(".tpuserve") / f"verify{f'-{stack}' if stack else ''}.json"
    write_atomically(path, found.as_json(secrets))
    console.print(_verdict(found), f"Evidence: {path}", soft_wrap=True)
    raise typer.Exit(EXIT_CODES[found.result])


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """A job that is cancelled ends like Ctrl-C: kubectl is stopped, the evidence is written."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


class Display:
    """A spinner while waiting, a line for each check."""

    def __init__(self, console: Console, secrets: tuple[str, ...] = ()) -> None:
        self._console = console
        self._secrets = secrets
        self._progress: Progress | None = None
        self._subject: Subject | None = None
        self._next_heartbeat = 0.0

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def waiting(self, subject: Subject, elapsed: float, limit: float, problem: str) -> None:
        self._introduce(subject)
        words = escape(masked(problem, self._secrets))
        if not self._console.is_terminal:
            if elapsed >= self._next_heartbeat:
                line = f"  waiting {elapsed:.0f} of {limit:.0f} s: {words}"
                self._console.print(line, soft_wrap=True)
                self._next_heartbeat = elapsed + _HEARTBEAT_SECONDS
            return
        if self._progress is None:
            self._progress = Progress(
                SpinnerColumn(),
                TimeElapsedColumn(),
                BarColumn(20),
                TextColumn(f"of {limit:.0f} s  {{task.description}}"),
                console=self._console,
                transient=True,
            )
            self._progress.add_task("", total=limit)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], completed=elapsed, description=words)

    def checked(self, subject: Subject, check: Check) -> None:
        self._stop()
        self._introduce(subject)
        mark = _MARKS[check.status]
        detail = escape(masked(check.detail, self._secrets))
        self._console.print(f"  {mark} {check.name}: {detail}", soft_wrap=True)
        if check.fix:
            self._console.print(f"     {escape(masked(check.fix, self._secrets))}", soft_wrap=True)

    def _introduce(self, subject: Subject) -> None:
        if subject is self._subject:
            return
        self._subject = subject
        self._next_heartbeat = 0.0
        self._console.print(f"[bold]{escape(subject.name)}[/] at {escape(subject.address)}")

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _verdict(found: Evidence) -> str:
    checks = [check for subject in found.endpoints for check in subject.checks]
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    colour = "green" if found.result is Result.PASSED else "bold red"
    return f"[{colour}]{found.result.upper()}[/] ({summary})."

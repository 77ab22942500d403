"""The program against the simulated cloud: `python -m simcloud up -s prod`.

No account, no network: the real Pulumi engine on providers that only pretend.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from pulumi import automation as auto
from rich.console import Console
from rich.table import Table

from simcloud.cloud import STAMPED_TEXT
from simcloud.engine import Sim
from simcloud.errors import SimError
from simcloud.events import to_json

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
console = Console()
errors = Console(stderr=True)

StackOption = Annotated[
    str, typer.Option("--stack", "-s", help="dev, prod, or the path of a stack file.")
]
RootOption = Annotated[
    Path, typer.Option("--root", help="Scratch folder; a stack keeps its simulated cloud in it.")
]
ProgramOption = Annotated[Path, typer.Option("--program", help="The Pulumi program.")]
ScaleOption = Annotated[
    float | None,
    typer.Option("--scale", min=0, help="Seconds a simulated minute lasts, in place of SIM_SCALE."),
]
EventLogOption = Annotated[
    Path | None, typer.Option("--event-log", help="Append the engine's events to this file.")
]
PackOption = Annotated[
    list[Path] | None, typer.Option("--policy-pack", help="A policy pack; may be repeated.")
]
FaultsOption = Annotated[
    str,
    typer.Option("--faults", help='What goes wrong, such as "create NodePool#2=quota".'),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the engine's events, one a line, and nothing else.")
]

_ROOT = Path(".sim")
_PROGRAM = Path("__main__.py")


@app.command()
def preview(
    *,
    stack: StackOption,
    as_json: JsonOption = False,
    policy_pack: PackOption = None,
    event_log: EventLogOption = None,
    root: RootOption = _ROOT,
    program: ProgramOption = _PROGRAM,
    diff: Annotated[bool, typer.Option("--diff", help="Show every property.")] = False,
) -> None:
    """Show what an update would do."""
    with _project(stack, root, program) as sim, _listener(event_log, as_json) as on_event:
        sim.preview(
            policy_packs=policy_pack or (),
            on_event=on_event,
            on_output=None if as_json else _say,
            diff=diff,
        )


@app.command()
def up(
    *,
    stack: StackOption,
    policy_pack: PackOption = None,
    event_log: EventLogOption = None,
    root: RootOption = _ROOT,
    program: ProgramOption = _PROGRAM,
    scale: ScaleOption = None,
    faults: FaultsOption = "",
) -> None:
    """Make the stack in the simulated cloud."""
    with _project(stack, root, program, scale, faults) as sim, _listener(event_log) as on_event:
        sim.up(policy_packs=policy_pack or (), on_event=on_event, on_output=_say)


@app.command()
def refresh(
    *,
    stack: StackOption,
    event_log: EventLogOption = None,
    root: RootOption = _ROOT,
    program: ProgramOption = _PROGRAM,
) -> None:
    """Compare the state with the simulated cloud."""
    with _project(stack, root, program) as sim, _listener(event_log) as on_event:
        sim.refresh(on_event=on_event, on_output=_say)


@app.command()
def destroy(
    *,
    stack: StackOption,
    event_log: EventLogOption = None,
    root: RootOption = _ROOT,
    program: ProgramOption = _PROGRAM,
    scale: ScaleOption = None,
    faults: FaultsOption = "",
) -> None:
    """Delete the stack from the simulated cloud."""
    with _project(stack, root, program, scale, faults) as sim, _listener(event_log) as on_event:
        sim.destroy(on_event=on_event, on_output=_say)


@app.command()
def outputs(
    stack: StackOption, root: RootOption = _ROOT, program: ProgramOption = _PROGRAM
) -> None:
    """Print the outputs of the last update as JSON; secrets stay hidden."""
    with _project(stack, root, program) as sim:
        _show_outputs(sim)


@app.command()
def cancel(stack: StackOption, root: RootOption = _ROOT, program: ProgramOption = _PROGRAM) -> None:
    """Give up the lock a killed engine left behind."""
    with _project(stack, root, program) as sim:
        sim.cancel()


@app.command()
def demo(
    *,
    stack: StackOption,
    root: RootOption = Path(".sim/demo"),
    program: ProgramOption = _PROGRAM,
    scale: ScaleOption = None,
    policy_pack: PackOption = None,
) -> None:
    """The life of a stack in a fresh simulated cloud, with what each part does and takes."""
    name = _name(stack)
    shutil.rmtree(root / name, ignore_errors=True)
    packs = policy_pack or ()
    with _project(stack, root, program, scale) as sim:
        table = Table("step", "resources", "seconds", title=name)
        for label, run in (
            ("preview", lambda: sim.preview(policy_packs=packs).change_summary),
            ("up", lambda: sim.up(policy_packs=packs).summary.resource_changes),
            ("preview again", lambda: sim.preview().change_summary),
            ("refresh", lambda: sim.refresh().summary.resource_changes),
        ):
            table.add_row(label, *_timed(label, run))
        _show_outputs(sim)
        show_slices(sim)
        if any(item.get("protect") for item in sim.export()["resources"]):
            # As the README tells owners of a real stack to do it.
            sim.set_config({"protect": False})
            unlock = lambda: sim.up().summary.resource_changes  # noqa: E731
            table.add_row("up with protect: false", *_timed("up", unlock))
        run = lambda: sim.destroy().summary.resource_changes  # noqa: E731
        table.add_row("destroy", *_timed("destroy", run))
        console.print(table)
        left = ", ".join(record.id for record in sim.cloud.resources())
        console.print(f"left behind: {left or 'nothing'}")


def _timed(label: str, run: Callable[[], Any]) -> tuple[str, str]:
    """What an operation did, in words, and the seconds it took."""
    with errors.status(label):
        start = time.perf_counter()
        summary = run() or {}
    return _counts(summary), f"{time.perf_counter() - start:.1f}"


def _show_outputs(sim: Sim) -> None:
    shown = {
        name: "[secret]" if output.secret else output.value
        for name, output in sim.outputs().items()
    }
    console.print_json(json.dumps(shown))


def show_slices(sim: Sim) -> None:
    rows = sim.cloud.slicing()
    if rows:
        table = Table("object", "asked for", "in the simulated cluster", title="queues and slices")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def _counts(summary: dict[Any, int]) -> str:
    words = {getattr(op, "value", op): count for op, count in summary.items()}
    return ", ".join(f"{count} {op}" for op, count in sorted(words.items()))


def _name(stack: str) -> str:
    """The stack's name; a path gives it as Pulumi's own stack files do."""
    path = Path(stack)
    return path.stem.removeprefix("Pulumi.") if path.suffix in (".yaml", ".yml") else stack


def _stack_file(name: str, folder: Path) -> Path:
    """The file of a stack that is named: beside the program, or in one of its examples."""
    own = folder / f"Pulumi.{name}.yaml"
    examples = sorted(folder.glob(f"examples/*/Pulumi.{name}.yaml"))
    return own if own.exists() or not examples else examples[0]


@contextmanager
def _project(
    stack: str, root: Path, program: Path, scale: float | None = None, faults: str = ""
) -> Iterator[Sim]:
    """The scratch project of a stack; its errors end the command with one message."""
    name = _name(stack)
    file = Path(stack) if name != stack else _stack_file(name, program.parent)
    errors.print(f"[dim]{STAMPED_TEXT} ({root / name})[/dim]")
    try:
        with Sim(root / name, stack=name, config_file=file, program=program, scale=scale) as sim:
            if faults:
                sim.cloud.set_faults(faults)
            yield sim
    except (SimError, ValueError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


@contextmanager
def _listener(
    path: Path | None, as_json: bool = False
) -> Iterator[Callable[[auto.events.EngineEvent], None] | None]:
    if path is None and not as_json:
        yield None
        return
    file: IO[str] | None = path.open("a") if path else None

    def observe(event: auto.events.EngineEvent) -> None:
        line = to_json(event)
        if file:
            file.write(line + "\n")
        if as_json:
            print(line)

    try:
        yield observe
    finally:
        if file:
            file.close()


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    app()

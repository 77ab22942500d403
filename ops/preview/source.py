"""Where a preview's results lie: an event log, or the folder a workflow filled."""

from dataclasses import dataclass
from pathlib import Path

from ops.preview.events import EventLog, read

EVENTS = "events.jsonl"
OUTPUT = "output.txt"
EXIT_CODE = "exit-code"
STACK = "stack"


@dataclass(frozen=True, kw_only=True)
class Preview:
    """One run of `pulumi preview`: its events, what it printed, how it ended."""

    stack: str
    log: EventLog
    output: str
    exit_code: int | None


def event_file(source: Path) -> Path:
    """The event log itself; `source` may be the folder that holds it."""
    return source / EVENTS if source.is_dir() else source


def load(source: Path) -> Preview:
    """A preview from a file, or from a folder with `events.jsonl`, `output.txt`, `exit-code`.

    A missing event log is a run that failed before the engine started, not an error here.
    """
    if not source.is_dir():
        return Preview(stack=source.stem, log=read(source), output="", exit_code=None)
    events = source / EVENTS
    return Preview(
        stack=_text(source / STACK).strip() or source.resolve().name,
        log=read(events) if events.is_file() else EventLog(),
        output=_text(source / OUTPUT),
        exit_code=_number(_text(source / EXIT_CODE)),
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.lstrip("-").isdigit() else None

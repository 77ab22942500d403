"""What a long set-up step shows: a moving bar on a terminal, a line now and then in a log."""

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

LOG_SECONDS = 20.0


class SetupError(Exception):
    """A set-up step that cannot go on; the message says what to do."""


class Progress:
    """`label`: `count` [of `total`] `unit`, elapsed."""

    def __init__(
        self, console: Console, label: str, *, unit: str, total: int | None = None
    ) -> None:
        self._console, self._label, self._unit, self._total = console, label, unit, total
        self._began = self._said = time.monotonic()
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *([BarColumn()] if total else []),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total, count="")

    def at(self, count: int) -> None:
        """Say how far the step is."""
        of = f" of {self._total}" if self._total else ""
        text = f"{count}{of} {self._unit}"
        self._bar.update(self._task, completed=count, count=text)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= LOG_SECONDS:
            self._said = now
            minutes, seconds = divmod(int(now - self._began), 60)
            self._console.print(f"{self._label}: {text}, {minutes}:{seconds:02}", soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

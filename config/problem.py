"""One thing wrong with a stack file, told so that it can be mended."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from catalog.source import Source

SCHEMA = "tpuserve's configuration schema"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A field, its value, the rule it breaks, where the rule stands, and what to do."""

    path: str
    value: object
    rule: str
    fix: str
    source: Source | str = SCHEMA
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value}"
        return (
            f"{self.severity}: {self.path}{value}\n"
            f"  rule:   {self.rule}\n"
            f"  fix:    {self.fix}\n"
            f"  source: {self.source}"
        )


class ConfigError(Exception):
    """Every error of a stack file at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        count = len(self.problems)
        head = f"the stack file has {count} error{'s' if count != 1 else ''}"
        super().__init__("\n\n".join([head, *map(str, self.problems)]))


def named_twice(
    path: str, names: Sequence[str], source: Source | str = SCHEMA
) -> Iterator[Problem]:
    """Each name of a list that an earlier element has too."""
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Problem(
                path=f"{path}[{index}]",
                value=name,
                rule="is named twice",
                fix="remove one of them",
                source=source,
            )


def nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the list of what exists."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"

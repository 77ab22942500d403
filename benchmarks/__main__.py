"""`python -m benchmarks [NAME ...]`: measure, print, and write benchmarks/README.md."""

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import Figure

MODULES = ("errors", "demo", "preview", "deploy", "serve", "load", "report", "policies")
MARKS = {True: "yes", False: "no", None: "-"}
PAGE = Path(__file__).parent / "README.md"

HEAD = """# Benchmarks

`make bench` measures everything below and writes this page. Cloud durations are a table of public
figures and assumptions (`simcloud/tables/durations.toml`); nothing here was measured on Google
Cloud. What each figure means stands at the top of its module.
"""


def main(names: list[str]) -> None:
    figures: list[Figure] = []
    load = os.getloadavg()[0]
    for name in names or MODULES:
        for figure in importlib.import_module(f"benchmarks.{name}").measure():
            goal = f" (goal {figure.goal}: {MARKS[figure.reached]})" if figure.goal != "-" else ""
            print(f"{figure.what}: {figure.measured}{goal}", flush=True)
            figures.append(figure)
    if not names:
        PAGE.write_text(_page(figures, load))


def _page(figures: list[Figure], load: float) -> str:
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    rows = [
        f"| {each.what} | {each.measured} | {each.goal} | {MARKS[each.reached]} "
        f"| `{each.command}` |"
        for each in figures
    ]
    return "\n".join(
        [
            HEAD,
            f"Last run {datetime.now(UTC):%Y-%m-%d} on {where}; load of the machine before it "
            f"{load:.1f}.",
            "",
            "| figure | measured | goal | reached | command |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1:])

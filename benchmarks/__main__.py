"""`python -m benchmarks [NAME ...]`: measure, print, and write benchmarks/README.md."""

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import Figure

MODULES = ("errors", "demo", "preview", "deploy", "policies", "serve")
PAGE = Path(__file__).parent / "README.md"

HEAD = """# Benchmarks

`make bench` measures everything below and writes this page. Cloud durations are a table of public
figures and assumptions (`simcloud/tables/durations.toml`); nothing here was measured on Google
Cloud. What each figure means stands at the top of its module.
"""


def main(names: list[str]) -> None:
    figures: list[Figure] = []
    for name in names or MODULES:
        for figure in importlib.import_module(f"benchmarks.{name}").measure():
            mark = "reached" if figure.reached else "MISSED"
            print(f"{figure.what}: {figure.measured} (goal {figure.goal}: {mark})", flush=True)
            figures.append(figure)
    if not names:
        PAGE.write_text(_page(figures))


def _page(figures: list[Figure]) -> str:
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    rows = [
        f"| {each.what} | {each.measured} | {each.goal} | {'yes' if each.reached else 'no'} "
        f"| `{each.command}` |"
        for each in figures
    ]
    return "\n".join(
        [
            HEAD,
            f"Last run {datetime.now(UTC):%Y-%m-%d} on {where}.",
            "",
            "| figure | measured | goal | reached | command |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1:])

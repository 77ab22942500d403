"""The console of commands that print tables."""

from rich.console import Console

WIDE = 200


def table_console(*, soft_wrap: bool = False) -> Console:
    """As wide as the terminal; without one as wide as any table, for a file has no edge."""
    terminal = Console().is_terminal
    return Console(soft_wrap=soft_wrap, highlight=False, width=None if terminal else WIDE)

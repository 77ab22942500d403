"""A measured figure and the one it should reach."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of benchmarks/README.md."""

    what: str
    measured: str
    goal: str
    reached: bool | None
    """None where there is no goal."""
    command: str

    @classmethod
    def at_most(cls, what: str, value: float, limit: float, unit: str, command: str) -> "Figure":
        return cls(
            what=what,
            measured=f"{value:.2f} {unit}".strip(),
            goal=f"at most {limit:g} {unit}".strip(),
            reached=value <= limit,
            command=command,
        )

    @classmethod
    def reported(cls, what: str, measured: str, command: str) -> "Figure":
        """A figure without a goal."""
        return cls(what=what, measured=measured, goal="-", reached=None, command=command)

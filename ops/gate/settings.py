"""Levels and thresholds of the gates, by stack."""

from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt
from pydantic.alias_generators import to_camel

GateId = Literal["G1", "G2", "G3", "G4", "G5", "G6", "G7"]
Level = Literal["mandatory", "advisory", "off"]

FILE = Path(__file__).with_name("gates.yaml")


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Overlay(_Section):
    """What a stack sets differently from the default."""

    levels: dict[GateId, Level] = {}
    most_deletes: NonNegativeInt | None = None
    most_deletes_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    most_monthly_increase_usd: NonNegativeFloat | None = None
    monthly_budget_usd: NonNegativeFloat | None = None


class Gates(_Section):
    """The gates of one stack."""

    levels: dict[GateId, Level]
    most_deletes: NonNegativeInt
    most_deletes_percent: Annotated[float, Field(ge=0, le=100)]
    most_monthly_increase_usd: NonNegativeFloat
    monthly_budget_usd: NonNegativeFloat | None = None

    def level(self, gate: GateId) -> Level:
        return self.levels.get(gate, "mandatory")

    def with_budget(self, monthly_usd: float | None) -> Self:
        if monthly_usd is None:
            return self
        return self.model_copy(update={"monthly_budget_usd": monthly_usd})


class Settings(_Section):
    """The whole of gates.yaml."""

    override_owners: list[str] = []
    default: Gates
    stacks: dict[str, Overlay] = {}

    def gates(self, stack: str) -> Gates:
        overlay = self.stacks.get(stack, Overlay())
        changed = overlay.model_dump(exclude_none=True, exclude={"levels"})
        levels = {**self.default.levels, **overlay.levels}
        return self.default.model_copy(update={**changed, "levels": levels})


def load_settings(path: Path = FILE) -> Settings:
    """gates.yaml, every mistake in it reported together (pydantic.ValidationError)."""
    return Settings.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))

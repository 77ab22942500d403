"""Shorthands the rule tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evaluate import evaluate, resource_from
from profiles import PACK_RULES, Profile
from rules import RULES
from rules.model import Resource, Rule
from tests.policies import world
from tests.policies.world import Record

BY_ID = {rule.id: rule for rule in RULES}
EVERYTHING = Profile(
    "everything",
    {**{rule.id: "mandatory" for rule in RULES}, **dict.fromkeys(PACK_RULES, "advisory")},
    {"TPU-17": {"monthlyBudgetUsd": 2_000_000}},
)


def graph(records: Iterable[Record]) -> list[Resource]:
    return [resource_from(record) for record in records]


def only(rule_id: str, settings: Mapping[str, Any] | None = None) -> Profile:
    """A profile with one rule on."""
    levels = {rule.id: "disabled" for rule in RULES} | {rule_id: "mandatory"}
    return Profile("one", levels, {rule_id: settings} if settings else {})


def complaints(
    rule_id: str, records: Iterable[Record], settings: Mapping[str, Any] | None = None
) -> list[str]:
    """What one rule says of a graph."""
    return [f.text for f in evaluate(graph(records), only(rule_id, settings)).findings]


def doubts(rule_id: str, records: Iterable[Record]) -> list[str]:
    return [d.why for d in evaluate(graph(records), only(rule_id)).doubts if not d.failed]


def changed(
    base: Callable[[], list[Record]], name: str, path: str, value: Any, kind: str = ""
) -> list[Record]:
    """A clean graph with one input of the named resource replaced; None removes it."""
    records = base()
    found = [r for r in records if r["name"] == name and r["type"].endswith(kind)]
    assert len(found) == 1, f"{len(found)} resources are called {name}"
    *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
    target: Any = found[0]["inputs"]
    for step in parents:
        target = target[step] if isinstance(step, int) else target.setdefault(step, {})
    if value is None:
        del target[last]
    else:
        target[last] = value
    return records


def without(base: Callable[[], list[Record]], kind: str) -> list[Record]:
    """A clean graph without the resources of a kind."""
    records = base()
    left = [r for r in records if not r["type"].endswith(f":{kind}")]
    assert len(left) < len(records)
    return left


def rule(rule_id: str) -> Rule:
    return BY_ID[rule_id]


__all__ = [
    "BY_ID",
    "EVERYTHING",
    "changed",
    "complaints",
    "doubts",
    "graph",
    "only",
    "rule",
    "without",
    "world",
]

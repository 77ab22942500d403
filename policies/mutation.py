"""Proves that rules see what they guard: breaks each guarded property and expects a finding.

    python policies/mutation.py graph.json [prod]

The graph is a list of {type, name, urn, inputs, parent, options}; see evaluate.resource_from.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from evaluate import judge, resource_from
from profiles import Profile, load
from rules import RULES
from rules.model import (
    DROP,
    UNKNOWN,
    Guard,
    Node,
    Resource,
    Rule,
    Selector,
    Stack,
    UndecidedError,
    show,
)

_ABSENT: Final = object()


@dataclass(frozen=True)
class Trial:
    """One guarded property broken in one resource."""

    rule: Rule
    guard: int
    resource: str
    place: str
    outcome: str  # caught, missed, or broken when the rule had complained before


@dataclass(frozen=True)
class Score:
    trials: tuple[Trial, ...]
    guards: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    @property
    def missed(self) -> list[Trial]:
        return [t for t in self.trials if t.outcome == "missed"]

    @property
    def caught(self) -> list[Trial]:
        return [t for t in self.trials if t.outcome == "caught"]

    @property
    def untried(self) -> list[tuple[str, int]]:
        """Guards for which the graph has nothing to break."""
        tried = {(t.rule.id, t.guard) for t in self.trials}
        return sorted(self.guards - tried)

    @property
    def percent(self) -> float:
        counted = len(self.caught) + len(self.missed)
        return 100.0 * len(self.caught) / counted if counted else 0.0

    def __str__(self) -> str:
        broken = sum(t.outcome == "broken" for t in self.trials)
        return (
            f"{len(self.caught)} of {len(self.caught) + len(self.missed)} mutations caught "
            f"({self.percent:.1f} %); {broken} already broken; {len(self.untried)} of "
            f"{len(self.guards)} guards have nothing to break here"
        )


def prove(
    graph: Iterable[Resource], profile: Profile | None = None, rules: Sequence[Rule] = RULES
) -> Score:
    """Breaks every guarded property of every resource, one at a time."""
    resources = tuple(graph)
    trials: list[Trial] = []
    for rule in rules:
        if profile and profile.levels[rule.id] == "disabled":
            continue
        settings = {**rule.defaults(), **(profile.settings.get(rule.id, {}) if profile else {})}
        before = _findings(rule, resources, settings)
        concerned = _holds(resources, rule.on)
        for number, guard in enumerate(rule.guards):
            if guard.needs and not _holds(resources, guard.needs):
                continue
            for index, resource, place, mutant in mutants(rule, guard, resources):
                if not concerned and not _holds(mutant, rule.on):
                    continue
                after = _findings(rule, mutant, settings, None if rule.whole_stack else index)
                kept = before if rule.whole_stack else before & Counter(
                    {k: v for k, v in before.items() if k[0] == resource.urn}
                )  # fmt: skip
                outcome = "caught" if after - kept else "broken" if kept else "missed"
                trials.append(Trial(rule, number, resource.name, place, outcome))
    known = frozenset(
        (rule.id, number)
        for rule in rules
        if not profile or profile.levels[rule.id] != "disabled"
        for number in range(len(rule.guards))
    )
    return Score(tuple(trials), known)


def _holds(resources: Sequence[Resource], selector: Selector) -> bool:
    return any(True for resource in resources for _ in selector.pick(resource))


def _findings(
    rule: Rule, resources: Sequence[Resource], settings: dict[str, Any], only: int | None = None
) -> Counter[tuple[str, str]]:
    stack = Stack(tuple(resources))
    looked_at = resources if only is None else [resources[only]]
    return Counter(
        (finding.resource.urn, finding.text)
        for resource in looked_at
        if rule.on.matches(resource.type)
        for finding in judge(rule, resource, settings, stack).findings
    )


def mutants(
    rule: Rule, guard: Guard, resources: Sequence[Resource]
) -> Iterator[tuple[int, Resource, str, tuple[Resource, ...]]]:
    """Each way a guard's property can be broken in a graph."""
    selector = guard.on or rule.on
    for index, resource in enumerate(resources):
        for part in selector.pick(resource):
            if isinstance(part, UndecidedError) or not _applies(guard, part):
                continue
            mutant = _broken(guard, resource, part)
            if mutant is _ABSENT:
                continue
            changed = [*resources]
            if mutant is None:
                del changed[index]
            else:
                changed[index] = mutant
            place = guard.path if isinstance(guard.path, str) else show(guard.path)
            yield index, resource, f"{show(part.path)}: {place or 'all of it'}", tuple(changed)


def _applies(guard: Guard, part: Node) -> bool:
    try:
        return guard.when is None or bool(guard.when(part))
    except UndecidedError:
        return False


def _broken(guard: Guard, resource: Resource, part: Node) -> Any:
    """The resource with the property broken; None to take it away, _ABSENT where it cannot be."""
    if isinstance(guard.path, str) and guard.path.startswith("@"):
        options = replace(resource.options, **{guard.path[1:]: guard.bad})
        return _ABSENT if options == resource.options else replace(resource, options=options)
    steps = tuple(guard.path.split(".")) if isinstance(guard.path, str) else guard.path
    path = part.path + steps
    if not path and guard.bad is DROP:
        return None
    value = changed(resource.value, path, guard.bad)
    return _ABSENT if value is _ABSENT else replace(resource, value=value)


def changed(tree: Any, path: Sequence[str | int], bad: Any) -> Any:
    """A copy of a tree with one place changed; _ABSENT where there is nothing to change."""
    if tree is UNKNOWN:
        return _ABSENT
    if not path:
        try:
            value = bad(tree) if callable(bad) else bad
        except (TypeError, KeyError, AttributeError, IndexError):
            return _ABSENT  # the present value is not of the kind the guard breaks
        return _ABSENT if value == tree else value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        if not isinstance(tree, list) or step >= len(tree):
            return _ABSENT
        inner = changed(tree[step], rest, bad)
        return _ABSENT if inner is _ABSENT else [*tree[:step], inner, *tree[step + 1 :]]
    holder = tree if isinstance(tree, dict) else {} if tree is None else None
    if holder is None:
        return _ABSENT
    if not rest and bad is DROP:
        return {k: v for k, v in holder.items() if k != step} if step in holder else _ABSENT
    inner = changed(holder.get(step), rest, bad)
    return _ABSENT if inner is _ABSENT else {**holder, step: inner}


def main(arguments: Sequence[str]) -> int:
    records = json.loads(Path(arguments[0]).read_text())
    profile = load(arguments[1]) if len(arguments) > 1 else None
    score = prove([resource_from(record) for record in records], profile)
    for trial in score.missed:
        print(f"missed: {trial.rule.id} {trial.resource} {trial.place}")
    print(score)
    return 1 if score.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs rules over resources: in the engine, in tests, and over a recorded graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from profiles import Profile, Waiver
from rules import RULES
from rules.model import Options, Resource, Rule, Stack, UndecidedError, plain


@dataclass(frozen=True)
class Finding:
    """One thing to change."""

    rule: Rule
    resource: Resource
    text: str


@dataclass(frozen=True)
class Doubt:
    """A check that could not be made, and why."""

    rule: Rule
    resource: Resource
    why: str
    failed: bool = False


@dataclass(frozen=True)
class Verdict:
    findings: tuple[Finding, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def judge(
    rule: Rule, resource: Resource, settings: Mapping[str, Any], stack: Stack | None = None
) -> Verdict:
    """One rule on one resource. Never raises: what cannot be decided becomes a doubt."""
    findings: list[Finding] = []
    doubts: list[Doubt] = []

    def check(part: Any) -> None:
        if isinstance(part, UndecidedError):
            raise part
        extra: list[Any] = [stack or Stack((resource,))] if rule.whole_stack else []
        extra += [dict(settings)] if rule.settings else []
        for text in rule.check(part, *extra):
            findings.append(Finding(rule, resource, text))

    def guarded(step: Any, *args: Any) -> bool:
        try:
            step(*args)
        except UndecidedError as unknown:
            doubts.append(Doubt(rule, resource, str(unknown)))
            return False
        except Exception as error:
            doubts.append(Doubt(rule, resource, type(error).__name__, failed=True))
            return False
        return True

    parts: list[Any] = []
    guarded(lambda: parts.extend(rule.on.pick(resource)))
    for part in parts:
        guarded(check, part)
    return Verdict(tuple(dict.fromkeys(findings)), tuple(dict.fromkeys(doubts)))


@dataclass(frozen=True)
class Report:
    """What a profile says of a graph."""

    findings: tuple[Finding, ...]
    doubts: tuple[Doubt, ...]
    waived: tuple[tuple[Waiver, Finding], ...]
    profile: Profile
    today: date = field(default_factory=lambda: datetime.now(UTC).date())

    def at(self, level: str) -> list[Finding]:
        return [f for f in self.findings if self.profile.levels[f.rule.id] == level]

    @property
    def idle_waivers(self) -> list[Waiver]:
        """Waivers that hide nothing, expired ones included."""
        used = {waiver for waiver, _ in self.waived}
        return [w for w in self.profile.waivers if w not in used]


def evaluate(graph: Iterable[Resource], profile: Profile, today: date | None = None) -> Report:
    """Every rule the profile turns on, over a recorded graph."""
    stack = Stack(tuple(graph))
    day = today or datetime.now(UTC).date()
    findings: list[Finding] = []
    doubts: list[Doubt] = []
    waived: list[tuple[Waiver, Finding]] = []
    for rule in RULES:
        if profile.levels[rule.id] == "disabled":
            continue
        settings = {**rule.defaults(), **profile.settings.get(rule.id, {})}
        for resource in stack.resources:
            if not rule.on.matches(resource.type):
                continue
            verdict = judge(rule, resource, settings, stack)
            doubts += verdict.doubts
            for finding in verdict.findings:
                waiver = profile.waiver_for(rule.id, resource, day)
                if waiver is None:
                    findings.append(finding)
                else:
                    waived.append((waiver, finding))
    return Report(tuple(findings), tuple(doubts), tuple(waived), profile, day)


def resource_from(record: Mapping[str, Any]) -> Resource:
    """A resource of a recorded graph: type, name, urn, inputs, parent and, if kept, options."""
    options = record.get("options") or {}
    timeouts = options.get("customTimeouts") or {}
    return Resource(
        value=plain(record.get("inputs") or {}),
        type=record["type"],
        name=record["name"],
        urn=record.get("urn")
        or f"urn:pulumi:recorded::recorded::{record['type']}::{record['name']}",
        parent=record.get("parent") or None,
        dependencies=frozenset(record.get("dependencies") or ()),
        options=Options(
            protect=bool(options.get("protect")),
            delete_before_replace=options.get("deleteBeforeReplace"),
            ignore_changes=tuple(options.get("ignoreChanges") or ()),
            create_timeout_seconds=_seconds(timeouts.get("create")),
        ),
    )


def _seconds(text: Any) -> float:
    """A Go duration such as `2h`, `90m` or `1h30m`, or a number of seconds."""
    if not text:
        return 0
    if isinstance(text, int | float):
        return float(text)
    units = {"h": 3600, "m": 60, "s": 1}
    return float(sum(float(n) * units[u] for n, u in re.findall(r"([\d.]+)([hms])", str(text))))

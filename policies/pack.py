"""Turns the rules into policies of a Pulumi policy pack."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from threading import Lock
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyComplianceFramework,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

from evaluate import Doubt, Finding, Verdict, judge
from profiles import STRICTEST, Profile, Waiver, find_waiver, load, read_waivers
from rules import RULES, facts
from rules.links import POLICIES
from rules.model import Options, Resource, Rule, Stack, plain

NAME: Final = "tpuserve"
PROFILE_VARIABLE: Final = "TPUSERVE_POLICY_PROFILE"
LISTED_RULES: Final = 20
FACTS_AGE_DAYS: Final = 180
_WAIVER_SCHEMA: Final = {
    "type": "array",
    "default": [],
    "items": {"type": "object"},
    "description": "findings accepted for a while: resource (pattern), reason, until, owner",
}

Config = dict[str, EnforcementLevel | dict[str, Any]]


def chosen_profile() -> Profile:
    """The profile named by TPUSERVE_POLICY_PROFILE (a name or a path); the strictest without it."""
    return load(os.environ.get(PROFILE_VARIABLE) or STRICTEST)


class Ledger:
    """What one run of the pack has seen: declared inputs, open doubts, waivers and their use."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inputs: dict[str, tuple[Any, Resource]] = {}
        self._doubts: dict[tuple[str, str], tuple[Doubt, ...]] = {}
        self._waivers: dict[str, tuple[Waiver, ...]] = {}
        self._used: set[tuple[str, str, Waiver]] = set()
        self._mistakes: dict[str, tuple[str, ...]] = {}
        self._stack: tuple[frozenset[str], Stack] | None = None

    def resource(self, args: ResourceValidationArgs) -> Resource:
        """A resource as declared, converted once for all rules."""
        with self._lock:
            known = self._inputs.get(args.urn)
            if known is not None and known[0] is args.props:
                return known[1]
            opts = args.opts
            found = Resource(
                value=plain(args.props),
                type=args.resource_type,
                name=args.name,
                urn=args.urn,
                parent=opts.parent,
                options=Options(
                    protect=opts.protect,
                    delete_before_replace=opts.delete_before_replace,
                    ignore_changes=tuple(opts.ignore_changes),
                    create_timeout_seconds=opts.custom_timeouts.create_seconds,
                ),
            )
            self._inputs[args.urn] = (args.props, found)
            self._stack = None
            return found

    def stack(self, resources: Sequence[PolicyResource]) -> Stack:
        """The whole stack: inputs where they were declared in this run, else recorded values."""
        urns = frozenset(r.urn for r in resources)
        with self._lock:
            if self._stack is None or self._stack[0] != urns:
                self._stack = (urns, Stack(tuple(self._placed(r) for r in resources)))
            return self._stack[1]

    def _placed(self, resource: PolicyResource) -> Resource:
        declared = self._inputs.get(resource.urn)
        found = (
            declared[1]
            if declared
            else Resource(
                value=plain(resource.props),
                type=resource.resource_type,
                name=resource.name,
                urn=resource.urn,
                options=Options(protect=resource.opts.protect),
            )
        )
        return replace(
            found,
            parent=resource.parent.urn if resource.parent else None,
            dependencies=frozenset(d.urn for d in resource.dependencies),
        )

    def settle(
        self, rule: Rule, resource: Resource, verdict: Verdict, config: Mapping[str, Any]
    ) -> list[Finding]:
        """The findings that stand; remembers what is in doubt and what a waiver hides."""
        faults, waivers = read_waivers(rule.id, config.get("waivers") or [])
        today = datetime.now(UTC).date()
        standing: list[Finding] = []
        with self._lock:
            self._doubts.pop((rule.id, resource.urn), None)
            if verdict.doubts:
                self._doubts[rule.id, resource.urn] = verdict.doubts
            self.note(rule, config, faults, waivers)
            for finding in verdict.findings:
                waiver = find_waiver(tuple(waivers), rule.id, resource, today)
                if waiver is None:
                    standing.append(finding)
                else:
                    self._used.add((rule.id, resource.urn, waiver))
        return standing

    def note(
        self, rule: Rule, config: Mapping[str, Any], faults: list[str], waivers: list[Waiver]
    ) -> None:
        unknown = set(config) - {"waivers", "enforcementLevel", *rule.settings}
        self._waivers[rule.id] = tuple(waivers)
        self._mistakes[rule.id] = (
            *faults,
            *(f"{rule.id}.{key}: no such setting" for key in sorted(unknown)),
        )

    def doubts(self) -> list[Doubt]:
        with self._lock:
            return [doubt for group in self._doubts.values() for doubt in group]

    def waiver_notes(self, today: date) -> list[str]:
        """One line for each waiver in use, idle or expired, and for each mistake in a setting."""
        with self._lock:
            notes = [m for group in self._mistakes.values() for m in group]
            for waiver in (w for group in self._waivers.values() for w in group):
                hides = sum(
                    1 for rule, _, used in self._used if (rule, used) == (waiver.rule, waiver)
                )
                place = f"{waiver.rule} on {waiver.resource}"
                if waiver.expired(today):
                    notes.append(f"{place}: expired on {waiver.until}; fix it or renew the waiver")
                elif not hides:
                    notes.append(f"{place}: hides nothing; remove the waiver")
                else:
                    notes.append(f"{place}: {hides} waived until {waiver.until}: {waiver.reason}")
            return notes


def _metadata(rule: Rule) -> dict[str, Any]:
    first = rule.refs[0] if rule.refs else None
    framework = (
        PolicyComplianceFramework(
            name=first.framework,
            version=first.version or None,
            reference=first.item or None,
            specification=str(first),
        )
        if first
        else PolicyComplianceFramework(name=NAME, reference=rule.id, specification=rule.title)
    )
    schema = {
        key: {"type": s.type, "default": s.default, "description": s.help}
        for key, s in rule.settings.items()
    }
    return {
        "name": rule.id,
        "description": rule.title,
        "display_name": rule.title,
        "config_schema": PolicyConfigSchema({**schema, "waivers": _WAIVER_SCHEMA}),
        "severity": Severity(rule.severity.value),
        "framework": framework,
        "tags": [rule.area, *(str(ref) for ref in rule.refs)],
        "remediation_steps": rule.fix,
        "url": rule.url,
    }


def _settings(rule: Rule, config: Mapping[str, Any]) -> dict[str, Any]:
    return {**rule.defaults(), **{k: v for k, v in config.items() if k in rule.settings}}


def _policy(rule: Rule, level: EnforcementLevel, ledger: Ledger) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        # Kept for rules on the whole stack too: later the engine shows outputs, unknown by then.
        resource = ledger.resource(args)
        if not rule.on.matches(args.resource_type):
            return
        config = plain(args.get_config())
        verdict = judge(rule, resource, _settings(rule, config))
        for finding in ledger.settle(rule, resource, verdict, config):
            report(finding.text, None)

    def validate_stack(args: StackValidationArgs, report: ReportViolation) -> None:
        config = plain(args.get_config())
        stack = ledger.stack(args.resources)
        for resource in stack.resources:
            if not rule.on.matches(resource.type):
                continue
            verdict = judge(rule, resource, _settings(rule, config), stack)
            for finding in ledger.settle(rule, resource, verdict, config):
                report(finding.text, resource.urn)

    if rule.whole_stack:
        return StackValidationPolicy(
            validate=validate_stack, enforcement_level=level, **_metadata(rule)
        )
    return ResourceValidationPolicy(validate=validate, enforcement_level=level, **_metadata(rule))


def _summary(doubts: list[Doubt]) -> str:
    """One line a rule, the gravest first: which resources wait for which value."""
    order = list(Severity)
    grouped: dict[Rule, list[Doubt]] = {}
    for doubt in doubts:
        grouped.setdefault(doubt.rule, []).append(doubt)
    ranked = sorted(grouped, key=lambda r: (-order.index(Severity(r.severity.value)), r.id))
    lines = [f"{len(doubts)} checks of {len(ranked)} rules wait for values not known yet:"]
    for rule in ranked[:LISTED_RULES]:
        group = grouped[rule]
        places = ", ".join(dict.fromkeys(f"{d.resource.name} ({d.why})" for d in group[:3]))
        more = f" and {len(group) - 3} more" if len(group) > 3 else ""
        failed = "failed on " if any(d.failed for d in group) else ""
        lines.append(f"{rule.id} {failed}{places}{more}")
    if len(ranked) > LISTED_RULES:
        lines.append(f"and {len(ranked) - LISTED_RULES} more rules")
    lines.append(
        "They are decided when the values exist: during `pulumi up`, and at the next preview."
    )
    return "\n".join(lines)


def _own_policies(profile: Profile, ledger: Ledger) -> list[Policy]:
    """Policies about the pack itself. They stand last, when every rule has spoken."""

    def undecided(_args: StackValidationArgs, report: ReportViolation) -> None:
        doubts = ledger.doubts()
        if doubts:
            report(_summary(doubts), None)

    def waivers(_args: StackValidationArgs, report: ReportViolation) -> None:
        notes = ledger.waiver_notes(datetime.now(UTC).date())
        if notes:
            report("\n".join(notes), None)

    def table_age(_args: StackValidationArgs, report: ReportViolation) -> None:
        age = datetime.now(UTC).date() - date.fromisoformat(facts.READ_ON)
        if age > timedelta(days=FACTS_AGE_DAYS):
            report(f"policies/rules/facts.py was read {age.days} days ago: check it again", None)

    texts = (
        ("PACK-01", "Rules that could not be decided yet.", undecided),
        ("PACK-02", "Waivers and settings of the policy profile.", waivers),
        ("PACK-03", "The tables of machines, zones and prices are recent.", table_age),
    )
    return [
        StackValidationPolicy(
            name=name,
            description=title,
            validate=check,
            enforcement_level=EnforcementLevel(profile.levels[name]),
            severity=Severity.LOW,
            tags=["PACK"],
            url=POLICIES,
        )
        for name, title, check in texts
    ]


def policies(profile: Profile) -> list[Policy]:
    """Every rule as a policy, at the profile's level."""
    ledger = Ledger()
    made = [_policy(rule, EnforcementLevel(profile.levels[rule.id]), ledger) for rule in RULES]
    return [*made, *_own_policies(profile, ledger)]


def initial_config(profile: Profile) -> Config:
    """The profile's settings and waivers, each with its level.

    An entry without a level would count as advisory and silently weaken the rule (pulumi-policy
    1.21.0), so the level always stands beside it.
    """
    waivers: dict[str, list[dict[str, str]]] = {}
    for w in profile.waivers:
        entry = {"resource": w.resource, "reason": w.reason, "until": w.until.isoformat()}
        waivers.setdefault(w.rule, []).append(entry)
    keys = {*profile.settings, *waivers}
    return {
        key: {
            "enforcementLevel": EnforcementLevel(profile.levels[key]),
            **profile.settings.get(key, {}),
            **({"waivers": waivers[key]} if key in waivers else {}),
        }
        for key in sorted(keys)
    }

"""How strict each environment is: levels, settings and waivers, one JSON file a profile.

A profile is also a file for `pulumi --policy-pack-config`. Reading it here is stricter: every rule
has a level, and an unknown rule, setting or field is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from rules import RULES
from rules.model import Resource, Rule, Setting

FOLDER: Final = Path(__file__).parent
NAMES: Final = ("dev", "staging", "prod")
STRICTEST: Final = "prod"
LEVELS: Final = ("disabled", "advisory", "mandatory")
WAIVER_FIELDS: Final = ("resource", "reason", "until", "owner")
PACK_RULES: Final = ("PACK-01", "PACK-02", "PACK-03")


class ProfileError(Exception):
    """A profile that cannot be used; the text lists every mistake."""


@dataclass(frozen=True)
class Waiver:
    """A finding that is accepted for a while."""

    rule: str
    resource: str
    reason: str
    until: date
    owner: str = ""

    def covers(self, resource: Resource) -> bool:
        """Whether the pattern (`*` for any text) fits the resource's name or URN."""
        return any(fnmatchcase(text, self.resource) for text in (resource.name, resource.urn))

    def expired(self, today: date) -> bool:
        return today > self.until


@dataclass(frozen=True)
class Profile:
    name: str
    levels: Mapping[str, str]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()

    def waiver_for(self, rule: str, resource: Resource, today: date) -> Waiver | None:
        return find_waiver(self.waivers, rule, resource, today)


def find_waiver(
    waivers: tuple[Waiver, ...], rule: str, resource: Resource, today: date
) -> Waiver | None:
    fitting = (w for w in waivers if w.rule == rule and w.covers(resource))
    return next((w for w in fitting if not w.expired(today)), None)


def load(name: str) -> Profile:
    """A profile of this folder by its name, or any file by its path."""
    path = FOLDER / f"{name}.json" if name in NAMES else Path(name)
    if not path.is_file():
        known = ", ".join(NAMES)
        raise ProfileError(f"no policy profile {name!r}: use {known}, or the path of a JSON file")
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ProfileError(f"{path}: not JSON: {error}") from None
    return parse(path.stem, content, str(path))


def parse(name: str, content: Any, source: str) -> Profile:
    """A profile from its JSON value; every mistake is reported at once."""
    if not isinstance(content, dict):
        raise ProfileError(f"{source}: a profile is an object of rule id to level")
    rules = {rule.id: rule for rule in RULES}
    levels: dict[str, str] = {}
    settings: dict[str, dict[str, Any]] = {}
    waivers: list[Waiver] = []
    wrong: list[str] = [
        f"{key}: no such rule; the rules are in docs/policies.md"
        for key in content
        if key not in rules and key not in PACK_RULES
    ]
    for key in [*rules, *PACK_RULES]:
        if key not in content:
            wrong.append(f"{key}: missing; give it one of {', '.join(LEVELS)}")
            continue
        value = (
            content[key] if isinstance(content[key], dict) else {"enforcementLevel": content[key]}
        )
        level = value.get("enforcementLevel")
        if level not in LEVELS:
            wrong.append(f"{key}: level {level!r} is none of {', '.join(LEVELS)}")
            continue
        levels[key] = level
        rule = rules.get(key)
        own = {k: v for k, v in value.items() if k not in {"enforcementLevel", "waivers"}}
        wrong += _setting_faults(key, own, rule)
        if own:
            settings[key] = own
        if "waivers" in value and (rule is None or level == "disabled"):
            wrong.append(f"{key}.waivers: nothing to waive; remove it")
        else:
            faults, found = read_waivers(key, value.get("waivers", []))
            wrong += faults
            waivers += found
    if wrong:
        raise ProfileError(f"{source} has {len(wrong)} mistakes:\n  " + "\n  ".join(wrong))
    return Profile(name, levels, settings, tuple(waivers))


def _setting_faults(key: str, own: Mapping[str, Any], rule: Rule | None) -> Iterator[str]:
    schema = rule.settings if rule else {}
    for name, value in own.items():
        setting = schema.get(name)
        if setting is None:
            known = ", ".join(["enforcementLevel", "waivers", *schema])
            yield f"{key}.{name}: no such setting; the rule takes {known}"
        elif not _fits(setting, value):
            yield f"{key}.{name}: {value!r} is not a JSON {setting.type}"


def _fits(setting: Setting, value: Any) -> bool:
    if setting.type == "boolean":
        return isinstance(value, bool)
    kinds: dict[str, tuple[type, ...]] = {
        "integer": (int,),
        "number": (int, float),
        "string": (str,),
        "array": (list,),
    }
    return isinstance(value, kinds[setting.type]) and not isinstance(value, bool)


def read_waivers(rule: str, entries: Any) -> tuple[list[str], list[Waiver]]:
    """The mistakes and the waivers of one rule."""
    if not isinstance(entries, list):
        return [f"{rule}.waivers: must be a list"], []
    wrong: list[str] = []
    waivers: list[Waiver] = []
    for index, entry in enumerate(entries):
        place = f"{rule}.waivers[{index}]"
        fields = entry if isinstance(entry, dict) else {}
        unknown = sorted(set(fields) - set(WAIVER_FIELDS))
        missing = [
            k for k in WAIVER_FIELDS[:3] if not isinstance(fields.get(k), str) or not fields[k]
        ]
        if unknown:
            wrong.append(f"{place}: unknown field {', '.join(unknown)}")
        if missing:
            wrong.append(f"{place}: {', '.join(missing)} must be given as text")
        if unknown or missing:
            continue
        try:
            until = date.fromisoformat(fields["until"])
        except ValueError:
            wrong.append(f"{place}.until: {fields['until']!r} is not a day such as 2027-03-31")
            continue
        waivers.append(
            Waiver(rule, fields["resource"], fields["reason"], until, str(fields.get("owner", "")))
        )
    return wrong, waivers

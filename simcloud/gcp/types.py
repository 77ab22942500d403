"""What the tables say about each gcp type."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from simcloud.gcp.validators import Validator, parse
from simcloud.values import Props, pattern

TABLES = Path(__file__).parents[1] / "tables"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One input. `replace`: a change forces replacement; `computed`: the API fills it if absent."""

    name: str
    tf: str
    type: str
    of: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    required: bool = False
    replace: bool = False
    computed: bool = False
    default: Any = None
    enum: tuple[str, ...] = ()
    secret: bool = False


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An input that names other objects; `holds` keeps a target from deletion."""

    path: str
    to: tuple[str, ...]
    holds: bool = True


@dataclass(frozen=True, kw_only=True)
class AutoName:
    field: str
    length: int
    lower: bool


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """`kind` is conflictsWith, exactlyOneOf or requiredWith; partners are input paths."""

    path: str
    kind: str
    partners: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Type:
    """Everything the tables say about one resource type."""

    token: str
    fields: Mapping[str, Field]
    outputs: Mapping[str, str]
    secret_outputs: frozenset[str]
    id: str
    name: str
    autoname: AutoName | None
    delete_before_replace: bool
    references: tuple[Reference, ...]
    inside: str
    validators: Mapping[str, Validator]
    conflicts: tuple[Conflict, ...]
    project_at_plan: bool
    deletion_policy: bool
    api: Props
    computed: Props
    url: str
    protect: str
    drift: tuple[str, ...]
    sets: frozenset[str]
    forget: bool
    adopt: bool
    timeouts: Mapping[str, float]

    def field_at(self, path: str) -> Field | None:
        """The input at a property path; for a key of a map, the map."""
        return self._find(path)[0]

    def is_key_of_map(self, path: str) -> bool:
        return self._find(path)[1]

    def _find(self, path: str) -> tuple[Field | None, bool]:
        fields: Mapping[str, Field] = self.fields
        found: Field | None = None
        for part in pattern(path).split("."):
            if found is not None and found.type == "map":
                return found, True
            found = fields.get(part)
            if found is None:
                return None, False
            fields = found.fields
        return found, False


@cache
def _tables() -> tuple[Props, Props, Props]:
    types = json.loads((TABLES / "gcp-types.json").read_text())["types"]
    measured = json.loads((TABLES / "gcp-behaviours.json").read_text())["resources"]
    by_token = {entry["token"]: entry for entry in measured.values()}
    return types, by_token, tomllib.loads((TABLES / "gcp.toml").read_text())


@cache
def known_types() -> tuple[str, ...]:
    return tuple(_tables()[0])


@cache
def type_of(token: str) -> Type | None:
    """The type behind a token such as gcp:compute/network:Network, None if no table has it."""
    types, measured, ours = _tables()
    if token not in types:
        return None
    table, overlay = types[token], ours[token]
    module, _, class_ = token.removeprefix("gcp:").partition("/")
    behaviour = measured.get(f"{module}.{class_.partition(':')[2]}", {})
    # Every field of a policy member replaces it; the second table adds leaves the first one lacks.
    member = token.lower().endswith("iammember")
    replacing = {*behaviour.get("replaceOn", ()), *behaviour.get("replaceOnBlockCount", ())}
    fields = {
        name: _field(name, entry, name, _Marks(replacing, set(overlay.get("made", ())), member))
        for name, entry in table["in"].items()
    }
    # What the provider fills in at plan time; for types nobody measured, what most types do.
    plan_defaults = behaviour.get("planDefaults", "" if behaviour else "deletionPolicy=DELETE")
    customize = behaviour.get("customizeDiff", "" if behaviour else "DefaultProviderProject")
    return Type(
        token=token,
        fields=fields,
        outputs=table["out"],
        secret_outputs=frozenset(table.get("secretOut", ())),
        id=overlay.get("id") or re.sub(r"\{\{(\w+)\}\}", _placeholder, behaviour["id"]),
        name=overlay.get("name", "name"),
        autoname=_autoname(fields, behaviour),
        delete_before_replace=bool(
            overlay.get("delete_before_replace", behaviour.get("overlayDeleteBeforeReplace"))
        ),
        references=tuple(
            Reference(path=path, to=tuple(entry["to"]), holds=entry.get("holds", True))
            for path, entry in overlay.get("references", {}).items()
        ),
        inside=overlay.get("inside", ""),
        validators={
            path: validator
            for path, text in behaviour.get("otherValidators", {}).items()
            if (validator := parse(text))
        },
        conflicts=tuple(_conflicts(fields, behaviour.get("conflicts", {}))),
        project_at_plan="DefaultProviderProject" in customize and "project" in fields,
        deletion_policy="deletionPolicy" in fields and "deletionPolicy" in plan_defaults,
        api=overlay.get("api", {}),
        computed=overlay.get("computed", {}),
        url=overlay.get("url", ""),
        protect=overlay.get("protect", ""),
        drift=tuple(overlay.get("drift", ())),
        sets=frozenset(overlay.get("sets", ())),
        forget=overlay.get("forget", False),
        adopt=overlay.get("adopt", False) or member,
        timeouts={
            operation: _minutes(text) for operation, text in behaviour.get("timeouts", {}).items()
        },
    )


def _placeholder(match: re.Match[str]) -> str:
    first, *rest = match.group(1).split("_")
    return "{" + first + "".join(part.title() for part in rest) + "}"


def _minutes(expression: str) -> float:
    """2 * time.Hour -> 120."""
    number, unit = expression.split(" * time.")
    return float(number) * {"Hour": 60, "Minute": 1}[unit]


class _Marks(NamedTuple):
    """What other tables say of the fields of a type, by path."""

    replacing: set[str]
    made: set[str]
    every: bool


def _field(name: str, entry: Props, path: str, marks: _Marks) -> Field:
    below = {
        key: _field(key, item, f"{path}.{key}", marks) for key, item in entry.get("f", {}).items()
    }
    return Field(
        name=name,
        tf=entry.get("tf") or re.sub(r"([A-Z])", lambda match: "_" + match.group(1).lower(), name),
        type=entry["t"],
        of=entry.get("of", ""),
        fields=below,
        required=bool(entry.get("req")),
        replace=bool(entry.get("new")) or path in marks.replacing or marks.every,
        computed=bool(entry.get("oc")) or path in marks.made,
        default=entry.get("def"),
        enum=tuple(entry.get("enum", ())),
        secret=bool(entry.get("sec")),
    )


def _autoname(fields: Mapping[str, Field], behaviour: Props) -> AutoName | None:
    # Provider-wide autonaming: "-", seven random digits, 255 characters unless a type says less
    # (pulumi-gcp resources.go; behaviours table).
    rule = behaviour.get("autoName")
    if rule:
        first, *rest = rule["field"].split("_")
        return AutoName(
            field=first + "".join(part.title() for part in rest),
            length=rule["maxlen"],
            lower=rule.get("lower", False),
        )
    if "name" in fields and not fields["name"].required and not behaviour:
        return AutoName(field="name", length=63, lower=True)
    return None


def _conflicts(fields: Mapping[str, Field], table: Props) -> Iterator[Conflict]:
    for path, kinds in table.items():
        for kind, partners in kinds.items():
            known = tuple(found for tf in partners if (found := _path_of(fields, tf)))
            yield Conflict(path=path, kind=kind, partners=known)


def _path_of(fields: Mapping[str, Field], tf: str) -> str:
    """workload_policy.0.max_topology_distance -> workloadPolicy.maxTopologyDistance."""
    path: list[str] = []
    for part in tf.split("."):
        if part.isdigit():
            continue
        found = next((item for item in fields.values() if part in (item.tf, item.name)), None)
        if found is None:
            return ""
        path.append(found.name)
        fields = found.fields
    return ".".join(path)


def tf_path(type_: Type, path: str) -> str:
    """nodeConfig.taints[0].effect -> node_config.0.taint.0.effect, as the provider's errors say."""
    fields, parts = type_.fields, []
    for part in re.findall(r"[^.\[\]]+", path):
        if part.isdigit():
            parts.append(part)
            continue
        found = fields.get(part)
        parts.append(found.tf if found else part)
        if found and found.type == "object":
            parts.append("0")
        fields = found.fields if found else {}
    while len(parts) > 1 and parts[-1] == "0":
        parts.pop()
    return ".".join(parts)

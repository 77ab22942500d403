"""Diff as the provider's plan engine and bridge do it."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from simcloud.gcp.types import Field, Type
from simcloud.plan import Plan, at, changes, top
from simcloud.values import DEFAULTS, Props, child, get, is_unknown, pattern, plain, tail, under


def diff(
    type_: Type,
    *,
    old_inputs: Props,
    state: Props,
    news: Props,
    ignored: Iterable[str] = (),
    project: str | None = None,
) -> Plan:
    """The plan for an object whose inputs change.

    The measured provider names the replacing properties in their own list and leaves the kinds of
    the detailed diff plain (tests/data/gcp-plan-matrix.json).
    """
    state, news = plain(state), _ordered(type_, plain(news))
    old_inputs = _ordered(type_, plain(old_inputs) or state)
    ignored = tuple(ignored)
    change = _Change(type_, old_inputs, state, news)
    found = {
        path: kind
        for path, kind in changes(old_inputs, news, ignored)
        if not change.is_nothing(path, kind)
    }
    for path in type_.drift:
        if change.drifted(path) and not any(under(path, root) for root in ignored):
            found.setdefault(path, "update")
    replaces = {top(path) for path, kind in found.items() if change.replaces(path, kind)}
    if change.moves_project(project):
        found["project"] = "update"
        replaces.add("project")
    return Plan(
        detail=found,
        replaces=tuple(sorted(replaces)),
        delete_before_replace=bool(replaces) and deletes_first(type_, news),
    )


def deletes_first(type_: Type, news: Props) -> bool:
    """An explicit name makes every replacement delete-before-replace (bridge v3.120.0)."""
    if type_.delete_before_replace:
        return True
    rule = type_.autoname
    return rule is not None and rule.field in news and rule.field not in news.get(DEFAULTS, ())


def _ordered(type_: Type, value: Any, path: str = "") -> Any:
    """The inputs with every list that has no order sorted, so that the order is no difference."""
    if isinstance(value, dict):
        return {key: _ordered(type_, item, child(path, key)) for key, item in value.items()}
    if isinstance(value, list):
        items = [_ordered(type_, item, path) for item in value]
        return sorted(items, key=json.dumps) if path in type_.sets else items
    return value


_ZERO: tuple[Any, ...] = (None, "", False, 0, [], {})


class _Change:
    """One object's old and new inputs, and what the cloud said last."""

    def __init__(self, type_: Type, old: Props, state: Props, new: Props) -> None:
        self.type = type_
        self.old = old
        self.state = state
        self.new = new

    def is_nothing(self, path: str, kind: str) -> bool:
        """Whether the plan engine sees no change where the inputs differ."""
        entry = self.type.field_at(path)
        before, after = at(self.old, path), at(self.new, path)
        if kind == "delete":
            # What the API fills in stays as it is; absent equals zero in the plan engine.
            kept = entry is not None and entry.computed and not self.type.is_key_of_map(path)
            return kept or before in _ZERO
        if kind == "add":
            scalar = not isinstance(after, dict | list)
            return after in _ZERO or (scalar and after == at(self.state, path))
        if any(reference.path == pattern(path) for reference in self.type.references):
            return not is_unknown(after) and tail(before) == tail(after)
        return False

    def drifted(self, path: str) -> bool:
        """Whether the API answers another value than the program gives."""
        wanted, live = get(self.new, path), get(self.state, path)
        return None not in (wanted, live) and not is_unknown(wanted) and wanted != live

    def moves_project(self, project: str | None) -> bool:
        return bool(
            self.type.project_at_plan
            and project
            and "project" not in self.new
            and self.state.get("project")
            and self.state["project"] != project
        )

    def replaces(self, path: str, kind: str) -> bool:
        before, after = at(self.old, path), at(self.new, path)
        condition = CONDITIONAL.get((self.type.token, pattern(path)))
        if condition is not None:
            return condition(before, after)
        entry = self.type.field_at(path)
        if entry is None:
            return False
        # A whole block came, went or became unknown: any field in it may force replacement.
        present = before if kind == "delete" or is_unknown(after) else after
        return entry.replace or _leaf_replaces(entry, present)


def _leaf_replaces(entry: Field, value: Any) -> bool:
    if isinstance(value, list):
        return any(_leaf_replaces(entry, item) for item in value)
    if not isinstance(value, dict):
        return False
    return any(
        below.replace or _leaf_replaces(below, value[key])
        for key, below in entry.fields.items()
        if value.get(key) not in _ZERO
    )


def _shrinks(before: Any, after: Any) -> bool:
    if is_unknown(after):
        return False
    try:
        old, new = (ipaddress.ip_network(str(cidr), strict=False) for cidr in (before, after))
    except ValueError:
        return True
    if isinstance(old, ipaddress.IPv4Network) and isinstance(new, ipaddress.IPv4Network):
        return not old.subnet_of(new)
    return old != new


def _switched_off(before: Any, after: Any) -> bool:
    return bool(before) and not is_unknown(after) and not after


def _removed(before: Any, after: Any) -> bool:
    return bool(before) and after is None


def _was_locked(before: Any, _after: Any) -> bool:
    return isinstance(before, dict) and bool(before.get("isLocked"))


CONDITIONAL: Mapping[tuple[str, str], Callable[[Any, Any], bool]] = {
    ("gcp:compute/subnetwork:Subnetwork", "ipCidrRange"): _shrinks,
    ("gcp:container/cluster:Cluster", "enableFqdnNetworkPolicy"): _switched_off,
    ("gcp:container/cluster:Cluster", "enableL4IlbSubsetting"): _switched_off,
    ("gcp:container/cluster:Cluster", "enableK8sBetaApis.enabledApis"): _removed,
    ("gcp:storage/bucket:Bucket", "retentionPolicy"): _was_locked,
    ("gcp:storage/bucket:Bucket", "retentionPolicy.isLocked"): _switched_off,
}
"""Replacements that depend on the values (`conditional` of gcp-types.json)."""

"""The simulated provider does what gcp-behaviours.json says of the measured types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simcloud.clock import duration
from simcloud.gcp.diff import CONDITIONAL
from simcloud.gcp.types import Field, Type, known_types, type_of
from tests.simcloud.harness import Live, Props, Provider, providers

BEHAVIOURS = json.loads(
    (Path(__file__).parents[2] / "simcloud" / "tables" / "gcp-behaviours.json").read_text()
)["resources"]
TOKENS = {
    f"{token[4:].partition('/')[0]}.{token.rpartition(':')[2]}": token for token in known_types()
}
MEASURED = sorted(BEHAVIOURS)

# The behaviours leave these blocks of Cluster out; they follow the node pool's own fields.
ELSEWHERE = ("nodeConfig", "nodePools")

# A value each type of input takes, and another one.
BEFORE = {"str": "1", "int": 1, "float": 0.5, "bool": True, "map": {"a": "b"}}
AFTER = {"str": "2", "int": 2, "float": 0.25, "bool": False, "map": {"a": "c"}}


@pytest.fixture(scope="module")
def gcp(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    return providers(tmp_path_factory.mktemp("cloud"))[0]


def typed(name: str) -> Type:
    found = type_of(TOKENS[BEHAVIOURS[name]["token"]])
    assert found is not None
    return found


def leaves(fields: Any, path: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    for entry in fields.values():
        if entry.fields:
            yield from leaves(entry.fields, (*path, entry))
        else:
            yield (*path, entry)


def dotted(path: tuple[Field, ...]) -> str:
    return ".".join(entry.name for entry in path)


def inputs(path: tuple[Field, ...], value: Any) -> Props:
    """Inputs with one value at a path, lists of one element on the way."""
    for entry in reversed(path):
        value = {entry.name: [value] if entry.type == "list" else value}
    result: Props = value
    return result


def kind(entry: Field) -> str:
    return entry.of or "str" if entry.type == "list" else entry.type


@pytest.mark.parametrize("name", MEASURED)
def test_a_change_of_a_leaf_replaces_where_the_table_says(gcp: Provider, name: str) -> None:
    type_ = typed(name)
    table = set(BEHAVIOURS[name].get("replaceOn", ()))
    wrong = []
    for path in leaves(type_.fields):
        place = dotted(path)
        if (type_.token, place) in CONDITIONAL or place.startswith(ELSEWHERE):
            continue
        old = inputs(path, BEFORE[kind(path[-1])])
        new = inputs(path, AFTER[kind(path[-1])])
        plan = gcp.diff(type_.token, "x", Live("simulated/x", old, old), new)
        if bool(plan.replaces) is not (place in table):
            wrong.append(place)
    assert wrong == []


@pytest.mark.parametrize("name", MEASURED)
def test_a_block_that_comes_or_goes_replaces_where_the_table_says(gcp: Provider, name: str) -> None:
    type_ = typed(name)
    blocks = {
        path for path in BEHAVIOURS[name].get("replaceOnBlockCount", ()) if path not in ELSEWHERE
    }
    wrong = []
    for place in sorted(blocks):
        path = []
        fields: Any = type_.fields
        for part in place.split("."):
            path.append(fields[part])
            fields = path[-1].fields
        without = inputs(tuple(path[:-1]), {}) if path[:-1] else {}
        with_block = inputs(tuple(path), {"unset": None})
        for old, new in ((without, with_block), (with_block, without)):
            # A field the API fills in stays when the program drops it.
            if path[-1].computed and new is without:
                continue
            plan = gcp.diff(type_.token, "x", Live("simulated/x", old, old), new)
            if not plan.replaces:
                wrong.append(place)
    assert wrong == []


@pytest.mark.parametrize("name", MEASURED)
def test_check_fills_in_the_defaults_of_the_table(gcp: Provider, name: str) -> None:
    type_ = typed(name)
    wrong = {}
    for place, text in BEHAVIOURS[name].get("checkDefaults", {}).items():
        *parents, leaf = place.split(".")
        given: Any = {}
        for parent in reversed(parents):
            given = {parent: given}
        checked, _ = gcp.check(type_.token, "x", given)
        for parent in parents:
            checked = checked[parent]
        value = checked.get(leaf)
        if str(value).lower() != text.lower() or leaf not in checked["__defaults"]:
            wrong[place] = value
    assert wrong == {}


@pytest.mark.parametrize("name", MEASURED)
def test_a_plan_leaves_unknown_what_the_table_says(gcp: Provider, name: str) -> None:
    type_, preview = typed(name), BEHAVIOURS[name]["preview"]
    checked, _ = gcp.check(type_.token, "x", {})
    known = gcp.preview(type_.token, "x", checked)
    assert [key for key in preview["unknown"] if key in known] == []
    filled = {**preview["filled"], "project": "my-project"}
    expected = {key: filled[key] for key in preview["filled"]}
    assert {key: known.get(key) for key in expected} == expected


@pytest.mark.parametrize("name", MEASURED)
def test_check_knows_the_enums_of_the_table(gcp: Provider, name: str) -> None:
    type_ = typed(name)
    by_place = {dotted(path): path for path in leaves(type_.fields)}
    wrong = []
    for place, allowed in BEHAVIOURS[name].get("enums", {}).items():
        for value in (*allowed, "no-such-value"):
            path = by_place[place]
            given = inputs(path, value)
            _, failures = gcp.check(type_.token, "x", given)
            refused = any(" to be one of " in text for text in failures)
            if refused is (value in allowed):
                wrong.append((place, value))
    assert wrong == []


@pytest.mark.parametrize("name", MEASURED)
def test_automatic_names_follow_the_table(gcp: Provider, name: str) -> None:
    type_, rule = typed(name), BEHAVIOURS[name].get("autoName")
    checked, _ = gcp.check(type_.token, "Long-" + "x" * 300, {})
    if rule is None:
        assert "name" not in checked["__defaults"]
        return
    first, *rest = rule["field"].split("_")
    key = first + "".join(part.title() for part in rest)
    made = checked[key]
    assert key in checked["__defaults"]
    assert len(made) == min(rule["maxlen"], 305 + 1 + rule["randlen"])
    assert made[-rule["randlen"] - 1] == rule["sep"]
    assert made.startswith("long-" if rule.get("lower") else "Long-")


@pytest.mark.parametrize("name", MEASURED)
def test_an_explicit_name_deletes_before_it_replaces(gcp: Provider, name: str) -> None:
    type_, behaviour = typed(name), BEHAVIOURS[name]
    place = next(p for p in leaves(type_.fields) if p[-1].replace and len(p) == 1 and not p[-1].of)
    old = inputs(place, BEFORE[kind(place[-1])])
    new = inputs(place, AFTER[kind(place[-1])])
    rule = type_.autoname
    for explicit in (True, False):
        named: Props = {}
        if rule and place[-1].name != rule.field:
            named = {rule.field: "x", "__defaults": [] if explicit else [rule.field]}
        elif rule:
            named = {"__defaults": [] if explicit else [rule.field]}
        live = Live("simulated/x", {**old, **named}, {**old, **named})
        plan = gcp.diff(type_.token, "x", live, {**new, **named})
        first = behaviour["overlayDeleteBeforeReplace"] or (rule is not None and explicit)
        assert plan.replaces
        assert plan.deleteBeforeReplace is first


def test_every_type_has_an_id_and_a_duration() -> None:
    types = [type_of(token) for token in known_types()]
    assert len(types) >= 40
    assert [t.token for t in types if t and not (t.id and duration(t.token).source)] == []
    assert [t.token for t in types if t and duration(t.token).create <= 0] == []

"""Every field of a stack file reaches a resource or an output."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from catalog.releases import definition
from components import operators
from config.stack import Stack
from tests.support.files import stack_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed

KNOBS: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "knobs.yaml").read_text()
)


def _fields(annotation: Any, seen: set[type]) -> Iterator[str]:
    """`Model.field` for every field of every model below a type."""
    if get_origin(annotation) is Annotated:
        yield from _fields(get_args(annotation)[0], seen)
    elif get_origin(annotation) in (Union, UnionType, dict, tuple, list):
        for each in get_args(annotation):
            yield from _fields(each, seen)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation in seen:
            return
        seen.add(annotation)
        for name, info in annotation.model_fields.items():
            yield f"{annotation.__name__}.{info.alias or name}"
            yield from _fields(info.annotation, seen)


def _shape(graph: Graph) -> dict[str, Any]:
    """What the engine would act on, without the order of registration, and what it tells."""
    return {
        "outputs": graph.stack_outputs,
        **{
            each.urn: (
                each.inputs,
                each.protect,
                each.delete_before_replace,
                each.ignore_changes,
                each.replace_on_changes,
            )
            for each in graph.resources
        },
    }


@functools.cache
def _recorded(config: str) -> dict[str, Any]:
    return _shape(record(json.loads(config)))


@pytest.fixture(autouse=True)
def short_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """No knob reaches into the operators' definitions, and sending them takes most of the time."""

    def short(name: str, version: str) -> dict[str, Any]:
        whole = definition(name, version)
        return {**whole, "versions": [{"name": f"{name} {version}"}]}

    monkeypatch.setattr(operators, "definition", short)


def test_every_field_has_a_knob_test_and_every_knob_test_a_field() -> None:
    assert sorted(KNOBS) == sorted(set(_fields(Stack, set())))


@pytest.mark.parametrize("field", KNOBS)
def test_turning_a_knob_changes_the_graph(field: str) -> None:
    knob = KNOBS[field]
    base = changed(stack_config(knob["stack"]), knob.get("before", {}))
    turned = changed(base, knob["set"])
    assert _recorded(json.dumps(base, default=str)) != _shape(record(turned))

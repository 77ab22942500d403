"""Every line of the tutorial has its place, and every place exists."""

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from config.stack import Stack
from tests.support.files import ROOT

PAGE = ROOT / "docs" / "tutorial-map.md"
KINDS = ("field", "output", "command", "derived", "by hand")
OUTPUTS = {"cluster", "storage", "endpoints", "dashboards", "verify"}


def _rows() -> list[tuple[str, str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines]
    return [(cell[0], cell[-1]) for cell in cells[1:] if not cell[0].startswith("---")]


def _models(annotation: Any) -> Iterator[Any]:
    """The types a field may hold: members of unions, values of maps."""
    if get_origin(annotation) is Annotated:
        yield from _models(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _models(each)
    elif get_origin(annotation) is dict:
        yield from _models(get_args(annotation)[1])
    else:
        yield annotation


def _exists(path: str) -> bool:
    """Whether a dotted path leads somewhere in the schema; map keys are free."""
    here: list[Any] = [Stack]
    for part in path.split("."):
        below = []
        for model in here:
            if not (isinstance(model, type) and issubclass(model, BaseModel)):
                continue
            for name, info in model.model_fields.items():
                if part == (info.alias or name):
                    below.append(info.annotation)
        if not below and part in ("llama", "trillium"):
            continue
        here = [model for annotation in below for model in _models(annotation)]
        if not below:
            return False
    return True


def test_there_are_as_many_rows_as_the_tutorial_has_steps() -> None:
    assert len(_rows()) > 55


@pytest.mark.parametrize(("line", "place"), _rows())
def test_a_line_of_the_tutorial_has_a_place(line: str, place: str) -> None:
    assert line
    assert place.startswith(KINDS), place
    for path in re.findall(r"field `([^`]+)`", place):
        assert _exists(path), path
    for name in re.findall(r"output `([^`]+)`", place):
        assert name in OUTPUTS
    for command in re.findall(r"command `([^`]+)`", place):
        assert command.split()[0] in ("pulumi", "python", "kubectl", "gcloud")

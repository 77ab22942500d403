"""Every line of the tutorial has its place, and every place exists."""

import importlib
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel
from typer.main import get_command

from catalog.serving import Scale
from config.servers import servers
from config.stack import Stack, check
from ops.__main__ import COMMANDS
from tests.support.files import ROOT, stack_config

PAGE = ROOT / "docs" / "tutorial-map.md"
STEPS = Path(__file__).with_name("tutorial_steps.txt")
"""The tutorial's steps, settings and commands in its order, under short names of our own."""
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


def test_every_step_of_the_tutorial_has_its_row() -> None:
    steps = STEPS.read_text().splitlines()
    rows = [line for line, _ in _rows()]
    assert sorted(rows) == sorted(set(rows))
    assert (set(steps) - set(rows), set(rows) - set(steps)) == (set(), set())


def _options(tool: str) -> set[str]:
    command = get_command(importlib.import_module(f"ops.{tool}").app)
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize("page", ["tutorial-map.md", "serve-a-model.md"])
def test_every_command_of_ours_exists_with_its_options(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    asked = re.findall(r"python -m ops (\w+)([^\n`]*)", text)
    assert asked
    assert {tool for tool, _ in asked} <= set(COMMANDS)
    unknown = [
        (tool, word)
        for tool, rest in asked
        for word in rest.partition(":")[0].split()
        if word.startswith("-") and word not in _options(tool)
    ]
    assert unknown == []


@pytest.mark.parametrize("page", ["tutorial-map.md", "serve-a-model.md"])
def test_the_load_that_is_named_makes_the_queue_that_scales(page: str) -> None:
    """An autoscaler leaves a tenth above its target alone (Kubernetes docs, HPA tolerance)."""
    stack = check(stack_config("dev"), name="tpuserve-dev", today=date(2026, 12, 1)).require()
    (server,) = servers(stack).values()
    assert isinstance(server.replicas, Scale)
    (clients,) = re.findall(r"ops load .*?--clients (\d+)", (ROOT / "docs" / page).read_text())
    waiting = int(clients) - server.engine.max_num_seqs
    assert waiting > 1.1 * server.replicas.target


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

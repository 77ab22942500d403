"""Every defect of the codelab has the check that prevents it, and that check exists."""

import importlib
import re

import pytest

from tests.support.files import ROOT

PAGE = ROOT / "docs" / "codelab-map.md"
DEFECTS = re.findall(r"^\| (S\d+) \| (.+?) \| (.+) \|$", PAGE.read_text(), re.M)
NAMED = re.findall(r"`([a-z_0-9]+\.[a-z_0-9.]+)::(\w+)`", PAGE.read_text())


def test_each_defect_names_what_prevents_it() -> None:
    assert [name for name, _, _ in DEFECTS] == [f"S{number}" for number in range(1, 21)]
    assert [name for name, _, prevented in DEFECTS if "::" not in prevented] == []


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_what_prevents_a_defect_exists(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)

"""The comments shown in docs/pull-requests.md are what a preview of these stacks gives."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.gate.settings import load_settings
from ops.preview.events import parse
from ops.preview.redact import Redactor
from ops.preview.source import Preview
from ops.report import assemble, look, render
from simcloud.engine import Sim
from simcloud.events import to_json
from tests.support.engine import simulated
from tests.support.files import ROOT, stack_config

pytestmark = pytest.mark.engine

PAGE = ROOT / "docs" / "pull-requests.md"
PACK = ROOT / "policies" / "run"
CHANGES: dict[str, dict[str, Any]] = {
    "resize": {"slices": {"min": 1, "max": 4}},
    "replace": {"capacity": {"kind": "on-demand"}},
}


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with simulated(tmp_path_factory.mktemp("dev"), "dev") as sim:
        sim.up()
        yield sim


def _comment(sim: Sim, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> str:
    monkeypatch.setenv("TPUSERVE_POLICY_PROFILE", "dev")
    (name,) = shipped = stack_config("dev")["tpuserve:tpuPools"]
    lines: list[str] = []
    sim.set_config({"tpuPools": {name: {**shipped[name], **change}}})
    try:
        sim.preview(policy_packs=[PACK], on_event=lambda event: lines.append(to_json(event)))
    finally:
        sim.set_config({"tpuPools": shipped})
    preview = Preview(stack="dev", log=parse(lines), output="", exit_code=0)
    redactor = Redactor()
    view = look(preview, load_settings(), redactor=redactor)
    return render(assemble([view], simulated=True), [view], redactor=redactor).strip()


def _shown(page: str, name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n(.*?)\n?<!-- end -->", page, re.DOTALL)
    assert found, f"{PAGE} has no example {name}"
    return found[1].strip()


def _telling(comment: str) -> list[str]:
    """What must not go stale: the line that decides, the diff, the money."""
    kept = [line for line in comment.splitlines() if re.match(r"\*\*dev|[-+!] |\| <code>", line)]
    # The pack's findings change with every rule that is added.
    return [re.sub(r" · policies: [^·]*", "", line).strip() for line in kept]


@pytest.mark.parametrize("name", CHANGES)
def test_the_page_shows_what_the_engine_says(
    sim: Sim, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    comment = _comment(sim, monkeypatch, CHANGES[name])
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_EXAMPLES"):
        shown = _shown(page, name)
        start = page.index(f"<!-- example: {name} -->")
        block = page[start : page.index("<!-- end -->", start)]
        assert shown in block
        page = page.replace(block, f"<!-- example: {name} -->\n{comment}\n")
        Path(PAGE).write_text(page, encoding="utf-8")
    assert _telling(_shown(page, name)) == _telling(comment)

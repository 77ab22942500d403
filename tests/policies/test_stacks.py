"""The shipped stacks under their profiles: sound, and what is broken in them is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluate import Report, evaluate, resource_from
from mutation import prove
from pack import PROFILE_VARIABLE
from profiles import load
from rules.model import Resource
from tests.policies.test_engine import RUN, Ears
from tests.support.engine import simulated
from tests.support.files import stack_config
from tests.support.recorder import record

STACKS = ("dev", "prod")


def recorded(stack: str, *, preview: bool) -> list[Resource]:
    """What the program declares, as the rules see it."""
    return [
        resource_from(
            {
                "type": each.type,
                "name": each.name,
                "urn": each.urn,
                "inputs": each.inputs,
                "parent": each.parent,
                "dependencies": each.dependencies,
                "options": {
                    "protect": each.protect,
                    "deleteBeforeReplace": each.delete_before_replace or None,
                    "ignoreChanges": each.ignore_changes,
                    "customTimeouts": {"create": each.create_timeout},
                },
            }
        )
        for each in record(stack_config(stack), stack=stack, preview=preview).resources
    ]


@pytest.fixture(scope="module")
def reports() -> dict[tuple[str, bool], Report]:
    return {
        (stack, preview): evaluate(recorded(stack, preview=preview), load(stack))
        for stack in STACKS
        for preview in (True, False)
    }


@pytest.mark.parametrize("preview", [True, False], ids=["preview", "update"])
@pytest.mark.parametrize("stack", STACKS)
def test_a_shipped_stack_breaks_no_mandatory_rule(
    stack: str, preview: bool, reports: dict[tuple[str, bool], Report]
) -> None:
    broken = reports[stack, preview].at("mandatory")
    assert [f"{f.rule.id} {f.resource.title}: {f.text}" for f in broken] == []


@pytest.mark.parametrize("stack", STACKS)
def test_no_rule_fails_on_a_shipped_stack(
    stack: str, reports: dict[tuple[str, bool], Report]
) -> None:
    doubts = [d for preview in (True, False) for d in reports[stack, preview].doubts]
    assert [f"{d.rule.id} {d.resource.title}: {d.why}" for d in doubts if d.failed] == []


@pytest.mark.parametrize("stack", STACKS)
def test_in_an_update_nothing_is_left_undecided(
    stack: str, reports: dict[tuple[str, bool], Report]
) -> None:
    doubts = reports[stack, False].doubts
    assert [f"{d.rule.id} {d.resource.title}: {d.why}" for d in doubts] == []


@pytest.mark.parametrize("stack", STACKS)
def test_every_waiver_of_a_profile_is_used(
    stack: str, reports: dict[tuple[str, bool], Report]
) -> None:
    assert [f"{w.rule} {w.resource}" for w in reports[stack, False].idle_waivers] == []


@pytest.mark.parametrize("stack", STACKS)
def test_every_guarded_property_of_a_shipped_stack_is_seen_when_broken(stack: str) -> None:
    score = prove(recorded(stack, preview=False), load(stack))
    assert [f"{t.rule.id} {t.resource} {t.place}" for t in score.missed] == []
    assert len(score.caught) > 100


@pytest.mark.engine
@pytest.mark.parametrize("stack", STACKS)
def test_a_shipped_stack_previews_under_its_profile(
    stack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE_VARIABLE, stack)
    ears = Ears()
    with simulated(tmp_path, stack) as sim:
        sim.preview(policy_packs=[RUN], on_event=ears)
    assert [f"{t.rule} {t.name}: {t.text}" for t in ears.told if t.level == "mandatory"] == []


@pytest.mark.engine
def test_engine_and_recorder_see_the_same_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is proved over recorded graphs holds for the engine, provider defaults included."""
    monkeypatch.setenv(PROFILE_VARIABLE, "prod")
    ears = Ears()
    with simulated(tmp_path, "prod") as sim:
        sim.preview(policy_packs=[RUN], on_event=ears)
    engine = {(t.rule, t.name) for t in ears.told if not t.rule.startswith("PACK-")}
    report = evaluate(recorded("prod", preview=True), load("prod"))
    assert engine == {(f.rule.id, f.resource.name) for f in report.findings}

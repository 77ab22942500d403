"""Profiles: explicit, strict to read, and waivers with a reason and an end."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evaluate import evaluate
from profiles import LEVELS, NAMES, PACK_RULES, ProfileError, load, parse
from rules import RULES
from tests.policies.support import changed, graph, world

SOUND: dict[str, Any] = {r.id: "mandatory" for r in RULES} | dict.fromkeys(PACK_RULES, "advisory")
WAIVER = {"resource": "net", "reason": "an experiment", "until": "2027-01-31"}


def with_rule(**rules: Any) -> dict[str, Any]:
    return SOUND | {key.replace("_", "-"): value for key, value in rules.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_profiles_are_sound(name: str) -> None:
    profile = load(name)
    assert set(profile.levels) == {*(rule.id for rule in RULES), *PACK_RULES}
    assert set(profile.levels.values()) <= set(LEVELS)


@pytest.mark.parametrize(("looser", "stricter"), [("dev", "staging"), ("staging", "prod")])
def test_no_environment_is_looser_than_the_one_before(looser: str, stricter: str) -> None:
    before, after = load(looser).levels, load(stricter).levels
    weaker = [key for key in before if LEVELS.index(after[key]) < LEVELS.index(before[key])]
    assert weaker == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (SOUND | {"NET-99": "mandatory"}, "NET-99: no such rule"),
        ({k: v for k, v in SOUND.items() if k != "TPU-05"}, "TPU-05: missing"),
        (with_rule(NET_01="strict"), "NET-01: level 'strict' is none of"),
        (with_rule(NET_01={"level": "advisory"}), "NET-01: level None"),
        (
            with_rule(TPU_17={"enforcementLevel": "advisory", "budget": 1}),
            "TPU-17.budget: no such setting; the rule takes enforcementLevel, waivers, monthly",
        ),
        (
            with_rule(TPU_17={"enforcementLevel": "advisory", "monthlyBudgetUsd": "much"}),
            "TPU-17.monthlyBudgetUsd: 'much' is not a JSON number",
        ),
        (
            with_rule(NET_01={"enforcementLevel": "mandatory", "waivers": [{"resource": "net"}]}),
            r"NET-01.waivers\[0\]: reason, until must be given",
        ),
        (
            with_rule(
                NET_01={"enforcementLevel": "mandatory", "waivers": [WAIVER | {"until": "soon"}]}
            ),
            r"NET-01.waivers\[0\].until: 'soon' is not a day",
        ),
        (
            with_rule(
                NET_01={"enforcementLevel": "mandatory", "waivers": [WAIVER | {"untill": "x"}]}
            ),
            r"NET-01.waivers\[0\]: unknown field untill",
        ),
        (
            with_rule(NET_01={"enforcementLevel": "disabled", "waivers": [WAIVER]}),
            "NET-01.waivers: nothing to waive",
        ),
        ([], "a profile is an object"),
    ],
)
def test_a_mistake_is_named(content: Any, complaint: str) -> None:
    with pytest.raises(ProfileError, match=complaint):
        parse("test", content, "test.json")


def test_all_mistakes_are_told_at_once() -> None:
    content = with_rule(NET_01="strict", NET_02="loose") | {"X-01": "mandatory"}
    with pytest.raises(ProfileError, match="3 mistakes") as caught:
        parse("test", content, "test.json")
    assert all(word in str(caught.value) for word in ("NET-01", "NET-02", "X-01"))


def test_a_profile_may_be_any_file(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(SOUND))
    assert load(str(path)).name == "own"
    path.write_text("{")
    with pytest.raises(ProfileError, match="not JSON"):
        load(str(path))


def test_a_profile_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ProfileError, match="'prodd': use dev, staging, prod"):
        load("prodd")


class TestWaivers:
    broken = staticmethod(lambda: changed(world.dev, "net", "mtu", 1460))

    def report(self, today: str, **waiver: str) -> Any:
        entry = {"enforcementLevel": "mandatory", "waivers": [WAIVER | waiver]}
        profile = parse("test", with_rule(TPU_10=entry), "test")
        return evaluate(graph(self.broken()), profile, date.fromisoformat(today))

    def told(self, report: Any) -> list[str]:
        return [f.rule.id for f in report.findings if f.rule.id == "TPU-10"]

    def test_a_waiver_hides_the_finding_until_its_last_day(self) -> None:
        report = self.report("2027-01-31")
        assert self.told(report) == []
        assert [(w.reason, f.rule.id) for w, f in report.waived] == [("an experiment", "TPU-10")]
        assert report.idle_waivers == []

    def test_an_expired_waiver_hides_nothing(self) -> None:
        report = self.report("2027-02-01")
        assert self.told(report) == ["TPU-10"]
        assert [w.rule for w in report.idle_waivers] == ["TPU-10"]

    def test_a_waiver_for_something_else_is_idle(self) -> None:
        report = self.report("2027-01-01", resource="other-*")
        assert self.told(report) == ["TPU-10"]
        assert [w.resource for w in report.idle_waivers] == ["other-*"]

    @pytest.mark.parametrize("pattern", ["net", "n*", "*:Network::net"])
    def test_a_pattern_fits_the_name_or_the_urn(self, pattern: str) -> None:
        assert self.told(self.report("2027-01-01", resource=pattern)) == []

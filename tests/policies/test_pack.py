"""The pack as the engine meets it: over pulumi-policy's own servicer, message for message."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import EnforcementLevel, policy
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

import decode_once
from pack import PROFILE_VARIABLE, chosen_profile, initial_config, policies
from profiles import Profile, ProfileError, load, parse
from rules import RULES
from tests.policies.support import changed, world
from tests.policies.world import Record

PACK = Path(__file__).parents[2] / "policies"
FUTURE, PAST = "2999-01-01", "2020-01-01"


def _servicer(profile: Profile) -> Any:
    return policy._PolicyAnalyzerServicer(
        "tpuserve", "1", policies(profile), EnforcementLevel.ADVISORY, initial_config(profile)
    )


class Engine:
    """Sends resources to the pack as the engine does and keeps what it answers."""

    def __init__(self, profile: Profile) -> None:
        self.servicer = _servicer(profile)
        info = self.servicer.GetAnalyzerInfo(None, None)
        self.info = {each.name: each for each in info.policies}
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        for name, each in self.info.items():
            entry = request.policyConfig[name]
            entry.enforcementLevel = each.enforcementLevel
            entry.properties.update({"waivers": []})
            if name in info.initialConfig:
                entry.CopyFrom(info.initialConfig[name])
        self.servicer.Configure(request, None)

    def run(self, records: Iterable[Record]) -> list[Any]:
        told: list[Any] = []
        stack = analyzer_pb2.AnalyzeStackRequest()
        for record in records:
            properties = struct_pb2.Struct()
            properties.update(record["inputs"])
            fields = {
                "type": record["type"],
                "name": record["name"],
                "urn": record["urn"],
                "properties": properties,
                "options": analyzer_pb2.AnalyzerResourceOptions(
                    protect=bool(record["options"].get("protect"))
                ),
            }
            told += self.servicer.Analyze(analyzer_pb2.AnalyzeRequest(**fields), None).diagnostics
            stack.resources.append(analyzer_pb2.AnalyzerResource(**fields))
        told += self.servicer.AnalyzeStack(stack, None).diagnostics
        return told


REPLACED = ("json_format", "deserialize_properties", "unknown_checking_proxy")
ORIGINAL = {name: vars(policy)[name] for name in REPLACED}


@pytest.fixture(autouse=True)
def _decoded_once() -> Iterator[None]:
    """As the pack runs; what it replaces in pulumi-policy is put back after each test."""
    decode_once.install()
    yield
    vars(policy).update(ORIGINAL)


def ids(told: Iterable[Any], level: int | None = None) -> set[str]:
    return {d.policyName for d in told if level is None or d.enforcementLevel == level}


def profile(**rules: Any) -> Profile:
    content = dict(load("prod").levels) | {k.replace("_", "-"): v for k, v in rules.items()}
    return parse("test", content, "test")


def test_a_sound_stack_is_silent() -> None:
    assert [d.message for d in Engine(load("prod")).run(world.prod())] == []


def test_decoding_once_changes_no_answer() -> None:
    records = changed(world.prod, "logs", "member", UNKNOWN_STRING_VALUE)
    records[0]["inputs"]["autoCreateSubnetworks"] = True
    records[1]["inputs"]["privateIpGoogleAccess"] = False
    fast = Engine(load("prod")).run(records)
    vars(policy).update(ORIGINAL)
    slow = Engine(load("prod")).run(records)
    assert [d.message for d in fast] == [d.message for d in slow]
    assert len(fast) > 2


def test_a_violation_has_the_level_severity_and_message_of_its_rule() -> None:
    told = Engine(load("prod")).run(changed(world.prod, "net", "autoCreateSubnetworks", True))
    (found,) = told
    assert found.policyName == "NET-01"
    assert found.enforcementLevel == analyzer_pb2.MANDATORY
    assert found.severity == analyzer_pb2.POLICY_SEVERITY_HIGH
    assert found.message.endswith("autoCreateSubnetworks is on (the default): set it to false")


def test_a_whole_stack_finding_names_its_resource() -> None:
    records = changed(world.prod, "net", "mtu", 1460)
    (found,) = Engine(load("prod")).run(records)
    assert (found.policyName, found.urn) == ("TPU-10", records[0]["urn"])


def test_the_same_stack_is_judged_by_the_profile() -> None:
    path = "privateClusterConfig/enablePrivateNodes"
    records = changed(world.prod, "main", path, False, "Cluster")
    assert "GKE-01" in ids(Engine(load("prod")).run(records), analyzer_pb2.MANDATORY)
    assert "GKE-01" in ids(Engine(load("dev")).run(records), analyzer_pb2.ADVISORY)


def test_settings_of_the_profile_reach_their_rule() -> None:
    small = profile(TPU_17={"enforcementLevel": "mandatory", "monthlyBudgetUsd": 1000})
    told = Engine(small).run(world.prod())
    assert ids(told) == {"TPU-17"}
    assert "1,121,280 USD a month" in told[0].message


def test_a_setting_never_weakens_its_rule() -> None:
    """An entry without a level would count as advisory."""
    entry = {"enforcementLevel": "mandatory", "monthlyBudgetUsd": 1}
    settings = initial_config(profile(TPU_17=entry))["TPU-17"]
    assert isinstance(settings, dict)
    assert settings["enforcementLevel"] == EnforcementLevel.MANDATORY


def test_unknown_values_become_one_message() -> None:
    records = changed(world.prod, "logs", "member", UNKNOWN_STRING_VALUE)
    told = Engine(load("prod")).run(records)
    (summary,) = told
    assert summary.policyName == "PACK-01"
    assert summary.enforcementLevel == analyzer_pb2.ADVISORY
    assert "2 checks of 2 rules" in summary.message
    assert "IAM-03 logs (member)" in summary.message


def test_a_second_run_forgets_the_doubts_of_the_first() -> None:
    engine = Engine(load("prod"))
    first = engine.run(changed(world.prod, "logs", "member", UNKNOWN_STRING_VALUE))
    second = engine.run(world.prod())
    assert (ids(first), ids(second)) == ({"PACK-01"}, set())


def test_an_unknown_value_hides_no_other_violation() -> None:
    records = changed(world.prod, "logs", "member", UNKNOWN_STRING_VALUE)
    records[0]["inputs"]["autoCreateSubnetworks"] = True
    assert ids(Engine(load("prod")).run(records)) == {"NET-01", "PACK-01"}


def test_a_rule_with_a_fault_of_its_own_is_reported_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faulty(_: Any) -> Iterator[str]:
        raise KeyError("hf_" + "x" * 34)

    broken = next(rule for rule in RULES if rule.id == "NET-01")
    monkeypatch.setitem(broken.__dict__, "check", faulty)
    (summary,) = Engine(load("prod")).run(world.prod())
    assert "NET-01 failed on net (KeyError)" in summary.message
    assert "hf_" not in summary.message


class TestWaivers:
    def told(self, waiver: Mapping[str, str]) -> tuple[set[str], str]:
        entry = {"enforcementLevel": "mandatory", "waivers": [waiver]}
        told = Engine(profile(TPU_10=entry)).run(changed(world.prod, "net", "mtu", 1460))
        notes = [d.message for d in told if d.policyName == "PACK-02"]
        return ids(told), notes[0] if notes else ""

    def test_one_in_use_is_listed_with_its_reason(self) -> None:
        seen, note = self.told({"resource": "net", "reason": "a lab", "until": FUTURE})
        assert seen == {"PACK-02"}
        assert f"TPU-10 on net: 1 waived until {FUTURE}: a lab" in note

    def test_one_that_hides_nothing_is_told(self) -> None:
        seen, note = self.told({"resource": "gone", "reason": "a lab", "until": FUTURE})
        assert seen == {"TPU-10", "PACK-02"}
        assert "TPU-10 on gone: hides nothing" in note

    def test_one_that_expired_is_told_and_hides_nothing(self) -> None:
        seen, note = self.told({"resource": "net", "reason": "a lab", "until": PAST})
        assert seen == {"TPU-10", "PACK-02"}
        assert f"TPU-10 on net: expired on {PAST}" in note


def test_a_misspelt_setting_of_a_config_file_is_told() -> None:
    engine = Engine(load("prod"))
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    entry = request.policyConfig["TPU-17"]
    entry.enforcementLevel = analyzer_pb2.MANDATORY
    entry.properties.update({"monthlyBudget": 1, "waivers": [{"resource": "x"}]})
    engine.servicer.Configure(request, None)
    (note,) = [d for d in engine.run(world.prod()) if d.policyName == "PACK-02"]
    assert "TPU-17.monthlyBudget: no such setting" in note.message
    assert "TPU-17.waivers[0]: reason, until must be given as text" in note.message


class TestForm:
    def test_every_policy_carries_what_a_report_needs(self) -> None:
        info = Engine(load("prod")).info
        poor = [
            rule.id
            for rule in RULES
            if not (e := info[rule.id]).description
            or not e.severity
            or not e.framework.name
            or not e.remediation_steps
            or not e.url
            or not e.tags
        ]
        assert poor == []

    def test_no_policy_changes_a_resource(self) -> None:
        assert all(
            not p.has_remediation()
            for p in policies(load("prod"))
            if isinstance(p, policy.ResourceValidationPolicy)
        )

    def test_the_profile_comes_from_the_environment_else_the_strictest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(PROFILE_VARIABLE, "dev")
        assert chosen_profile().name == "dev"
        monkeypatch.delenv(PROFILE_VARIABLE)
        assert chosen_profile().name == "prod"
        monkeypatch.setenv(PROFILE_VARIABLE, "nope")
        with pytest.raises(ProfileError, match="no policy profile 'nope'"):
            chosen_profile()


def test_the_pack_loads_no_provider_and_nothing_of_the_program() -> None:
    code = (
        "import sys, pack\n"
        "rooms = ('catalog', 'config', 'components', 'simcloud', 'ops')\n"
        "print([m for m in sys.modules if m.startswith(('pulumi_gcp', 'pulumi_kubernetes'))\n"
        "       or m.split('.')[0] in rooms])"
    )
    answer = subprocess.check_output([sys.executable, "-c", code], cwd=PACK, text=True)
    assert answer.strip() == "[]"


def test_the_pack_needs_pulumi_and_pulumi_policy_alone() -> None:
    lines = (PACK / "requirements.txt").read_text().split()
    assert [line.partition("==")[0] for line in lines] == ["pulumi", "pulumi-policy"]
    assert all(line.partition("==")[2] for line in lines)

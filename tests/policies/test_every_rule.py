"""What holds for every rule: it passes, it fails, and no odd input ever breaks it."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate import evaluate, judge
from mutation import Score, changed, mutants, prove
from rules import MODULES, RULES
from rules.model import DROP, UNKNOWN, Resource, Rule, Stack, UndecidedError
from tests.policies import world
from tests.policies.support import EVERYTHING, graph

GRAPHS = {name: graph(make()) for name, make in world.GRAPHS.items()}

# Rules that object to a resource's mere existence, or need what only an engine records.
EXISTENCE = {
    "IAM-05": world.record("gcp:projects/iAMBinding:IAMBinding", "b", {"role": "roles/x"}),
    "IAM-06": world.record("gcp:serviceaccount/key:Key", "k", {}),
    "POD-17": world.kube("v1", "Pod", "p", {"spec": {"containers": []}}, namespace="llm"),
    "API-02": world.record("gcp:compute/network:Network", "n", {}),
}


@pytest.fixture(scope="module")
def scores() -> dict[str, Score]:
    return {name: prove(resources, EVERYTHING) for name, resources in GRAPHS.items()}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_sound_stack_has_no_finding_and_no_doubt(name: str) -> None:
    report = evaluate(GRAPHS[name], EVERYTHING)
    assert [f"{f.rule.id} {f.resource.title}: {f.text}" for f in report.findings] == []
    assert [f"{d.rule.id} {d.resource.title}: {d.why}" for d in report.doubts] == []


def test_every_rule_looks_at_something_in_the_sound_stacks() -> None:
    blind = [
        rule.id
        for rule in RULES
        if rule.id not in EXISTENCE
        and not any(Stack(tuple(g)).of(rule.on) for g in GRAPHS.values())
    ]
    assert blind == []


def test_every_guarded_property_is_caught_when_broken(scores: dict[str, Score]) -> None:
    missed = [
        f"{name}: {t.rule.id} {t.resource} {t.place}"
        for name, score in scores.items()
        for t in score.trials
        if t.outcome != "caught"
    ]
    assert missed == []
    tried = {(t.rule.id, t.guard) for score in scores.values() for t in score.trials}
    assert {(r.id, n) for r in RULES for n in range(len(r.guards))} - tried == set()


def test_every_rule_can_fail() -> None:
    unguarded = {rule.id for rule in RULES if not rule.guards}
    assert unguarded == set(EXISTENCE)
    silent = []
    for rule_id, record in EXISTENCE.items():
        service = world.identity()[0]
        other = world.record("gcp:compute/firewall:Firewall", "f", {})
        records = graph([record, service, {**other, "dependencies": [service["urn"]]}])
        report = evaluate(records, EVERYTHING)
        if rule_id not in {f.rule.id for f in report.findings if f.resource.name == record["name"]}:
            silent.append(rule_id)
    assert silent == []


def _places(rule: Rule) -> Iterator[tuple[str, tuple[Resource, ...], Resource, tuple[Any, ...]]]:
    """Every guarded place in the sound stacks, as a path from the resource."""
    for name, resources in GRAPHS.items():
        for guard in rule.guards:
            if isinstance(guard.path, str) and guard.path.startswith("@"):
                continue
            steps = tuple(guard.path.split(".")) if isinstance(guard.path, str) else guard.path
            for resource in resources:
                for part in (guard.on or rule.on).pick(resource):
                    if not isinstance(part, UndecidedError):
                        yield name, tuple(resources), resource, part.path + steps


def _with(resources: tuple[Resource, ...], old: Resource, value: Any) -> tuple[Resource, ...]:
    return tuple(replace(r, value=value) if r is old else r for r in resources)


@pytest.mark.parametrize("bad", [UNKNOWN, DROP], ids=["unknown", "missing"])
def test_an_unknown_or_missing_value_never_stops_a_rule(bad: Any) -> None:
    failed, asked = [], 0
    for rule in RULES:
        settings = rule.defaults()
        for _, resources, resource, path in _places(rule):
            value = changed(resource.value, path, bad) if path else {}
            if not isinstance(value, dict):
                continue
            asked += 1
            broken = _with(resources, resource, value)
            for each in broken:
                if rule.on.matches(each.type):
                    verdict = judge(rule, each, settings, Stack(broken))
                    failed += [f"{rule.id} {path}: {d.why}" for d in verdict.doubts if d.failed]
    assert asked > 300
    assert failed == []


def test_an_unknown_value_is_not_taken_for_a_violation() -> None:
    """A rule that reads an unknown guarded value says so, or needs it not; it never complains."""
    wrong, undecided = [], set()
    for rule in RULES:
        settings = {**rule.defaults(), **EVERYTHING.settings.get(rule.id, {})}
        for name, resources, resource, path in _places(rule):
            value = changed(resource.value, path, UNKNOWN) if path else resource.value
            if not path or not isinstance(value, dict) or _of(path, resource) is None:
                continue
            broken = _with(resources, resource, value)
            for each in broken:
                if rule.on.matches(each.type):
                    verdict = judge(rule, each, settings, Stack(broken))
                    wrong += [f"{name} {rule.id} {path}: {f.text}" for f in verdict.findings]
                    undecided |= {rule.id for _ in verdict.doubts}
    assert wrong == []
    assert len(undecided) > 80


def _of(path: tuple[Any, ...], resource: Resource) -> Any:
    try:
        return resource.node(path).value
    except UndecidedError:
        return None


def test_no_rule_fails_on_input_of_odd_shapes() -> None:
    chance = random.Random(7)  # noqa: S311 - the same odd shapes in every run
    odd: list[Any] = [
        None,
        "",
        "x",
        -1,
        1.5,
        True,
        [],
        {},
        [None],
        [[]],
        {"a": None},
        UNKNOWN,
        "0x0",
        ["1"],
    ]

    def mangled(value: Any) -> Any:
        if chance.random() < 0.12:
            return chance.choice(odd)
        if isinstance(value, dict):
            return {key: mangled(item) for key, item in value.items()}
        return [mangled(item) for item in value] if isinstance(value, list) else value

    failed = []
    for resources in GRAPHS.values():
        for _ in range(12):
            broken = tuple(replace(r, value=mangled(r.value)) for r in resources)
            for rule in RULES:
                for each in broken:
                    if rule.on.matches(each.type):
                        verdict = judge(rule, each, rule.defaults(), Stack(broken))
                        failed += [f"{rule.id}: {d.why}" for d in verdict.doubts if d.failed]
    assert sorted(set(failed)) == []


SECRET_SPOTS = {"value", "args", "command", "annotations", "data", "values", "create"}
PLAIN_SPOTS = {"image", "repository", "tag", "digest", world.SHAPE}


def _poisoned(value: Any, secret: bool, canary: str) -> Any:
    """The same tree with a canary in every text that may hold a secret."""
    if isinstance(value, dict):
        return {
            key: _poisoned(item, (secret or key in SECRET_SPOTS) and key not in PLAIN_SPOTS, canary)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_poisoned(item, secret, canary) for item in value]
    return f"{value} hf_{canary}" if secret and isinstance(value, str) else value


def test_no_message_quotes_what_may_be_secret() -> None:
    canary = "canary" * 6
    told = []
    for resources in GRAPHS.values():
        for rule in RULES:
            for guard in rule.guards:
                for _, _, _, mutant in mutants(rule, guard, resources):
                    broken = tuple(
                        replace(r, value=_poisoned(r.value, False, canary)) for r in mutant
                    )
                    for each in broken:
                        if rule.on.matches(each.type):
                            verdict = judge(rule, each, rule.defaults(), Stack(broken))
                            told += [f"{rule.id}: {f.text}" for f in verdict.findings]
                    break
    assert {"TPU-13", "KSEC-02", "HELM-03"} <= {text.partition(":")[0] for text in told}
    assert [text for text in told if canary in text] == []


class TestForm:
    def test_ids_are_unique(self) -> None:
        assert len({rule.id for rule in RULES}) == len(RULES)

    def test_every_rule_of_a_module_is_in_its_list(self) -> None:
        lost = [
            f"{module.__name__}.{name}"
            for module in MODULES
            for name, value in vars(module).items()
            if isinstance(value, Rule) and value not in RULES
        ]
        assert lost == []

    @pytest.mark.parametrize("field", ["title", "fix", "url"])
    def test_every_rule_explains_itself(self, field: str) -> None:
        assert [rule.id for rule in RULES if not getattr(rule, field)] == []

    def test_ids_titles_and_links_have_one_form(self) -> None:
        wrong = [
            rule.id
            for rule in RULES
            if not re.fullmatch(r"[A-Z]+-\d\d", rule.id)
            or not rule.title.endswith(".")
            or not rule.fix.endswith((".", ".."))
            or not rule.url.startswith("https://")
        ]
        assert wrong == []

    def test_no_rule_loads_pulumi_or_a_provider(self) -> None:
        code = "import sys, rules; print({m.split('.')[0] for m in sys.modules})"
        folder = Path(str(MODULES[0].__file__)).parents[1]
        answer = subprocess.check_output([sys.executable, "-c", code], cwd=folder, text=True)
        loaded = set(re.findall(r"'(\w+)'", answer))
        assert "rules" in loaded
        assert loaded & {"pulumi", "pulumi_policy", "pulumi_gcp", "grpc", "yaml"} == set()

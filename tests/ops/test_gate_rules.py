"""Each gate: what it stops, what it lets pass."""

from typing import Any

import pytest

from catalog.prices import Price
from catalog.source import READ, Source
from ops.cost.stack import of_plan
from ops.gate.rules import Finding, judge
from ops.gate.settings import Gates, Settings, load_settings
from ops.preview.plan import Plan
from tests.ops.previews import COMMIT, plan, policy, pool_inputs, recorded, step

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def gates(**changes: Any) -> Gates:
    return load_settings().default.model_copy(update=changes)


def findings(made: Plan, settings: Gates | None = None, **more: Any) -> list[Finding]:
    return judge(made, of_plan(made), settings or gates(), **more)


def ids(made: Plan, settings: Gates | None = None) -> list[str]:
    return sorted(each.gate for each in findings(made, settings))


@pytest.mark.parametrize("operation", ["delete", "replace", "discard"])
@pytest.mark.parametrize(
    "kind",
    [
        CLUSTER,
        BUCKET,
        "gcp:kms/cryptoKey:CryptoKey",
        "gcp:secretmanager/secret:Secret",
        "gcp:compute/reservation:Reservation",
        "gcp:compute/resourcePolicy:ResourcePolicy",
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:Secret",
        "kubernetes:core/v1:PersistentVolumeClaim",
        "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
    ],
)
def test_g1_stops_the_loss_of_what_holds_state(kind: str, operation: str) -> None:
    assert ids(plan(step(operation, kind, "x", old={"name": "x"}))) == ["G1"]


def test_g1_stops_the_loss_of_a_tpu_pool_only() -> None:
    cpu = pool_inputs(node={"machineType": "e2-standard-8"})
    assert ids(plan(step("delete", POOL, "x", old=pool_inputs()))) == ["G1"]
    assert ids(plan(step("delete", POOL, "x", old=cpu))) == []


def test_g1_lets_updates_creations_and_stateless_kinds_pass() -> None:
    made = plan(
        step("create", BUCKET, "a", new={"name": "a"}),
        step("update", BUCKET, "b", old={"x": 1}, new={"x": 2}),
        step("replace", CONFIG_MAP, "c", old={"x": 1}, new={"x": 2}),
    )
    assert ids(made) == []


def test_g1_says_once_what_a_cluster_takes_along() -> None:
    found = [each for each in findings(recorded("replace-cluster")) if each.gate == "G1"]
    assert [each.subject.rsplit("::", 1)[-1] for each in found] == ["cluster-gke"]
    assert "takes along hf, llm-ns, trillium-pool" in found[0].text


def test_g1_still_names_a_pool_that_has_a_reason_of_its_own() -> None:
    made = plan(
        step("replace", CLUSTER, "c", old={"a": 1}, new={"a": 2}, forced=["a"]),
        step(
            "replace",
            POOL,
            "p",
            old=pool_inputs(),
            new=pool_inputs(node={"spot": True}),
            forced=["cluster", "nodeConfig.spot"],
        ),
    )
    found = [each for each in findings(made) if each.gate == "G1"]
    assert len(found) == 2


@pytest.mark.parametrize("option", ["protect", "retainOnDelete"])
def test_g2_stops_taking_an_option_off_and_not_putting_it_on(option: str) -> None:
    def made(was: bool, becomes: bool) -> Plan:
        return plan(
            step(
                "same",
                BUCKET,
                "w",
                old={"name": "w"},
                new={"name": "w"},
                old_options={option: was},
                new_options={option: becomes},
            )
        )

    assert ids(made(True, False)) == ["G2"]
    assert ids(made(False, True)) == []
    assert ids(made(True, True)) == []


def test_g2_says_once_that_a_whole_stack_loses_its_protection() -> None:
    made = plan(
        *[
            step(
                "same",
                CONFIG_MAP,
                f"m{n}",
                old={"n": n},
                new={"n": n},
                old_options={"protect": True},
            )
            for n in range(12)
        ]
    )
    (found,) = findings(made, commits=[COMMIT])
    assert (found.operation, found.subject) == ("unprotect-12", "stack:prod")
    assert "m0, m1" in found.text
    assert "and 4 more" in found.text


@pytest.mark.parametrize(
    ("old", "new", "stopped"),
    [
        ({"deletionProtection": True}, {"deletionProtection": False}, True),
        ({}, {"deletionProtection": False}, True),
        ({"deletionProtection": False}, {"deletionProtection": True}, False),
        ({"deletionProtection": False}, {"deletionProtection": False, "x": 1}, False),
        ({"forceDestroy": False}, {"forceDestroy": True}, True),
        ({}, {"forceDestroy": True}, True),
        ({"forceDestroy": True}, {"forceDestroy": False}, False),
        ({"deletionPolicy": "PREVENT"}, {"deletionPolicy": "DELETE"}, True),
        ({"deletionPolicy": "PREVENT"}, {"x": 1}, True),
        ({"deletionPolicy": "DELETE"}, {"deletionPolicy": "PREVENT"}, False),
    ],
)
def test_g3_stops_taking_the_providers_guard_off(
    old: dict[str, Any], new: dict[str, Any], stopped: bool
) -> None:
    assert ids(plan(step("update", CLUSTER, "c", old=old, new=new))) == ["G3"] * stopped


def _deleting(number: int, of: int) -> Plan:
    kept = [step("same", CONFIG_MAP, f"k{n}", old={"n": n}, new={"n": n}) for n in range(of)]
    gone = [step("delete", CONFIG_MAP, f"g{n}", old={"n": n}) for n in range(number)]
    return plan(*kept[number:], *gone)


@pytest.mark.parametrize(
    ("number", "of", "stopped"), [(11, 200, True), (10, 200, False), (3, 10, True), (1, 2, False)]
)
def test_g4_stops_many_deletions_by_number_or_share(number: int, of: int, stopped: bool) -> None:
    assert ids(_deleting(number, of)) == ["G4"] * stopped


def test_g5_recognises_a_rename_and_offers_the_alias() -> None:
    made = plan(
        step("delete", CONFIG_MAP, "old", old={"metadata": {"name": "m", "namespace": "n"}}),
        step("create", CONFIG_MAP, "new", new={"metadata": {"name": "m", "namespace": "n"}}),
    )
    (found,) = findings(made)
    assert (found.gate, found.level) == ("G5", "advisory")
    assert f'pulumi.Alias(urn="{found.subject}")' in found.fix


def test_g5_recognises_a_move_under_another_parent() -> None:
    coming = step("create", CONFIG_MAP, "same", new={"name": "made-up-2", "__defaults": ["name"]})
    metadata = coming["resourcePreEvent"]["metadata"]
    metadata["urn"] = metadata["urn"].replace(CONFIG_MAP, f"x:y:Component${CONFIG_MAP}")
    gone = step("delete", CONFIG_MAP, "same", old={"name": "made-up-1", "__defaults": ["name"]})
    assert ids(plan(gone, coming)) == ["G5"]


def test_g5_is_silent_for_different_things() -> None:
    made = plan(
        step("delete", CONFIG_MAP, "a", old={"metadata": {"name": "a"}}),
        step("create", CONFIG_MAP, "b", new={"metadata": {"name": "b"}}),
    )
    assert ids(made) == []


def test_g6_speaks_at_first_creation_only() -> None:
    undecided = policy("r", "advisory", "value at .x can't be known during preview", BUCKET, "w")
    first = plan(step("create", BUCKET, "w", new={"name": "w"}), undecided)
    later = plan(
        step("same", CONFIG_MAP, "c", old={"n": 1}, new={"n": 1}),
        step("create", BUCKET, "w", new={"name": "w"}),
        undecided,
    )
    assert ids(first) == ["G6"]
    assert ids(later) == []


def test_g7_stops_a_rise_above_the_threshold() -> None:
    made = recorded("resize")
    assert ids(made, gates(most_monthly_increase_usd=7_000)) == ["G7"]
    assert ids(made, gates(most_monthly_increase_usd=8_000)) == []


def test_g7_stops_a_rise_past_the_budget_and_not_a_fall_towards_it() -> None:
    settings = gates(most_monthly_increase_usd=1e9, monthly_budget_usd=10_000)
    assert ids(recorded("resize"), settings) == ["G7"]
    shrinking = plan(
        step("update", POOL, "p", old=pool_inputs(nodeCount=4), new=pool_inputs(nodeCount=3))
    )
    assert ids(shrinking, settings) == []


def test_g7_is_only_advisory_where_nobody_knows_the_price() -> None:
    made = plan(step("create", POOL, "p", new=pool_inputs(node={"flexStart": True})))
    (found,) = findings(made)
    assert (found.gate, found.level, found.operation) == ("G7", "advisory", "spend-unknown")


def test_levels_decide_what_is_refused() -> None:
    made = plan(step("delete", BUCKET, "w", old={"name": "w"}))
    for level, refused in (("mandatory", [True]), ("advisory", [False]), ("off", [])):
        settings = gates(levels={"G1": level})
        assert [each.refuses for each in findings(made, settings)] == refused


def test_an_override_lets_one_thing_through_at_one_commit() -> None:
    made = plan(
        step("delete", BUCKET, "a", old={"name": "a"}),
        step("delete", BUCKET, "b", old={"name": "b"}),
        *[step("same", CONFIG_MAP, f"k{n}", old={"n": n}, new={"n": n}) for n in range(20)],
    )
    (first, second) = findings(made, commits=[COMMIT])
    assert first.override
    for words in (first.override.sentence, first.override.label):
        again = findings(made, commits=[COMMIT], said=[words])
        assert {each.subject: each.refuses for each in again} == {
            first.subject: False,
            second.subject: True,
        }
    elsewhere = findings(made, commits=["f" * 40], said=[first.override.sentence])
    assert all(each.refuses for each in elsewhere)


def test_an_override_of_another_operation_or_gate_does_not_count() -> None:
    made = plan(step("delete", BUCKET, "a", old={"name": "a"}))
    (finding,) = findings(made, commits=[COMMIT])
    assert finding.override
    for wrong in (" delete ", " G1 "):
        sentence = finding.override.sentence.replace(
            wrong, wrong.replace("e", "x").replace("1", "2")
        )
        assert findings(made, commits=[COMMIT], said=[sentence])[0].refuses


def test_without_a_commit_nothing_can_be_overridden() -> None:
    made = plan(step("delete", BUCKET, "a", old={"name": "a"}))
    (finding,) = findings(made, said=["allow G1 delete everything"])
    assert finding.refuses
    assert finding.override is None


def test_an_override_of_a_sum_names_the_sum() -> None:
    made = recorded("resize")
    settings = gates(most_monthly_increase_usd=0)
    (finding,) = findings(made, settings, commits=[COMMIT])
    assert finding.override
    bigger = plan(
        step("update", POOL, "p", old=pool_inputs(nodeCount=1), new=pool_inputs(nodeCount=3))
    )
    said = [finding.override.sentence]
    assert not findings(made, settings, commits=[COMMIT], said=said)[0].refuses
    assert findings(bigger, settings, commits=[COMMIT], said=said)[0].refuses


def test_refusals_come_first() -> None:
    found = findings(recorded("fresh"), gates(most_monthly_increase_usd=0))
    assert [each.refuses for each in found] == sorted(
        (each.refuses for each in found), reverse=True
    )
    assert {each.gate for each in found} == {"G6", "G7"}


def test_a_stack_nobody_named_is_judged_like_the_default() -> None:
    settings = load_settings()
    assert settings.gates("unheard-of") == settings.default
    assert settings.gates("prod").level("G1") == "mandatory"
    assert settings.gates("dev").level("G1") == "advisory"


def test_a_misspelt_setting_is_an_error() -> None:
    raw = load_settings().model_dump(by_alias=True)
    raw["stacks"]["prod"] = {"mostDeltes": 3}
    with pytest.raises(ValueError, match=r"stacks\.prod\.mostDeltes"):
        Settings.model_validate(raw)


def test_prices_used_by_gates_are_the_catalogues() -> None:
    made = recorded("resize")
    doubled = Price(usd_per_chip_hour=5.40, source=Source("test", READ))
    cost = of_plan(made, lambda *_: doubled)
    assert cost.per_hour == pytest.approx(2 * of_plan(made).per_hour)

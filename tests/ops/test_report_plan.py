"""One change for each resource, with its reasons, its differences and its component."""

import pytest

from ops.preview.events import Step
from ops.preview.plan import build
from ops.preview.values import LATER, differences, get, printable, segments
from tests.ops.previews import (
    SECRET,
    STACK_URN,
    UNKNOWN,
    log,
    plan,
    policy,
    pool_inputs,
    recorded,
    step,
)

POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"


def test_a_replacement_is_one_change_though_it_is_three_steps() -> None:
    changes = {change.name: change for change in recorded("replace-cluster").acting}
    assert changes["cluster-gke"].operation == "replace"
    assert changes["cluster-gke"].reasons == ("location",)
    assert sum(each.operation == "replace" for each in changes.values()) == 6


def test_the_leaf_is_named_where_the_provider_names_the_property_only() -> None:
    def replaced(**node: object) -> tuple[str, ...]:
        event = step(
            "replace",
            POOL,
            "p",
            old=pool_inputs(),
            new=pool_inputs(node=node),
            forced=["nodeConfig"],
            detail={f"nodeConfig.{key}": "add" for key in node},
        )
        return plan(event).acting[0].reasons

    assert replaced(spot=True) == ("nodeConfig.spot",)
    assert replaced(spot=True, gvnic=1) == ("nodeConfig.gvnic or nodeConfig.spot",)


def test_dependents_name_what_drags_them_along() -> None:
    changes = {change.name: change for change in recorded("replace-cluster").acting}
    assert changes["trillium-pool"].reasons == ("cluster",)
    assert changes["llm-ns"].reasons == ("its provider cluster-k8s is replaced",)


def test_the_counts_are_the_engines_own() -> None:
    assert recorded("replace-cluster").counts == {"replace": 6, "same": 6, "update": 1}


def test_without_a_summary_the_steps_are_counted() -> None:
    made = plan(
        step("delete-replaced", BUCKET, "a", old={"name": "a"}),
        step("replace", BUCKET, "a", old={"name": "a"}, new={"name": "b"}),
        step("create-replacement", BUCKET, "a", old={"name": "a"}, new={"name": "b"}),
        step("same", BUCKET, "b", old={"name": "b"}, new={"name": "b"}),
        end=False,
    )
    assert made.counts == {"replace": 1, "same": 1}
    assert not made.complete


def test_changes_are_grouped_under_the_outermost_component() -> None:
    components = {change.name: str(change.component) for change in recorded("fresh").acting}
    assert components["trillium-pool"] == "trillium (TpuPool)"
    assert components["vllm"] == "cluster (Cluster)"
    assert components["weights"] == "stack"


def test_a_nested_component_belongs_to_the_outer_one() -> None:
    outer, inner = "tpuserve:serving:Disaggregated", "tpuserve:serving:Gateway"
    events = [
        step("create", outer, "qwen", new={}),
        step("create", inner, "qwen-gateway", new={}),
        step("create", "gcp:compute/address:Address", "qwen-address", new={"name": "a"}),
    ]
    urns = [each["resourcePreEvent"]["metadata"]["urn"] for each in events]
    for each, parent in zip(events, [STACK_URN, *urns], strict=False):
        each["resourcePreEvent"]["metadata"]["new"]["parent"] = parent
    *_, address = plan(*events).changes
    assert str(address.component) == "qwen (Disaggregated)"


def test_taking_protection_off_is_a_change_although_the_engine_calls_it_same() -> None:
    made = plan(
        step(
            "same",
            BUCKET,
            "weights",
            old={"name": "w"},
            new={"name": "w"},
            old_options={"protect": True},
        )
    )
    (change,) = made.acting
    assert change.operation == "update"
    assert [(leaf.path, leaf.before, leaf.after) for leaf in change.leaves] == [
        ("option protect", "true", "false")
    ]


def test_drift_is_told_apart_from_the_plan() -> None:
    made = recorded("preview-refresh")
    assert {(each.name, each.operation) for each in made.drift} == {
        ("weights", "delete"),
        ("trillium-pool", "update"),
    }
    assert {(each.name, each.operation) for each in made.acting} == {
        ("weights", "create"),
        ("trillium-pool", "update"),
    }


def test_a_refresh_alone_has_drift_and_no_plan() -> None:
    made = recorded("refresh-preview-only")
    assert made.acting == ()
    drift = {each.name: each.leaves for each in made.drift}
    assert [(leaf.path, leaf.before, leaf.after) for leaf in drift["trillium-pool"]] == [
        ("nodeCount", "1", "3")
    ]


def test_a_mandatory_policy_leaves_the_plan_whole_and_an_exception_does_not() -> None:
    assert recorded("mandatory").complete
    assert not recorded("program-error").complete
    assert not recorded("protected").complete


def test_an_error_said_twice_is_reported_once() -> None:
    assert len(recorded("program-error").errors) == 1


def test_policies_are_sorted_into_four_levels() -> None:
    made = recorded("mandatory")
    assert {(each.policy, each.level) for each in made.findings} == {
        ("np-size", "mandatory"),
        ("bucket-versioning", "advisory"),
        ("np-cluster", "undecided"),
    }


def test_the_packs_summary_of_open_checks_counts_each_of_them() -> None:
    text = "Rules.\n31 checks could not be made yet:\nTPU-01 NodePool cubes: x is not known yet"
    made = plan(policy("PACK-01", "advisory", text, "pulumi:pulumi:Stack", "tpuserve-prod"))
    assert made.count("undecided") == 31
    assert made.count("advisory") == 0


def test_an_excepted_violation_is_no_violation() -> None:
    event = policy("np-size", "mandatory", "too big", POOL, "cubes")
    event["policyEvent"]["exceptions"] = [{"id": "EXC-1", "reason": "agreed until May"}]
    made = plan(event)
    assert [each.level for each in made.findings] == ["excepted"]
    assert made.findings[0].exception == "EXC-1: agreed until May"


def test_secrets_and_unknowns_are_named_not_shown() -> None:
    made = plan(
        step(
            "update",
            POOL,
            "cubes",
            old=pool_inputs(token=SECRET, cluster="c"),
            new=pool_inputs(token=SECRET, cluster=UNKNOWN),
            detail={"cluster": "update", "token": "update"},
        )
    )
    told = {leaf.path: leaf.after for leaf in made.acting[0].leaves}
    assert told == {"cluster": LATER, "token": "[secret]"}


def test_without_a_detailed_diff_the_inputs_are_compared() -> None:
    made = plan(
        step("update", POOL, "p", old=pool_inputs(), new=pool_inputs(node={"spot": True})),
    )
    assert [(leaf.path, leaf.before, leaf.after) for leaf in made.acting[0].leaves] == [
        ("nodeConfig.spot", None, "true")
    ]


def test_a_changed_object_is_shown_leaf_by_leaf() -> None:
    made = plan(
        step(
            "update",
            POOL,
            "p",
            old=pool_inputs(autoscaling={"minNodeCount": 0, "maxNodeCount": 4}),
            new=pool_inputs(autoscaling={"minNodeCount": 0, "maxNodeCount": 8}),
            detail={"autoscaling": "update"},
        )
    )
    assert [leaf.path for leaf in made.acting[0].leaves] == ["autoscaling.maxNodeCount"]


def test_many_differences_are_counted_and_not_all_kept() -> None:
    old = {f"k{n}": n for n in range(100)}
    new = {f"k{n}": n + 1 for n in range(100)}
    (change,) = plan(step("update", BUCKET, "w", old=old, new=new)).acting
    assert len(change.leaves) + change.more_leaves == 100
    assert len(change.leaves) < 100


def test_the_plan_of_an_empty_log_is_named_by_its_caller() -> None:
    made = build(log(end=False), stack="dev")
    assert (made.stack, made.complete, made.changes) == ("dev", False, ())


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a.b", ["a", "b"]),
        ("a[0].b", ["a", 0, "b"]),
        (
            'metadata.labels["app.kubernetes.io/name"]',
            ["metadata", "labels", "app.kubernetes.io/name"],
        ),
        ('["x y"].z[12]', ["x y", "z", 12]),
    ],
)
def test_property_paths_are_read_as_the_engine_writes_them(path: str, parts: list[object]) -> None:
    assert segments(path) == parts
    tree: object = "leaf"
    for part in reversed(parts):
        tree = [None] * part + [tree] if isinstance(part, int) else {part: tree}
    assert get(tree, path) == "leaf"
    assert [found[0] for found in differences({}, tree)] == [path] or "[" in path


def test_a_value_is_always_one_line_of_bounded_length() -> None:
    values = ["a\nb\r\n", "x" * 10_000, {"k": ["y" * 500]}, 4.0, None, True, "\x1b[31mred\x1b[0m"]
    for value in values:
        text = printable(value)
        assert text is not None
        assert "\n" not in text
        assert "\x1b" not in text
        assert len(text) < 200
    assert printable(4.0) == "4"


def test_a_step_with_nothing_but_its_name_is_enough() -> None:
    assert Step.model_validate({"op": "create", "urn": "u"}).new is None

"""What a change means for users."""

from typing import Any

import pytest

from ops.preview.disruption import NOTHING, Risk, effects, is_stateful, risk
from ops.preview.plan import Change
from tests.ops.previews import plan, pool_inputs, recorded, step

POOL = "gcp:container/nodePool:NodePool"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def change(op: str, kind: str, **sides: Any) -> Change:
    (only,) = plan(step(op, kind, "x", **sides)).changes
    return only


@pytest.mark.parametrize(
    ("op", "kind", "expected"),
    [
        ("replace", "gcp:container/cluster:Cluster", Risk.OUTAGE),
        ("delete", "gcp:storage/bucket:Bucket", Risk.LOSES_DATA),
        ("replace", "gcp:kms/cryptoKey:CryptoKey", Risk.LOSES_DATA),
        ("delete", "kubernetes:core/v1:Namespace", Risk.LOSES_DATA),
        (
            "replace",
            "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
            Risk.LOSES_DATA,
        ),
        ("delete", "kubernetes:core/v1:PersistentVolumeClaim", Risk.LOSES_DATA),
        ("discard", "gcp:secretmanager/secret:Secret", Risk.LOSES_DATA),
        ("replace", "gcp:secretmanager/secretVersion:SecretVersion", Risk.RESTARTS_PODS),
        ("delete", DEPLOYMENT, Risk.OUTAGE),
        ("replace", DEPLOYMENT, Risk.RESTARTS_PODS),
        ("delete", "kubernetes:helm.sh/v3:Release", Risk.OUTAGE),
        ("replace", "gcp:compute/network:Network", Risk.OUTAGE),
        ("delete", "gcp:projects/iAMMember:IAMMember", Risk.REMOVES),
        ("create", "gcp:container/cluster:Cluster", Risk.SAFE),
    ],
)
def test_an_operation_on_a_kind_has_a_class(op: str, kind: str, expected: Risk) -> None:
    sides = {"new": {"name": "x"}} if op == "create" else {"old": {"name": "x"}}
    assert risk(change(op, kind, **sides)) is expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"nodeCount": 3}, Risk.SAFE),
        ({"nodeCount": 1}, Risk.RESTARTS_PODS),
        ({"version": "1.36"}, Risk.ROLLS_NODES),
        ({"node": {"machineType": "ct6e-standard-8t"}}, Risk.ROLLS_NODES),
        ({"node": {"resourceLabels": {"team": "ml"}}}, Risk.SAFE),
    ],
)
def test_an_update_of_a_pool_is_judged_by_its_properties(
    changed: dict[str, Any], expected: Risk
) -> None:
    old = pool_inputs(nodeCount=2)
    new = pool_inputs(**{"nodeCount": 2, **changed})
    assert risk(change("update", POOL, old=old, new=new)) is expected


def test_an_edit_that_the_provider_ignores_is_said_to_reach_nothing() -> None:
    old = pool_inputs(placementPolicy={"type": "COMPACT", "tpuTopology": "4x4"})
    new = pool_inputs(placementPolicy={"type": "COMPACT", "tpuTopology": "4x8"})
    (effect,) = effects(change("update", POOL, old=old, new=new))
    assert "no update code" in effect.text


def test_a_multi_host_pool_is_said_not_to_resize() -> None:
    placed = {"placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"}}
    old, new = pool_inputs(nodeCount=4, **placed), pool_inputs(nodeCount=8, **placed)
    (effect,) = effects(change("update", POOL, old=old, new=new))
    assert "multi-host" in effect.text


def test_a_new_pod_template_loads_the_model_again_and_a_replica_count_does_not() -> None:
    def deployment(image: str, replicas: int) -> dict[str, Any]:
        return {"spec": {"replicas": replicas, "template": {"spec": {"image": image}}}}

    rolled = change("update", DEPLOYMENT, old=deployment("a", 1), new=deployment("b", 1))
    grown = change("update", DEPLOYMENT, old=deployment("a", 1), new=deployment("a", 2))
    assert risk(rolled) is Risk.RESTARTS_PODS
    assert risk(grown) is Risk.SAFE


def test_the_worst_effect_comes_first() -> None:
    old = pool_inputs(nodeCount=4, version="1.35")
    new = pool_inputs(nodeCount=2, version="1.36")
    found = effects(change("update", POOL, old=old, new=new))
    assert [each.risk for each in found] == [Risk.ROLLS_NODES, Risk.RESTARTS_PODS]


def test_every_duration_names_its_source() -> None:
    plans = [recorded(name) for name in ("replace-cluster", "delete-and-replace", "resize")]
    found = [effect for made in plans for each in made.acting for effect in effects(each)]
    assert [effect for effect in found if effect.minutes and not effect.source] == []
    assert any(effect.minutes for effect in found)


def test_a_tpu_pool_holds_capacity_and_another_pool_does_not() -> None:
    tpu = change("delete", POOL, old=pool_inputs())
    cpu = change("delete", POOL, old=pool_inputs(node={"machineType": "e2-standard-8"}))
    assert is_stateful(tpu)
    assert not is_stateful(cpu)
    assert risk(cpu) is Risk.REPLACES_POOL


def test_components_and_providers_disturb_nobody() -> None:
    provider = change("replace", "pulumi:providers:kubernetes", old={"a": 1}, new={"a": 2})
    assert effects(provider) == [NOTHING]

"""What the gcp provider says to inputs before anything is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcloud.values import SECRET, SIGNATURE, UNKNOWN, is_secret
from tests.simcloud.harness import CallError, Live, Provider, providers

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
VERSION = "gcp:secretmanager/secretVersion:SecretVersion"


@pytest.fixture
def gcp(tmp_path: Path) -> Provider:
    return providers(tmp_path)[0]


def test_an_unknown_field_is_refused_with_the_nearest_name(gcp: Provider) -> None:
    _, failures = gcp.check(NETWORK, "fabric", {"autoCreateSubnetwork": False})
    assert failures == [
        "Invalid or unknown key: gcp:compute/network:Network has no input 'autoCreateSubnetwork'. "
        "Did you mean 'autoCreateSubnetworks'? Examine values at 'fabric.autoCreateSubnetwork'."
    ]


def test_an_unknown_field_deep_inside_is_refused(gcp: Provider) -> None:
    given = {"cluster": "tpu", "nodeConfig": {"taints": [{"key": "a", "value": "b", "efect": "x"}]}}
    _, failures = gcp.check(POOL, "cube", given)
    assert [text for text in failures if "Did you mean 'effect'?" in text]
    assert [text for text in failures if "'cube.nodeConfig.taints[0].efect'" in text]


def test_every_mistake_is_told_at_once(gcp: Provider) -> None:
    _, failures = gcp.check(
        SUBNETWORK, "nodes", {"ipCidrRange": "10.0.0.0/40", "stackType": "IPV5", "regoin": "x"}
    )
    assert len(failures) == 4
    assert [text for text in failures if 'The argument "network" is required' in text]


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("gcp:compute/network:Netwrok", NETWORK),
        ("gcp:compute/nodePool:NodePool", POOL),
        ("gcp:container/cluster:Clusters", CLUSTER),
    ],
)
def test_an_unknown_type_is_refused_with_the_nearest_name(
    gcp: Provider, wrong: str, nearest: str
) -> None:
    with pytest.raises(CallError, match=f"does not know the type {wrong}.*{nearest}"):
        gcp.check(wrong, "x", {})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"mtu": "many"}, "expected mtu to be a whole number, got 'many'"),
        ({"mtu": 1460.5}, "expected mtu to be a whole number"),
        ({"autoCreateSubnetworks": "no"}, "expected auto_create_subnetworks to be true or false"),
        ({"routingMode": ["GLOBAL"]}, "expected routing_mode to be a string, got a list"),
        ({"params": "x"}, "expected params to be a object"),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused(
    gcp: Provider, given: dict[str, object], text: str
) -> None:
    _, failures = gcp.check(NETWORK, "fabric", given)
    assert len(failures) == 1
    assert failures[0].startswith(text)


def test_values_the_bridge_converts_pass(gcp: Provider) -> None:
    _, failures = gcp.check(NETWORK, "fabric", {"mtu": "8896", "autoCreateSubnetworks": "false"})
    assert failures == []


def test_unknown_values_are_not_judged(gcp: Provider) -> None:
    given = {"network": UNKNOWN, "ipCidrRange": UNKNOWN, "secondaryIpRanges": UNKNOWN}
    _, failures = gcp.check(SUBNETWORK, "nodes", given)
    assert failures == []


def test_defaults_are_listed_object_by_object(gcp: Provider) -> None:
    inputs, _ = gcp.check(POOL, "cube", {"cluster": "tpu", "nodeConfig": {"spot": True}})
    assert inputs["nodeConfig"]["__defaults"] == ["preemptible"]
    assert inputs["nodeConfig"]["spot"] is True
    assert inputs["__defaults"] == ["name"]


def test_an_automatic_name_stays(gcp: Provider) -> None:
    first, _ = gcp.check(NETWORK, "fabric", {})
    again, _ = gcp.check(NETWORK, "fabric", {"mtu": 1460}, first)
    assert first["name"].startswith("fabric-")
    assert again["name"] == first["name"]
    assert "name" in again["__defaults"]


def test_a_name_prefix_takes_the_place_of_a_name(gcp: Provider) -> None:
    inputs, failures = gcp.check(POOL, "cube", {"cluster": "tpu", "namePrefix": "cube-"})
    assert failures == []
    assert "name" not in inputs


def test_secret_inputs_are_marked(gcp: Provider) -> None:
    inputs, _ = gcp.check(VERSION, "hf", {"secret": "hf", "secretData": "hunter2"})
    assert inputs["secretData"] == {SIGNATURE: SECRET, "value": "hunter2"}
    given = {"secret": "hf", "secretData": {SIGNATURE: SECRET, "value": "hunter2"}}
    again, failures = gcp.check(VERSION, "hf", given)
    assert failures == []
    assert again["secretData"] == inputs["secretData"]


def test_a_secret_stays_secret_in_a_plan_and_an_object(gcp: Provider) -> None:
    parent = gcp.create(
        "gcp:secretmanager/secret:Secret", "hf", {"secretId": "hf", "replication": {"auto": {}}}
    )
    inputs, _ = gcp.check(VERSION, "hf", {"secret": parent.id, "secretData": "hunter2"})
    assert is_secret(gcp.preview(VERSION, "hf", inputs)["secretData"])
    live = gcp.create(VERSION, "hf", {"secret": parent.id, "secretData": "hunter2"})
    assert is_secret(live.outputs["secretData"])


def test_unknown_leaves_of_a_given_block_are_unknown_in_a_plan(gcp: Provider) -> None:
    inputs, _ = gcp.check(CLUSTER, "tpu", {"name": "tpu", "masterAuth": {}, "location": "x"})
    known = gcp.preview(CLUSTER, "tpu", inputs)
    assert known["masterAuth"]["clusterCaCertificate"] == UNKNOWN
    assert known["masterAuth"]["clientKey"] == {SIGNATURE: SECRET, "value": UNKNOWN}
    assert "endpoint" not in known


def test_the_order_of_a_set_is_no_change(gcp: Provider) -> None:
    firewall = "gcp:compute/firewall:Firewall"
    base = {"network": "default", "name": "f"}
    old = {**base, "sourceRanges": ["10.0.0.0/8", "192.168.0.0/16"]}
    new = {**base, "sourceRanges": ["192.168.0.0/16", "10.0.0.0/8"]}
    live = Live("simulated/f", old, old)
    assert dict(gcp.diff(firewall, "f", live, new).detailedDiff) == {}
    fewer = {**base, "sourceRanges": ["10.0.0.0/8"]}
    assert dict(gcp.diff(firewall, "f", live, fewer).detailedDiff) != {}


def test_two_ways_to_name_one_network_are_no_change(gcp: Provider) -> None:
    old = {"name": "nodes", "network": "simulated/projects/p/global/networks/fabric"}
    live = Live("simulated/x", old, old)
    plan = gcp.diff(SUBNETWORK, "nodes", live, {**old, "network": "fabric"})
    assert dict(plan.detailedDiff) == {}
    other = gcp.diff(SUBNETWORK, "nodes", live, {**old, "network": "other"})
    assert list(other.replaces) == ["network"]


def test_dropping_what_the_api_fills_in_is_no_change(gcp: Provider) -> None:
    old = {"name": "fabric", "mtu": 8896, "description": "x"}
    live = Live("simulated/x", old, old)
    plan = gcp.diff(NETWORK, "fabric", live, {"name": "fabric", "description": "x"})
    assert dict(plan.detailedDiff) == {}
    plan = gcp.diff(NETWORK, "fabric", live, {"name": "fabric", "mtu": 8896})
    assert list(plan.replaces) == ["description"]


def test_naming_what_the_api_answered_is_no_change(gcp: Provider) -> None:
    live = gcp.create(NETWORK, "fabric", {"name": "fabric"})
    assert live.outputs["routingMode"] == "REGIONAL"
    same, _ = gcp.check(NETWORK, "fabric", {"name": "fabric", "routingMode": "REGIONAL"})
    assert dict(gcp.diff(NETWORK, "fabric", live, same).detailedDiff) == {}
    other, _ = gcp.check(NETWORK, "fabric", {"name": "fabric", "routingMode": "GLOBAL"})
    assert list(gcp.diff(NETWORK, "fabric", live, other).detailedDiff) == ["routingMode"]


def test_ignored_changes_are_left_out(gcp: Provider) -> None:
    old = {"name": "cube", "cluster": "tpu", "nodeConfig": {"machineType": "a", "spot": False}}
    new = {"name": "cube", "cluster": "tpu", "nodeConfig": {"machineType": "b", "spot": True}}
    live = Live("simulated/x", old, old)
    plan = gcp.diff(POOL, "cube", live, new, ignored=("nodeConfig.spot",))
    assert list(plan.detailedDiff) == ["nodeConfig.machineType"]
    assert list(plan.replaces) == []


def test_an_unknown_block_replaces_if_a_field_in_it_would(gcp: Provider) -> None:
    old = {"name": "cube", "cluster": "tpu", "placementPolicy": {"policyName": "a", "type": ""}}
    live = Live("simulated/x", old, old)
    plan = gcp.diff(POOL, "cube", live, {**old, "placementPolicy": UNKNOWN})
    assert list(plan.replaces) == ["placementPolicy"]


def test_another_project_replaces_what_takes_its_project_from_the_provider(tmp_path: Path) -> None:
    here, _ = providers(tmp_path)
    live = here.create(NETWORK, "fabric", {"name": "fabric"})
    there, _ = providers(tmp_path, project="other-project")
    plan = there.diff(NETWORK, "fabric", live, live.inputs)
    assert list(plan.replaces) == ["project"]
    assert dict(here.diff(NETWORK, "fabric", live, live.inputs).detailedDiff) == {}


def test_a_placement_type_the_api_does_not_keep_shows_an_update_for_ever(gcp: Provider) -> None:
    gcp.create(CLUSTER, "tpu", {"name": "tpu", "location": "us-central1"})
    policy = {"policyName": "p", "type": "COMPACT"}
    gcp.create("gcp:compute/resourcePolicy:ResourcePolicy", "p", {"name": "p"})
    given = {"name": "cube", "cluster": "tpu", "location": "us-central1"}
    live = gcp.create(POOL, "cube", {**given, "placementPolicy": policy})
    assert live.outputs["placementPolicy"]["type"] == ""
    plan = gcp.diff(POOL, "cube", live, live.inputs)
    assert {path: item.kind for path, item in plan.detailedDiff.items()} == {
        "placementPolicy.type": 4
    }
    assert list(plan.replaces) == []
    quiet = gcp.diff(POOL, "cube", live, live.inputs, ignored=("placementPolicy.type",))
    assert dict(quiet.detailedDiff) == {}

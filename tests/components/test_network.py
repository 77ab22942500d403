"""The network lets in only what the stack owns, and lets private nodes out."""

from ipaddress import IPv4Network

import pytest

from components.network import HEALTH_CHECKS
from tests.support.files import stack_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed


@pytest.fixture(scope="module")
def graph() -> Graph:
    return record(stack_config("prod"))


def test_firewalls_open_only_to_ranges_of_the_stack_and_googles_health_checks(
    graph: Graph,
) -> None:
    network = stack_config("prod")["tpuserve:network"]
    own = [IPv4Network(each) for each in network.values()]
    sources = {
        source: rule.name for rule in graph.of("Firewall") for source in rule.inputs["sourceRanges"]
    }
    assert set(HEALTH_CHECKS) < set(sources)
    strangers = [
        source
        for source in sources
        if source not in HEALTH_CHECKS
        and not any(IPv4Network(source).subnet_of(each) for each in own)
    ]
    assert strangers == []


def test_every_firewall_rule_names_the_nodes_it_guards(graph: Graph) -> None:
    tags = {tuple(rule.inputs["targetTags"]) for rule in graph.of("Firewall")}
    assert tags == {("tpuserve-test-node",)}
    bare = [
        each.name
        for each in graph.of("NodePool")
        if each.inputs["nodeConfig"]["tags"] != ["tpuserve-test-node"]
    ]
    assert bare == []


def test_the_control_plane_reaches_webhooks_and_nothing_else(graph: Graph) -> None:
    rule = graph.one("Firewall", "tpuserve-test-webhooks")
    assert rule.inputs["sourceRanges"] == ["172.16.2.0/28"]
    assert rule.inputs["allows"] == [{"protocol": "tcp", "ports": ["443", "8082", "9443", "10250"]}]


def test_proxies_and_health_checks_reach_model_servers_and_the_picker(graph: Graph) -> None:
    rule = graph.one("Firewall", "tpuserve-test-serving")
    assert rule.inputs["sourceRanges"] == ["172.16.0.0/23", *HEALTH_CHECKS]
    assert rule.inputs["allows"] == [{"protocol": "tcp", "ports": ["8000", "9002", "9003"]}]


def test_nat_serves_the_nodes_subnet_and_no_other(graph: Graph) -> None:
    nat = graph.one("RouterNat", "tpuserve-test-nat")
    assert nat.inputs["sourceSubnetworkIpRangesToNat"] == "LIST_OF_SUBNETWORKS"
    assert [each["name"] for each in nat.inputs["subnetworks"]] == ["tpuserve-test-nodes-id"]


def test_network_names_are_left_to_the_engine(graph: Graph) -> None:
    kinds = ("Network", "Subnetwork", "Router", "RouterNat", "Firewall")
    named = [
        each.name
        for kind in kinds
        for each in graph.of(kind)
        if each.custom and "name" in each.inputs
    ]
    assert named == []


def test_arguments_of_a_stack_lie_over_the_networks_own() -> None:
    extra = {
        "vpc": {"routing_mode": "GLOBAL"},
        "subnetwork": {"log_config": {"flow_sampling": 0.1}},
        "nat": {"log_config": {"filter": "ALL"}, "min_ports_per_vm": 128},
    }
    config = changed(stack_config("bare-dev"), {"tpuserve:network.extra": extra})
    graph = record(config)
    assert graph.one("Network", "tpuserve-test-vpc").inputs["routingMode"] == "GLOBAL"
    nodes = graph.one("Subnetwork", "tpuserve-test-nodes").inputs
    assert nodes["logConfig"] == {"flowSampling": 0.1}
    nat = graph.one("RouterNat", "tpuserve-test-nat").inputs
    assert (nat["logConfig"], nat["minPortsPerVm"]) == ({"enable": True, "filter": "ALL"}, 128)
    assert nat["natIpAllocateOption"] == "AUTO_ONLY"

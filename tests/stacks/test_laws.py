"""Laws that the graph of every stack keeps."""

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

import pytest

from tests.support.files import stack_config
from tests.support.recorder import Graph, Registered, record
from tests.support.shipped import NAMES, example, shipped

SOURCES = (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName"))
"""Kinds that volumes are made of, and where a pod names them."""


@pytest.fixture(scope="module", params=NAMES)
def graph(request: pytest.FixtureRequest) -> Graph:
    return shipped(str(request.param))


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_a_preview_registers_what_an_update_registers(stack: str) -> None:
    graph = shipped(stack)
    preview = record(stack_config(stack), preview=True)
    assert {each.urn for each in graph.resources}
    assert {each.urn for each in preview.resources} == {each.urn for each in graph.resources}


def test_no_two_resources_share_type_and_name(graph: Graph) -> None:
    counts = Counter(each.urn for each in graph.resources)
    assert [urn for urn, count in counts.items() if count > 1] == []


def test_every_cloud_resource_has_an_explicit_provider(graph: Graph) -> None:
    owners = {"gcp": "google", "kubernetes": "kubernetes"}
    lost = [
        each.urn
        for each in graph.resources
        if each.type.split(":")[0] in owners
        and f"::{owners[each.type.split(':')[0]]}::" not in each.provider
    ]
    assert lost == []


def test_every_child_sits_under_its_component_and_carries_its_name(graph: Graph) -> None:
    by_urn = {each.urn: each for each in graph.resources}
    strays = []
    for each in graph.resources:
        if each.type.startswith("pulumi:providers:") or each.type.startswith("tpuserve:"):
            continue
        parent = by_urn.get(each.parent)
        if parent is None or not each.name.startswith(f"{parent.name}-"):
            strays.append(each.urn)
    assert strays == []


def test_every_component_registers_its_outputs(graph: Graph) -> None:
    components = [each for each in graph.resources if each.type.startswith("tpuserve:")]
    assert len(components) > 3
    assert [each.urn for each in components if each.urn not in graph.outputs] == []


def test_no_output_or_input_is_an_unresolved_output(graph: Graph) -> None:
    broken = [each.urn for each in graph.resources if "Calling __str__" in repr(each.inputs)]
    assert broken == []


def _found(value: Any, field: str) -> Iterator[Any]:
    """Everything that stands under a field, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == field:
                yield inner
            yield from _found(inner, field)
    elif isinstance(value, list):
        for each in value:
            yield from _found(each, field)


def _named(each: Registered) -> tuple[str, str]:
    metadata = each.inputs["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])


def test_every_mounted_key_is_in_the_config_map_or_secret_it_names(graph: Graph) -> None:
    """A kubelet does not start a pod that asks for another one."""
    held = {
        (kind, *_named(each)): set(each.inputs.get("data") or each.inputs.get("stringData") or {})
        for kind in ("ConfigMap", "Secret")
        for each in graph.of(kind)
    }
    missing, seen = [], 0
    for each in graph.resources:
        namespace = str((each.inputs.get("metadata") or {}).get("namespace", ""))
        for kind, field, name in SOURCES:
            for source in _found(each.inputs, field):
                if not isinstance(source, dict):
                    continue
                keys = held.get((kind, namespace, str(source.get(name) or source.get("name"))))
                for item in source.get("items") or () if keys is not None else ():
                    seen += 1
                    if item["key"] not in keys:
                        missing.append(f"{each.name}: {item['key']}")
    assert missing == []
    assert seen > 0 or not graph.of("ConfigMap")


def test_no_two_objects_of_a_kind_have_one_name(graph: Graph) -> None:
    names = Counter(
        (each.type.rpartition(":")[2], *_named(each))
        for each in graph.resources
        if each.type.startswith("kubernetes:") and "name" in each.inputs.get("metadata", {})
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_firewalls_open_every_port_that_a_policy_opens_to_a_range(graph: Graph) -> None:
    """Pods have addresses of the VPC: what a policy lets in must get past the firewall first."""
    opened: dict[IPv4Network, set[str]] = {}
    for rule in graph.of("Firewall"):
        for source in rule.inputs["sourceRanges"]:
            for allowed in rule.inputs["allows"]:
                ports = opened.setdefault(IPv4Network(source), set())
                ports |= {f"{allowed['protocol']}/{port}" for port in allowed.get("ports", ())}
    shut = []
    for policy in graph.of("NetworkPolicy"):
        for rule in policy.inputs["spec"].get("ingress") or ():
            for peer in rule.get("from") or rule.get("from_") or ():
                cidr = (peer.get("ipBlock") or {}).get("cidr")
                for port in rule.get("ports") or () if cidr else ():
                    asked = f"{port['protocol'].lower()}/{port['port']}"
                    if asked not in opened.get(IPv4Network(cidr), set()):
                        shut.append(f"{policy.name}: {cidr} {asked}")
    assert shut == []


def test_the_full_attention_example_is_prod_with_another_model() -> None:
    prod, other = stack_config("prod"), example("full-attention")
    keys = {*prod, *other}
    assert {key for key in keys if prod.get(key) != other.get(key)} == {"tpuserve:serving"}

"""Laws that the graph of every stack keeps."""

from collections import Counter

import pytest

from tests.support.files import stack_config
from tests.support.recorder import Graph, record

STACKS = ["dev", "prod"]


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def graph(stack: str) -> Graph:
    return record(stack_config(stack))


def test_a_preview_registers_what_an_update_registers(stack: str, graph: Graph) -> None:
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

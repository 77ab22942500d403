"""A field that the API server never changes replaces its object, whatever kind we send."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.files import stack_config
from tests.support.lab import lab_config
from tests.support.recorder import Graph, record
from tests.support.schemas import FOLDER
from tests.support.variants import changed

NAMED_BY_CONTENT = {"Topology"}
"""Another content is another name, and so another object: docs/adr/0021."""
NEVER_CHANGED = {"operators-jobset-gate"}
"""The same object always, but for an annotation."""


def fixed(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths that a rule of the definition keeps as they were."""
    rules = schema.get("x-kubernetes-validations") or ()
    if any(each["rule"].strip() == "self == oldSelf" for each in rules):
        yield path.removeprefix(".")
    for name, below in (schema.get("properties") or {}).items():
        yield from fixed(below, f"{path}.{name}")
    if isinstance(schema.get("items"), Mapping):
        yield from fixed(schema["items"], f"{path}[*]")


def definitions() -> dict[str, set[str]]:
    """Fixed paths by type, of every definition in tests/data/k8s-schemas."""
    found = {}
    for file in FOLDER.glob("*.json"):
        group, _, kind = file.stem.rpartition("_")
        for version, each in json.loads(file.read_text())["versions"].items():
            if paths := set(fixed(each["schema"])):
                found[f"kubernetes:{group}/{version}:{kind}"] = paths
    return found


def covered(path: str, replacing: tuple[str, ...]) -> bool:
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in replacing)


@pytest.fixture(scope="module", params=["lab", "prod"])
def graph(request: pytest.FixtureRequest) -> Graph:
    train = {
        "namespace": "lab" if request.param == "lab" else "llm",
        "image": "example/train:1.0.0",
        "command": ["train"],
        "shape": "2x2x2",
        "priority": "low",
    }
    config = lab_config() if request.param == "lab" else stack_config("prod")
    return record(changed(config, {"tpuserve:queueing.jobs": {"train": train}}))


def test_rules_are_found_in_the_definitions() -> None:
    found = definitions()
    assert "spec.failurePolicy" in found["kubernetes:jobset.x-k8s.io/v1alpha2:JobSet"]
    assert found["kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"] == {"spec.clusterQueue"}


def test_every_fixed_field_replaces_its_object(graph: Graph) -> None:
    rules = definitions()
    sent = [
        each
        for each in graph.resources
        if each.type in rules
        and each.type.rpartition(":")[2] not in NAMED_BY_CONTENT
        and each.name not in NEVER_CHANGED
    ]
    wrong = [
        (each.name, path)
        for each in sent
        for path in rules[each.type]
        if not covered(path, each.replace_on_changes)
    ]
    assert {each.type.rpartition(":")[2] for each in sent} == {
        "AdmissionCheck",
        "JobSet",
        "LocalQueue",
    }
    assert wrong == []

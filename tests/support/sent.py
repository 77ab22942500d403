"""Registered resources as the API server gets them."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.support import schemas
from tests.support.recorder import Graph, Registered

PULUMI = "pulumi.com/"
BESIDE = ("helm.sh/v3", "apiextensions.k8s.io/v1")
"""A release is Helm's, and a definition is spelt in the provider's own words."""


def mistakes(each: Registered) -> list[str]:
    """What is wrong with one registered object; nothing for kinds nobody publishes."""
    try:
        return [f"{each.name}: {wrong}" for wrong in schemas.mistakes(as_sent(each))]
    except schemas.NoSchemaError:
        return []


def sent(graph: Graph) -> Iterator[Registered]:
    """Everything that goes to the cluster as an object of its own."""
    for each in graph.resources:
        parts = each.type.split(":")
        if parts[0] == "kubernetes" and parts[1] not in BESIDE:
            yield each


def as_sent(each: Registered) -> dict[str, Any]:
    """The object without what only the provider reads."""
    api = each.type.split(":", 1)[1].rpartition(":")[0].removeprefix("core/")
    kind = each.type.rpartition(":")[2]
    manifest: dict[str, Any] = _without(each.inputs)
    return {**manifest, "apiVersion": manifest.get("apiVersion", api), "kind": kind}


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(inner) for key, inner in value.items() if not key.startswith(PULUMI)}
    if isinstance(value, list):
        return [_without(each) for each in value]
    return value

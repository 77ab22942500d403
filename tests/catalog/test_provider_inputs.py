"""The argument tables are the provider's own, and name what the program sets."""

import inspect
import re

import pulumi_gcp as gcp
import pytest

from catalog.provider_inputs import CLUSTER, NODE_POOL
from config.checks import cluster, tpu_pools
from tests.support.files import stack_config
from tests.support.recorder import record

NOT_INPUTS = {"self", "__self__", "resource_name", "opts", "__props__"}


def _arguments(resource: type) -> set[str]:
    return set(inspect.signature(resource._internal_init).parameters) - NOT_INPUTS  # type: ignore[attr-defined]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


@pytest.mark.parametrize(
    ("table", "resource"), [(CLUSTER, gcp.container.Cluster), (NODE_POOL, gcp.container.NodePool)]
)
def test_the_table_is_the_providers(table: frozenset[str], resource: type) -> None:
    assert table == _arguments(resource)


def test_every_argument_the_program_sets_is_refused_as_an_extra() -> None:
    free = []
    for stack in ("dev", "prod"):
        graph = record(stack_config(stack))
        for kind, owned in (("Cluster", cluster.OWNED), ("NodePool", tpu_pools.OWNED)):
            free += [
                f"{stack} {each.name} {key}"
                for each in graph.of(kind)
                if each.custom
                for key in map(_snake, each.inputs)
                if key not in owned
            ]
    assert free == []
    assert owned_but_unknown() == set()


def owned_but_unknown() -> set[str]:
    return (cluster.OWNED - CLUSTER) | (tpu_pools.OWNED - NODE_POOL)

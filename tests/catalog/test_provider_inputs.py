"""The tables of arguments are the provider's own, and name what the program sets."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pulumi_gcp as gcp
import pytest

from catalog.provider_inputs import inputs
from config.checks.extras import CLUSTER, NETWORK, NODE_POOL, Hatch
from tests.support.files import stack_config
from tests.support.recorder import record

DEFAULTS = {
    "Cluster": """
        cost_management_config.enabled logging_config.enable_components
        monitoring_config.enable_components security_posture_config.mode
        security_posture_config.vulnerability_mode
        """,
    "NodePool": """
        node_config.disk_size_gb node_config.gcfs_config.enabled
        node_config.host_maintenance_policy.maintenance_interval
        """,
    "Network": "routing_mode",
    "Subnetwork": "",
    "Router": "",
    "RouterNat": "log_config.enable log_config.filter nat_ip_allocate_option",
}
"""What the program sets and a stack may set otherwise."""

HATCHES = [CLUSTER, NODE_POOL, *NETWORK.values()]


def _arguments(module: Any, kind: str) -> dict[str, Any]:
    """Names of a class of arguments, in the form of the table."""
    table: dict[str, Any] = {}
    for name, each in inspect.signature(getattr(module, kind).__init__).parameters.items():
        if name in ("self", "__self__"):
            continue
        text = str(each.annotation)
        nested = re.search(r"\w+Args\b", text)
        inner = _arguments(module, nested[0]) if nested else None
        table[name] = [inner] if inner is not None and "Sequence" in text else inner
    return table


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _leaves(values: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in values.items():
        at = f"{above}{_snake(key)}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{at}.")
        else:
            yield at


def _covered(path: str, by: frozenset[str]) -> bool:
    return any(path == each or path.startswith(f"{each}.") for each in by)


@pytest.mark.parametrize("hatch", HATCHES, ids=lambda hatch: hatch.resource)
def test_the_table_is_the_providers(hatch: Hatch) -> None:
    kind = hatch.resource
    module = gcp.container if kind in ("Cluster", "NodePool") else gcp.compute
    assert inputs(kind) == _arguments(module, f"{kind}Args")


@pytest.mark.parametrize("hatch", HATCHES, ids=lambda hatch: hatch.resource)
def test_what_the_program_sets_is_its_own_or_said_to_be_a_default(hatch: Hatch) -> None:
    free = frozenset(DEFAULTS[hatch.resource].split())
    # Refused on purpose, with a reason of their own.
    kept = hatch.owned | frozenset(hatch.refused)
    found = {
        path
        for stack in ("dev", "bare-prod")
        for each in record(stack_config(stack)).of(hatch.resource)
        if each.custom
        for path in _leaves(each.inputs)
    }
    assert [path for path in sorted(found) if not _covered(path, kept | free)] == []
    assert [path for path in sorted(free) if _covered(path, kept)] == []


@pytest.mark.parametrize("hatch", HATCHES, ids=lambda hatch: hatch.resource)
def test_what_is_kept_back_exists(hatch: Hatch) -> None:
    lost = []
    for path in hatch.owned | frozenset(hatch.refused):
        table: Any = inputs(hatch.resource)
        for key in path.split("."):
            # Below a plain value there may be a map of any names.
            if table is not None and key not in table:
                lost.append(path)
                break
            table = None if table is None else table[key]
    assert lost == []

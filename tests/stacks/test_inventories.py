"""The shipped stack files make what their inventories say."""

from pathlib import Path

import pytest

from tests.support.files import stack_config
from tests.support.inventory import differences
from tests.support.recorder import record

INVENTORIES = Path(__file__).parent / "inventories"


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_a_stack_file_makes_its_inventory(stack: str) -> None:
    graph = record(stack_config(stack), stack=stack)
    assert differences(graph, INVENTORIES / f"{stack}.yaml") == []


def test_the_stacks_differ_in_their_files_alone() -> None:
    dev, prod = (record(stack_config("prod"), stack=name) for name in ("dev", "prod"))
    renamed = {each.urn.replace("tpuserve-dev", "tpuserve-prod") for each in dev.resources}
    assert renamed == {each.urn for each in prod.resources}

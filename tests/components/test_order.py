"""What waits for what: nothing waits for what it does not use."""

import pytest

from tests.support.files import stack_config
from tests.support.recorder import Graph, record


@pytest.fixture(scope="module")
def graph() -> Graph:
    return record(stack_config("prod"))


@pytest.mark.parametrize(
    ("kind", "name", "needs", "needed"),
    [
        ("Network", "tpuserve-test-vpc", "Service", "services-compute"),
        ("ResourcePolicy", "cubes-policy", "Service", "services-compute"),
        ("PreviewFeature", "services-ai-zones", "Service", "services-compute"),
        ("Cluster", "tpuserve-test-cluster", "Service", "services-container"),
        ("Cluster", "tpuserve-test-cluster", "Subnetwork", "tpuserve-test-nodes"),
        ("Cluster", "tpuserve-test-cluster", "PreviewFeature", "services-ai-zones"),
        ("NodePool", "tpuserve-test-system", "IAMMember", "tpuserve-test-nodes-images"),
        ("NodePool", "cubes-000", "ResourcePolicy", "cubes-policy"),
        ("NodePool", "cubes-000", "Cluster", "tpuserve-test-cluster"),
    ],
)
def test_a_resource_waits_for_what_it_uses(
    graph: Graph, kind: str, name: str, needs: str, needed: str
) -> None:
    assert graph.depends(graph.one(kind, name), graph.one(needs, needed))


@pytest.mark.parametrize(
    ("kind", "name", "other", "free"),
    [
        ("NodePool", "cubes-000", "NodePool", "tpuserve-test-system"),
        ("NodePool", "tpuserve-test-system", "NodePool", "cubes-000"),
        ("ResourcePolicy", "cubes-policy", "Cluster", "tpuserve-test-cluster"),
        ("Cluster", "tpuserve-test-cluster", "RouterNat", "tpuserve-test-nat"),
        ("Account", "tpuserve-test-nodes", "Network", "tpuserve-test-vpc"),
    ],
)
def test_a_resource_does_not_wait_for_what_it_does_not_use(
    graph: Graph, kind: str, name: str, other: str, free: str
) -> None:
    assert not graph.depends(graph.one(kind, name), graph.one(other, free))

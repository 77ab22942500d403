"""A cluster that makes its nodes itself."""

from tests.support.dev import AUTOPILOT, dev

DECIDED_BY_GKE = (
    "nodeLocations",
    "datapathProvider",
    "removeDefaultNodePool",
    "initialNodeCount",
    "nodeConfig",
    "addonsConfig",
    "workloadIdentityConfig",
    "enableShieldedNodes",
    "nodePoolDefaults",
)
"""Arguments of a Standard cluster that the API refuses or ignores beside `enableAutopilot`."""


def test_autopilot_is_asked_for_and_told_nothing_it_decides() -> None:
    cluster = dev(AUTOPILOT).one("Cluster", "tpuserve-test-cluster").inputs
    assert cluster["enableAutopilot"] is True
    assert [each for each in DECIDED_BY_GKE if each in cluster] == []
    standard = dev().one("Cluster", "tpuserve-test-cluster").inputs
    assert [each for each in DECIDED_BY_GKE if each not in standard] == []
    assert "enableAutopilot" not in standard


def test_its_nodes_have_our_account_and_tag() -> None:
    graph = dev(AUTOPILOT)
    cluster = graph.one("Cluster", "tpuserve-test-cluster")
    defaults = cluster.inputs["clusterAutoscaling"]["autoProvisioningDefaults"]
    assert defaults["serviceAccount"] == "tpuserve-test-nodes@p.iam.gserviceaccount.com"
    tags = cluster.inputs["nodePoolAutoConfig"]["networkTags"]["tags"]
    (targets,) = {tuple(each.inputs["targetTags"]) for each in graph.of("Firewall")}
    assert tuple(tags) == targets
    for role in ("images", "logs-and-metrics"):
        assert graph.depends(cluster, graph.one("IAMMember", f"tpuserve-test-nodes-{role}"))


def test_what_else_a_cluster_has_is_the_same() -> None:
    one = dev(AUTOPILOT).one("Cluster", "tpuserve-test-cluster").inputs
    other = dev().one("Cluster", "tpuserve-test-cluster").inputs
    mode = {*DECIDED_BY_GKE, "enableAutopilot", "clusterAutoscaling", "nodePoolAutoConfig"}
    differing = {key for key in {*one, *other} - mode if one.get(key) != other.get(key)}
    assert differing == set()


def test_there_is_no_pool_and_the_shape_is_still_told() -> None:
    graph = dev(AUTOPILOT)
    assert graph.of("NodePool") == []
    assert graph.stack_outputs["tpuPools"]["trillium"]["machine"] == "ct6e-standard-8t"

"""The life of gcp objects: conflicts, references, refusals, drift."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from simcloud.cloud import STAMP, STAMPED
from simcloud.values import UNKNOWN
from tests.simcloud.harness import CallError, Live, Provider, providers
from tests.simcloud.harness import Props as Given

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
SERVICE = "gcp:projects/service:Service"
SECRET = "gcp:secretmanager/secret:Secret"
VERSION = "gcp:secretmanager/secretVersion:SecretVersion"
MEMBER = "gcp:projects/iAMMember:IAMMember"
CUBE: Given = {
    "name": "cube",
    "cluster": "tpu",
    "location": "us-central1",
    "nodeConfig": {"machineType": "tpu7x-standard-4t"},
}


@pytest.fixture
def gcp(tmp_path: Path) -> Provider:
    return providers(tmp_path)[0]


def network(gcp: Provider, **more: Any) -> Live:
    return gcp.create(NETWORK, "fabric", {"name": "fabric", **more})


def subnetwork(gcp: Provider, **more: Any) -> Live:
    given = {"name": "nodes", "network": "fabric", "ipCidrRange": "10.0.0.0/16", **more}
    return gcp.create(SUBNETWORK, "nodes", given)


def cluster(gcp: Provider, **more: Any) -> Live:
    given = {"name": "tpu", "location": "us-central1", "deletionProtection": False, **more}
    return gcp.create(CLUSTER, "tpu", given)


def test_every_id_and_every_output_is_stamped(gcp: Provider) -> None:
    made = [network(gcp), subnetwork(gcp), cluster(gcp), gcp.create(POOL, "cube", CUBE)]
    assert [live.id for live in made if not live.id.startswith(STAMP)] == []
    assert [live.id for live in made if "nothing real" not in live.outputs[STAMPED]] == []
    assert made[2].outputs["endpoint"].endswith(".simulated.invalid")
    assert made[0].outputs["selfLink"].startswith("https://compute.simulated.invalid/")


def test_ids_have_the_providers_form(gcp: Provider) -> None:
    network(gcp)
    assert subnetwork(gcp).id == (
        "simulated/projects/my-project/regions/us-central1/subnetworks/nodes"
    )
    tpu = cluster(gcp)
    pool = gcp.create(POOL, "cube", {**CUBE, "cluster": tpu.id, "location": None})
    assert pool.id == (
        "simulated/projects/my-project/locations/us-central1/clusters/tpu/nodePools/cube"
    )


def test_a_name_is_taken_once(gcp: Provider) -> None:
    network(gcp)
    with pytest.raises(CallError, match=r"Error 409: The resource '.*fabric' already exists"):
        network(gcp)


def test_a_reference_to_nothing_is_not_found(gcp: Provider) -> None:
    with pytest.raises(CallError, match="Error 404: The resource 'fabric' was not found"):
        subnetwork(gcp)


@pytest.mark.parametrize("by", ["id", "name", "selfLink"])
def test_a_network_is_found_by_any_of_its_names(gcp: Provider, by: str) -> None:
    live = network(gcp)
    subnetwork(gcp, network={"id": live.id, **live.outputs}[by])
    with pytest.raises(CallError, match=r"already being used by '.*subnetworks/nodes'"):
        gcp.delete(NETWORK, "fabric", live)


def test_what_is_used_cannot_be_deleted(gcp: Provider) -> None:
    fabric, nodes = network(gcp), subnetwork(gcp)
    tpu = cluster(gcp, network="fabric", subnetwork="nodes")
    policy = gcp.create(POLICY, "cube", {"name": "cube"})
    pool = gcp.create(POOL, "cube", {**CUBE, "placementPolicy": {"policyName": "cube", "type": ""}})
    for type_, name, live in (
        (NETWORK, "fabric", fabric),
        (SUBNETWORK, "nodes", nodes),
        (POLICY, "cube", policy),
    ):
        with pytest.raises(CallError, match="resourceInUseByAnotherResource"):
            gcp.delete(type_, name, live)
    gcp.delete(CLUSTER, "tpu", tpu)
    assert gcp.read(POOL, "cube", pool) is None, "a cluster takes its pools along"
    for type_, name, live in (
        (POLICY, "cube", policy),
        (SUBNETWORK, "nodes", nodes),
        (NETWORK, "fabric", fabric),
    ):
        gcp.delete(type_, name, live)
        assert gcp.read(type_, name, live) is None


def test_deleting_what_is_gone_succeeds(gcp: Provider) -> None:
    live = network(gcp)
    gcp.delete(NETWORK, "fabric", live)
    gcp.delete(NETWORK, "fabric", live)


def test_deletion_protection_is_enforced_by_the_delete(gcp: Provider) -> None:
    tpu = cluster(gcp, deletionProtection=True)
    with pytest.raises(CallError, match="because deletion_protection is set to true"):
        gcp.delete(CLUSTER, "tpu", tpu)
    open_ = gcp.update(CLUSTER, "tpu", tpu, {**tpu.inputs, "deletionProtection": False})
    gcp.delete(CLUSTER, "tpu", open_)


def test_a_preview_feature_is_only_forgotten(gcp: Provider) -> None:
    feature = "gcp:compute/previewFeature:PreviewFeature"
    given = {"name": "alpha-api", "activationStatus": "ENABLED"}
    live = gcp.create(feature, "alpha-api", given)
    gcp.delete(feature, "alpha-api", live)
    assert gcp.read(feature, "alpha-api", live) is not None
    gcp.create(feature, "alpha-api", given)


def test_a_member_is_taken_over_not_refused(gcp: Provider) -> None:
    given = {"project": "my-project", "role": "roles/viewer", "member": "user:a@example.com"}
    assert gcp.create(MEMBER, "a", given).id == gcp.create(MEMBER, "b", given).id


def test_a_renamed_policy_is_not_found_at_its_new_name(gcp: Provider) -> None:
    live = gcp.create(POLICY, "cube", {"name": "cube"})
    with pytest.raises(CallError, match=r"Error 404: The resource '.*cube-renamed' was not found"):
        gcp.update(POLICY, "cube", live, {"name": "cube-renamed"})


def test_a_service_must_be_on_once_the_program_manages_services(gcp: Provider) -> None:
    network(gcp)
    gcp.create(SERVICE, "compute", {"service": "compute.googleapis.com"})
    with pytest.raises(CallError, match=r"container\.googleapis\.com has not been used"):
        cluster(gcp)
    gcp.create(SERVICE, "container", {"service": "container.googleapis.com"})
    cluster(gcp)


@pytest.mark.parametrize(
    ("type_", "given", "reason"),
    [
        (NETWORK, {"name": "a", "mtu": 9999}, "Must be 1300 to 8896"),
        (POLICY, {"name": "Cube_BAD"}, "resource.name': 'Cube_BAD'"),
        (
            POLICY,
            {
                "name": "a",
                "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4x5"},
            },
            "acceleratorTopology': '4x4x5'",
        ),
        (SUBNETWORK, {"name": "a", "network": "fabric", "ipCidrRange": "10.0.0.5/16"}, "host bits"),
        (
            SUBNETWORK,
            {
                "name": "a",
                "network": "fabric",
                "ipCidrRange": "10.9.0.0/16",
                "purpose": "REGIONAL_PROXY",
            },
            "purpose': 'REGIONAL_PROXY'",
        ),
        (
            SUBNETWORK,
            {"name": "a", "network": "fabric", "ipCidrRange": "10.0.128.0/20"},
            "10.0.128.0/20 conflicts with existing subnetwork 'nodes'",
        ),
        (POOL, {**CUBE, "nodeConfig": {"machineType": "tpu9-mega"}}, "machine type 'tpu9-mega'"),
        (POOL, {**CUBE, "placementPolicy": {"type": "COMPAKT"}}, "placement_policy.type': 'COMP"),
        (POOL, {**CUBE, "placementPolicy": {"type": "COMPACT"}}, "use a workload policy"),
    ],
)
def test_the_api_refuses_what_a_plan_lets_pass(
    gcp: Provider, type_: str, given: Given, reason: str
) -> None:
    network(gcp)
    subnetwork(gcp)
    cluster(gcp)
    inputs, failures = gcp.check(type_, "x", given)
    assert failures == []
    gcp.preview(type_, "x", inputs)
    with pytest.raises(CallError, match=f"Error 400: .*{reason}"):
        gcp.create(type_, "x", given)


LINKED = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4x4"}
UNLINKED = {**LINKED, "acceleratorTopologyMode": "PROVISION_ONLY"}
WHOLE = {"type": "COMPACT", "tpuTopology": "4x4"}
RESERVED = {
    "consumeReservationType": "SPECIFIC_RESERVATION",
    "key": "compute.googleapis.com/reservation-name",
    "values": ["projects/my-project/reservations/r/reservationBlocks/b"],
}


def pool(machine: str, *, placement: Given | None = None, node: Given | None = None) -> Given:
    """A pool on a machine; `placement` and `node` beside what every pool has."""
    given = {**CUBE, "nodeConfig": {"machineType": machine, **(node or {})}}
    return {**given, "placementPolicy": placement} if placement else given


def cube(**node: Any) -> Given:
    """A pool of 16 hosts without links, under the policy `unlinked`."""
    policy = {"type": "", "policyName": "unlinked"}
    made = pool("tpu7x-standard-4t", placement=policy, node={"reservationAffinity": RESERVED})
    return {**made, "nodeCount": 16, "nodeConfig": {**made["nodeConfig"], **node}}


@pytest.fixture
def tpus(gcp: Provider) -> Provider:
    """A cluster, and one workload policy of each mode."""
    cluster(gcp)
    gcp.create(POLICY, "linked", {"name": "linked", "workloadPolicy": LINKED})
    gcp.create(POLICY, "unlinked", {"name": "unlinked", "workloadPolicy": UNLINKED})
    return gcp


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (pool("ct6e-standard-8t", placement={**WHOLE, "tpuTopology": "2x4"}), "single-host slice"),
        ({**pool("ct6e-standard-4t", placement=WHOLE), "nodeCount": 3}, "has 4 nodes, not 3"),
        ({**cube(), "nodeCount": 17}, "topology 4x4x4 has 16 nodes, not 17"),
        (
            {
                **pool("ct6e-standard-4t", placement=WHOLE),
                "autoscaling": {"totalMaxNodeCount": 4},
            },
            "maximum node count 0 is invalid for topology 4x4",
        ),
        (pool("tpu7x-standard-4t", node={"diskType": "pd-balanced"}), "use hyperdisk-balanced"),
        (cube(spot=True), "cannot be used with spot"),
        (cube(flexStart=True), "cannot be used with flex-start"),
        ({**cube(), "queuedProvisioning": {"enabled": True}}, "with queued provisioning"),
        (cube(reservationAffinity=None), "needs a SPECIFIC_RESERVATION"),
    ],
)
def test_gke_refuses_a_pool_its_tpus_cannot_be(tpus: Provider, given: Given, reason: str) -> None:
    with pytest.raises(CallError, match=f"Error 400: .*{reason}"):
        tpus.create(POOL, "cube", given)
    assert tpus.service.store.count(POOL) == 0


@pytest.mark.parametrize(
    "given",
    [
        {**pool("ct6e-standard-8t"), "nodeCount": 3, "autoscaling": {"totalMaxNodeCount": 3}},
        {**pool("ct6e-standard-4t", placement=WHOLE), "nodeCount": 4},
        {**pool("ct6e-standard-4t", placement=WHOLE), "initialNodeCount": 0},
        {**pool("tpu7x-standard-4t", node={"spot": True}), "nodeCount": 3},
        cube(diskType="hyperdisk-balanced"),
        {
            **cube(spot=True, reservationAffinity=None),
            "placementPolicy": {"type": "", "policyName": "linked"},
        },
    ],
)
def test_gke_takes_a_pool_its_tpus_can_be(tpus: Provider, given: Given) -> None:
    tpus.create(POOL, "cube", given)


def test_a_pool_of_whole_slices_cannot_be_resized(tpus: Provider) -> None:
    live = tpus.create(POOL, "cube", cube())
    with pytest.raises(CallError, match="has 16 nodes, not 8"):
        tpus.update(POOL, "cube", live, {**live.inputs, "nodeCount": 8})


def test_a_cluster_needs_the_ranges_it_names(gcp: Provider) -> None:
    network(gcp)
    subnetwork(gcp, secondaryIpRanges=[{"rangeName": "pods", "ipCidrRange": "10.64.0.0/14"}])
    place = {"network": "fabric", "subnetwork": "nodes"}
    with pytest.raises(CallError, match="Pod range 'nods' not found in subnetwork 'nodes'"):
        cluster(gcp, **place, ipAllocationPolicy={"clusterSecondaryRangeName": "nods"})
    cluster(gcp, **place, ipAllocationPolicy={"clusterSecondaryRangeName": "pods"})


def test_an_unknown_value_is_never_carried_out(gcp: Provider) -> None:
    with pytest.raises(CallError, match="unknown value for a real operation"):
        network(gcp, description=UNKNOWN)


def test_an_object_of_a_real_stack_is_refused(gcp: Provider) -> None:
    live = network(gcp)
    real = Live(live.id.removeprefix(STAMP), live.inputs, live.outputs)
    refusal = "is not an object of the simulated cloud"
    with pytest.raises(CallError, match=refusal):
        gcp.delete(NETWORK, "fabric", real)
    with pytest.raises(CallError, match=refusal):
        gcp.read(NETWORK, "fabric", real)
    with pytest.raises(CallError, match=refusal):
        gcp.update(NETWORK, "fabric", real, {"name": "fabric"})
    assert gcp.read(NETWORK, "fabric", live) is not None


def test_a_refresh_tells_what_changed_outside(gcp: Provider) -> None:
    live = network(gcp, mtu=8896)
    store = gcp.service.store
    record = store.find(NETWORK, "fabric")[0]
    store.change(record.key, {**record.props, "mtu": 1460})
    read = gcp.read(NETWORK, "fabric", live)
    assert read is not None
    assert read.inputs["mtu"] == read.outputs["mtu"] == 1460
    assert list(gcp.diff(NETWORK, "fabric", read, live.inputs).detailedDiff) == ["mtu"]


def test_a_refresh_keeps_a_secret_secret_and_sees_a_change(gcp: Provider, tmp_path: Path) -> None:
    gcp.create(SECRET, "hf", {"secretId": "hf", "replication": {"auto": {}}})
    live = gcp.create(VERSION, "hf", {"secret": "hf", "secretData": "hunter2"})
    read = gcp.read(VERSION, "hf", live)
    assert read is not None
    assert read.outputs["secretData"] == live.outputs["secretData"]
    assert read.inputs["secretData"] == live.inputs["secretData"]
    changed = Live(live.id, live.inputs, {**live.outputs, "secretData": "other"})
    again = gcp.read(VERSION, "hf", changed)
    assert again is not None
    assert again.outputs["secretData"]["value"] == "changed outside"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 1
    assert [path.name for path in files if b"hunter2" in path.read_bytes()] == []


def test_versions_of_a_secret_count_up(gcp: Provider) -> None:
    for name in ("hf", "other"):
        gcp.create(SECRET, name, {"secretId": name, "replication": {"auto": {}}})
    made = [
        gcp.create(VERSION, f"v{count}", {"secret": secret, "secretData": "x"}).outputs["version"]
        for count, secret in enumerate(("hf", "hf", "other"))
    ]
    assert made == ["1", "2", "1"]


def test_creations_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them wait at the same time: a lock around the wait would keep the barrier shut."""
    gcp, _ = providers(tmp_path, scale=1)
    barrier = threading.Barrier(32)
    monkeypatch.setattr("simcloud.clock.time.sleep", lambda _: barrier.wait(timeout=20))
    failed: list[BaseException] = []

    def create(index: int) -> None:
        try:
            gcp.create(NETWORK, f"net-{index}", {"name": f"net-{index}"})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=create, args=(index,)) for index in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert gcp.service.store.count(NETWORK) == 32


def test_two_creations_of_one_name_at_the_same_time_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcp, _ = providers(tmp_path, scale=1)
    refused: list[str] = []

    def second(_: float) -> None:
        monkeypatch.setattr("simcloud.clock.time.sleep", lambda _: None)
        try:
            network(gcp)
        except CallError as error:
            refused.append(str(error))

    monkeypatch.setattr("simcloud.clock.time.sleep", second)
    network(gcp)
    assert len(refused) == 1
    assert "already exists" in refused[0]


@pytest.mark.parametrize(
    "query",
    [
        "select * from resource where key = 'x'",
        "select * from resource where type = 'x' and name = 'y'",
        "select * from resource where scope = 'x'",
        "select source from reference where target = 'x'",
        "select count(*) from resource where type = 'x'",
        "select key from address where host = 'x'",
    ],
)
def test_the_store_answers_from_an_index(tmp_path: Path, query: str) -> None:
    """A stack of a thousand objects must not be slower by object than one of ten."""
    providers(tmp_path)
    rows = sqlite3.connect(tmp_path / "cloud.db").execute(f"explain query plan {query}")
    plan = " ".join(str(row[-1]) for row in rows)
    assert "SEARCH" in plan
    assert "SCAN" not in plan


def test_the_log_tells_when_and_how_long(gcp: Provider) -> None:
    network(gcp)
    with pytest.raises(CallError, match="already exists"):
        network(gcp)
    calls = gcp.service.store.calls()
    assert [call.method for call in calls] == ["Check", "Create", "Check", "Create"]
    made, refused = calls[1], calls[3]
    assert (made.type, made.name, made.minutes, made.error) == (NETWORK, "fabric", 0.6, "")
    assert made.started <= made.ended <= refused.started
    assert "already exists" in refused.error

"""Buckets, who may do what in them, and the Jobs that fill them."""

import pytest

from components import pods
from components.storage import CREATE, READ, WRITE
from tests.support.dev import AUTOPILOT, WITH_TOKEN, container, dev, pod
from tests.support.files import ROOT, stack_config
from tests.support.recorder import Graph, Registered


def _grants(graph: Graph) -> set[tuple[str, str, str]]:
    """Bucket, role, and the namespace and account of the member."""
    return {
        (
            each.inputs["bucket"],
            each.inputs["role"],
            each.inputs["member"].partition("/subject/")[2],
        )
        for each in graph.of("BucketIAMMember")
    }


def _job(graph: Graph) -> Registered:
    return graph.one("Job", "staging-llama")


@pytest.mark.parametrize("name", ["tpuserve-test-weights", "tpuserve-test-cache"])
def test_a_bucket_is_closed_near_and_can_be_brought_back(name: str) -> None:
    bucket = dev().one("Bucket", name).inputs
    assert bucket["uniformBucketLevelAccess"] is True
    assert bucket["publicAccessPrevention"] == "enforced"
    assert bucket["location"] == "US-CENTRAL1"
    assert bucket["softDeletePolicy"] == {"retentionDurationSeconds": 7 * 86400}
    assert bucket["labels"]["stack"] == "tpuserve-test"


def test_destroying_a_protected_stack_deletes_no_object() -> None:
    pinned = {"modelServer": f"docker.io/vllm/vllm-tpu:v0.32.0@sha256:{'1' * 64}"}
    prod = dev({"tpuserve:protect": True, "tpuserve:images": pinned})
    kept = [(each.inputs["forceDestroy"], each.protect) for each in prod.of("Bucket")]
    assert kept == [(False, True)] * 2
    assert [each.inputs["forceDestroy"] for each in dev().of("Bucket")] == [True] * 2


def test_servers_read_weights_and_only_create_programs() -> None:
    weights, cache = "my-project-tpuserve-test-weights", "my-project-tpuserve-test-xla-cache"
    assert _grants(dev()) == {
        (weights, WRITE, "ns/model-store/sa/stager"),
        (weights, READ, "ns/serving/sa/llama"),
        (cache, READ, "ns/serving/sa/llama"),
        (cache, CREATE, "ns/serving/sa/llama"),
    }
    assert (WRITE, CREATE) == ("roles/storage.objectUser", "roles/storage.objectCreator")


def test_grants_name_the_pods_themselves() -> None:
    members = {each.inputs["member"] for each in dev().of("BucketIAMMember")}
    wanted = (
        "principal://iam.googleapis.com/projects/123456789012/locations/global/"
        "workloadIdentityPools/my-project.svc.id.goog/subject/ns/"
    )
    assert [each for each in members if not each.startswith(wanted)] == []


def test_weights_of_others_are_read_where_they_lie_and_nothing_is_staged() -> None:
    graph = dev(
        {"tpuserve:storage": {}, "tpuserve:serving.llama.revision": "__removed__"},
        weights="gs://others/llama",
    )
    assert graph.of("Job") == []
    assert ("others", READ, "ns/serving/sa/llama") in _grants(graph)
    assert "gs://others/llama" in container(graph.one("Deployment"), "vllm")["args"]


def test_staging_waits_for_bucket_identity_and_nodes_and_not_for_tpus() -> None:
    graph = dev(WITH_TOKEN)
    job = _job(graph)
    for kind, name in [
        ("BucketIAMMember", "tpuserve-test-stager"),
        ("NodePool", "tpuserve-test-system"),
        ("SecretVersion", "hugging-face-version"),
        ("SecretIamMember", "hugging-face-reader"),
        ("ServiceAccount", "staging-account"),
    ]:
        assert graph.depends(job, graph.one(kind, name)), name
    for kind, name in [
        ("NodePool", "trillium-pool"),
        ("RouterNat", "tpuserve-test-nat"),
        ("Deployment", "llama-server"),
        ("BucketIAMMember", "tpuserve-test-llama-weights"),
    ]:
        assert not graph.depends(job, graph.one(kind, name)), name
    assert graph.depends(graph.one("Deployment"), job)


def test_in_autopilot_staging_waits_for_the_cluster_alone() -> None:
    graph = dev(AUTOPILOT)
    assert graph.of("NodePool") == []
    assert graph.depends(_job(graph), graph.one("Cluster", "tpuserve-test-cluster"))


def test_the_job_runs_the_shipped_package_with_least_rights() -> None:
    graph = dev()
    spec, stage = pod(_job(graph)), container(_job(graph), "stage")
    assert stage["command"] == ["python3", "-B", "-m", "staging", "model"]
    assert "@sha256:" in stage["image"]
    config_map = graph.one("ConfigMap", "staging-scripts").inputs
    assert config_map["metadata"]["name"] == f"staging-{pods.SCRIPTS_DIGEST}"
    (scripts,) = [each for each in spec["volumes"] if each["name"] == "scripts"]
    mounted = {
        item["path"]: config_map["data"][item["key"]] for item in scripts["configMap"]["items"]
    }
    folder = ROOT / "components" / "staging"
    assert mounted == {f"staging/{p.name}": p.read_text() for p in folder.glob("*.py")}
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert stage["securityContext"]["readOnlyRootFilesystem"] is True
    assert stage["resources"]["limits"]["memory"] == "3Gi"


def test_a_refusal_ends_the_job_and_a_drained_node_does_not_count() -> None:
    spec = _job(dev()).inputs["spec"]
    ignored, failed = spec["podFailurePolicy"]["rules"]
    assert (ignored["action"], ignored["onPodConditions"][0]["type"]) == (
        "Ignore",
        "DisruptionTarget",
    )
    assert (failed["action"], failed["onExitCodes"]["values"]) == ("FailJob", [3])
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_the_wait_for_a_copy_follows_from_its_size() -> None:
    job = _job(dev())
    # 141.2 GB at 50 MB/s and ten minutes; the engine's wait has ten minutes more.
    assert job.inputs["spec"]["activeDeadlineSeconds"] == 3424
    assert job.inputs["metadata"]["annotations"] == {"pulumi.com/timeoutSeconds": "4024"}
    assert job.create_timeout == "4024s"


def test_another_revision_is_another_job_and_another_folder() -> None:
    one, other = dev(), dev(revision="0" * 40)
    names = [_job(graph).inputs["metadata"]["name"] for graph in (one, other)]
    assert len(set(names)) == 2
    folders = [container(graph.one("Deployment"), "vllm")["args"][1] for graph in (one, other)]
    assert folders[1].endswith("/models/meta-llama/Llama-3.1-70B-Instruct/" + "0" * 40)
    assert folders[0] != folders[1]


def test_one_revision_under_two_keys_is_copied_once() -> None:
    again = {**stack_config("dev")["tpuserve:serving"]["llama"], "maxModelLen": 1024}
    graph = dev({"tpuserve:tpuPools.trillium.slices.max": 4, "tpuserve:serving.short": again})
    (job,) = graph.of("Job")
    servers = [graph.one("Deployment", f"{key}-server") for key in ("llama", "short")]
    assert [each.name for each in servers if not graph.depends(each, job)] == []
    other = dev(
        {
            "tpuserve:tpuPools.trillium.slices.max": 4,
            "tpuserve:serving.short": {**again, "revision": "0" * 40},
        }
    )
    assert len(other.of("Job")) == 2


def test_two_models_are_staged_side_by_side() -> None:
    graph = dev(
        {
            "tpuserve:tpuPools.trillium.slices.max": 3,
            "tpuserve:serving.qwen": {
                "mode": "singleHost",
                "pool": "trillium",
                "model": "Qwen/Qwen3-32B",
                "revision": "0" * 40,
            },
        }
    )
    one, other = graph.one("Job", "staging-llama"), graph.one("Job", "staging-qwen")
    assert not graph.depends(one, other)
    assert not graph.depends(other, one)
    assert len(graph.of("Bucket")) == 2
    assert not graph.depends(graph.one("Deployment", "qwen-server"), one)

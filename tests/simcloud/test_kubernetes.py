"""The API of the simulated clusters: names, fields, definitions, replacement, readiness."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from simcloud.clock import Clock
from simcloud.kubernetes import Kubernetes
from simcloud.kubernetes.kinds import known_types
from simcloud.provider import Service
from simcloud.tables.kubernetes_fields import TARGET
from simcloud.values import SECRET, SIGNATURE, UNKNOWN
from tests.simcloud.harness import CallError, Live, Props, Provider, providers

NAMESPACE = "kubernetes:core/v1:Namespace"
CONFIG = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
RELEASE = "kubernetes:helm.sh/v3:Release"
QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
KUEUE: Props = {
    "chart": "oci://registry.k8s.io/kueue/charts/kueue",
    "version": "0.17.0",
    "name": "kueue",
    "namespace": "kueue-system",
    "createNamespace": True,
}


@pytest.fixture
def k8s(tmp_path: Path) -> Provider:
    return providers(tmp_path)[1]


def thing(kind: str, name: str, version: str = "v1", **more: Any) -> Props:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def config(name: str, **metadata: Any) -> Props:
    made = thing("ConfigMap", name, data={"a": "1"})
    made["metadata"].update(metadata)
    return made


def deployment(**spec: Any) -> Props:
    labels = {"app": "vllm"}
    pod = {"containers": [{"name": "vllm", "image": "vllm@sha256:0"}]}
    return thing(
        "Deployment",
        "vllm",
        "apps/v1",
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    )


def queue(name: str = "tpu") -> Props:
    return thing("ClusterQueue", name, "kueue.x-k8s.io/v1beta2", spec={})


def kinds(plan: Any) -> dict[str, str]:
    names = {0: "add", 1: "add-replace", 2: "delete", 3: "delete-replace", 4: "update"}
    names[5] = "update-replace"
    return {path: names[item.kind] for path, item in plan.detailedDiff.items()}


def test_an_unknown_field_is_refused_with_the_nearest_name(k8s: Provider) -> None:
    given = deployment()
    given["spec"]["template"]["spec"]["containers"][0]["imagePullPolcy"] = "Always"
    _, failures = k8s.check(DEPLOYMENT, "vllm", given)
    assert failures == [
        "Invalid or unknown key: apps/v1:Deployment has no field "
        "'spec.template.spec.containers.imagePullPolcy'. Did you mean 'imagePullPolicy'? "
        "Examine values at 'vllm.spec.template.spec.containers[0].imagePullPolcy'."
    ]


def test_a_misspelt_field_of_a_custom_kind_is_refused(k8s: Provider) -> None:
    given = queue()
    given["spec"] = {
        "queueingStrategy": "BestEffort",
        "resourceGroups": [{"coveredResources": ["google.com/tpu"], "flavours": []}],
    }
    _, failures = k8s.check(QUEUE, "tpu", given)
    assert len(failures) == 3
    assert [text for text in failures if "Did you mean 'BestEffortFIFO'?" in text]
    assert [text for text in failures if "Did you mean 'flavors'?" in text]
    assert [text for text in failures if "missing required field" in text]


def test_a_version_that_is_not_served_is_refused(k8s: Provider) -> None:
    kind = "kubernetes:kueue.x-k8s.io/v1alpha9:ClusterQueue"
    _, failures = k8s.check(kind, "tpu", thing("ClusterQueue", "tpu", "kueue.x-k8s.io/v1alpha9"))
    assert len(failures) == 1
    assert "served in kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2" in failures[0]


def test_a_missing_field_and_a_wrong_shape_are_refused(k8s: Provider) -> None:
    given = deployment()
    del given["spec"]["selector"]
    given["spec"]["template"]["spec"]["containers"] = {"name": "vllm"}
    _, failures = k8s.check(DEPLOYMENT, "vllm", given)
    assert [text for text in failures if "missing required field 'spec.selector'" in text]
    assert [text for text in failures if "expects a list at 'spec.template.spec.cont" in text]


def test_an_unknown_type_is_refused_with_the_nearest_name(k8s: Provider) -> None:
    with pytest.raises(CallError, match="Did you mean 'kubernetes:apps/v1:Deployment'"):
        k8s.check("kubernetes:apps/v1:Deploymnt", "x", {})
    assert len(known_types()) > 100


def test_a_selector_must_match_its_template(k8s: Provider) -> None:
    given = deployment(selector={"matchLabels": {"app": "other"}})
    _, failures = k8s.check(DEPLOYMENT, "vllm", given)
    assert len(failures) == 1
    assert "`selector` does not match template `labels`" in failures[0]


def test_a_volume_names_keys_its_config_map_has(k8s: Provider) -> None:
    k8s.create(CONFIG, "config", config("config"))

    def mounting(item: str, **more: Any) -> Props:
        source = {"name": "config", "items": [{"key": item, "path": item}], **more}
        made = deployment()
        made["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "configMap": source}]
        return made

    with pytest.raises(CallError, match='volume "v": references non-existent config key: b'):
        k8s.create(DEPLOYMENT, "vllm", mounting("b"))
    live = k8s.create(DEPLOYMENT, "vllm", mounting("a"))
    k8s.update(DEPLOYMENT, "vllm", live, mounting("b", optional=True))


def test_names_and_namespaces_are_filled_in(k8s: Provider) -> None:
    inputs, _ = k8s.check(CONFIG, "settings", {"apiVersion": "v1", "kind": "ConfigMap"})
    metadata = inputs["metadata"]
    assert metadata["name"].startswith("settings-")
    assert metadata["namespace"] == "default"
    assert metadata["annotations"] == {"pulumi.com/autonamed": "true"}
    again, _ = k8s.check(CONFIG, "settings", {"apiVersion": "v1", "kind": "ConfigMap"}, inputs)
    assert again["metadata"] == metadata
    cluster_wide, _ = k8s.check(NAMESPACE, "llm", thing("Namespace", "llm"))
    assert "namespace" not in cluster_wide["metadata"]


def test_a_namespace_must_exist_and_takes_its_objects_along(k8s: Provider) -> None:
    with pytest.raises(CallError, match='namespaces "llm" not found'):
        k8s.create(CONFIG, "settings", config("settings", namespace="llm"))
    space = k8s.create(NAMESPACE, "llm", thing("Namespace", "llm"))
    assert space.outputs["status"] == {"phase": "Active"}
    live = k8s.create(CONFIG, "settings", config("settings", namespace="llm"))
    assert live.id == "simulated/llm/settings"
    k8s.delete(NAMESPACE, "llm", space)
    assert k8s.read(CONFIG, "settings", live) is None


def test_a_name_is_taken_once_by_kind_and_namespace(k8s: Provider) -> None:
    k8s.create(CONFIG, "settings", config("settings"))
    with pytest.raises(CallError, match='configmaps "settings" already exists'):
        k8s.create(CONFIG, "other", config("settings"))
    k8s.create("kubernetes:core/v1:Secret", "settings", thing("Secret", "settings"))
    k8s.create(CONFIG, "third", config("settings", namespace="kube-system"))


def test_an_existing_object_is_taken_over_if_the_provider_says_so(tmp_path: Path) -> None:
    _, k8s = providers(tmp_path)
    k8s.create(CONFIG, "settings", config("settings"))
    settings = {"upsertExistingObjects": "true"}
    kubeconfig = '{"clusters": [{"cluster": {"server": "https://cluster.simulated.invalid"}}]}'
    adopting = Provider(k8s.service, {"kubeconfig": kubeconfig, **settings}, "adopting")
    adopting.create(CONFIG, "settings", config("settings"))


def test_a_custom_resource_needs_its_definition(k8s: Provider) -> None:
    with pytest.raises(CallError, match=r'no matches for kind "ClusterQueue".*must exist before'):
        k8s.create(QUEUE, "tpu", queue())
    release = k8s.create(RELEASE, "kueue", KUEUE)
    live = k8s.create(QUEUE, "tpu", queue())
    assert live.id == "simulated/tpu", "a ClusterQueue has no namespace"
    with pytest.raises(CallError, match="ClusterQueue tpu has the finalizer"):
        k8s.delete(RELEASE, "kueue", release)
    k8s.delete(QUEUE, "tpu", live)
    k8s.delete(RELEASE, "kueue", release)
    with pytest.raises(CallError, match="no matches for kind"):
        k8s.create(QUEUE, "tpu", queue())


def test_definitions_a_chart_keeps_outlive_its_release(k8s: Provider) -> None:
    kind = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    lws = k8s.create(RELEASE, "lws", {"chart": "lws", "name": "lws"})
    pod = {"spec": {"containers": [{"name": "vllm"}]}}
    spec = {"leaderWorkerTemplate": {"workerTemplate": pod}}
    given = thing("LeaderWorkerSet", "qwen", "leaderworkerset.x-k8s.io/v1", spec=spec)
    live = k8s.create(kind, "qwen", given)
    k8s.delete(RELEASE, "lws", lws)
    assert k8s.read(kind, "qwen", live) is not None


def test_a_definition_object_establishes_its_kind_and_takes_its_objects(k8s: Provider) -> None:
    kind = "kubernetes:example.com/v1:Widget"
    given = thing("Widget", "w", "example.com/v1")
    with pytest.raises(CallError, match="no matches for kind"):
        k8s.create(kind, "w", given)
    names = {"kind": "Widget", "plural": "widgets"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": []}
    definition = thing(
        "CustomResourceDefinition", "widgets.example.com", "apiextensions.k8s.io/v1", spec=spec
    )
    crd = k8s.create(CRD, "widgets", definition)
    live = k8s.create(kind, "w", given)
    k8s.delete(CRD, "widgets", crd)
    assert k8s.read(kind, "w", live) is None


def test_the_cluster_brings_the_kinds_of_its_features(tmp_path: Path) -> None:
    gcp, _ = providers(tmp_path)
    gateway = "kubernetes:gateway.networking.k8s.io/v1:Gateway"
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    spec = {"gatewayClassName": "gke-l7-rilb", "listeners": [listener]}
    given = thing("Gateway", "inference", "gateway.networking.k8s.io/v1", spec=spec)
    service = Service(Kubernetes(), gcp.service.store, Clock(scale=0))
    for name, channel in (("with", "CHANNEL_STANDARD"), ("without", "CHANNEL_DISABLED")):
        cluster = gcp.create(
            "gcp:container/cluster:Cluster",
            name,
            {"name": name, "location": "x", "gatewayApiConfig": {"channel": channel}},
        )
        endpoint = cluster.outputs["endpoint"]
        kubeconfig = json.dumps({"clusters": [{"cluster": {"server": f"https://{endpoint}"}}]})
        inside = Provider(service, {"kubeconfig": kubeconfig}, name)
        if name == "with":
            inside.create(gateway, "inference", given)
        else:
            with pytest.raises(CallError, match="no matches for kind"):
                inside.create(gateway, "inference", given)


def test_a_cluster_takes_its_objects_along(tmp_path: Path) -> None:
    gcp, _ = providers(tmp_path)
    kind = "gcp:container/cluster:Cluster"
    given = {"name": "tpu", "location": "x", "deletionProtection": False}
    cluster = gcp.create(kind, "tpu", given)
    dns = cluster.outputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"]
    kubeconfig = f"clusters:\n- cluster:\n    server: https://{dns}\n  name: c\n"
    service = Service(Kubernetes(), gcp.service.store, Clock(scale=0))
    inside = Provider(service, {"kubeconfig": kubeconfig}, "inside")
    inside.create(CONFIG, "settings", config("settings"))
    gcp.delete(kind, "tpu", cluster)
    assert gcp.service.store.all() == []
    with pytest.raises(CallError, match="unreachable: no simulated cluster answers"):
        inside.create(CONFIG, "settings", config("settings"))


def test_without_a_kubeconfig_nothing_is_reached(k8s: Provider) -> None:
    bare = Provider(k8s.service, {}, "bare")
    with pytest.raises(CallError, match=r"never reads ~/\.kube/config"):
        bare.create(CONFIG, "settings", config("settings"))


@pytest.mark.parametrize(
    ("type_", "old", "new", "detail", "first"),
    [
        (
            CONFIG,
            config("a", namespace="default"),
            config("b", namespace="default"),
            {"metadata.name": "update-replace"},
            False,
        ),
        (
            CONFIG,
            config("a", namespace="default"),
            {**config("a", namespace="default"), "data": {"a": "2"}},
            {"data.a": "update-replace"},
            True,
        ),
        (
            DEPLOYMENT,
            deployment(replicas=1),
            deployment(replicas=2),
            {"spec.replicas": "update"},
            False,
        ),
        (
            RELEASE,
            KUEUE,
            {**KUEUE, "namespace": "other"},
            {"namespace": "update-replace"},
            False,
        ),
        (RELEASE, KUEUE, {**KUEUE, "version": "0.17.4"}, {"version": "update"}, False),
    ],
)
def test_what_replaces_an_object(  # noqa: PLR0917 - one row of a table
    k8s: Provider, type_: str, old: Props, new: Props, detail: dict[str, str], first: bool
) -> None:
    plan = k8s.diff(type_, "x", Live("simulated/x", old, old), new)
    assert kinds(plan) == detail
    assert list(plan.replaces) == [path for path, kind in detail.items() if "replace" in kind]
    assert plan.deleteBeforeReplace is first


def test_a_mutable_config_map_is_changed_in_place(k8s: Provider) -> None:
    mutable = Provider(k8s.service, {"enableConfigMapMutable": True}, "mutable")
    old = config("a", namespace="default")
    plan = mutable.diff(CONFIG, "a", Live("simulated/a", old, old), {**old, "data": {"a": "2"}})
    assert kinds(plan) == {"data.a": "update"}


def test_an_automatic_name_creates_before_it_deletes(k8s: Provider) -> None:
    old, _ = k8s.check(CONFIG, "a", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}})
    plan = k8s.diff(CONFIG, "a", Live("simulated/a", old, old), {**old, "data": {"a": "2"}})
    assert list(plan.replaces) == ["data.a"]
    assert plan.deleteBeforeReplace is False


def test_a_patch_changes_what_is_there_and_leaves_it(k8s: Provider) -> None:
    live = k8s.create(CONFIG, "a", config("a"))
    patch = "kubernetes:core/v1:ConfigMapPatch"
    change = k8s.create(patch, "a-patch", {**config("a"), "data": {"b": "2"}})
    k8s.delete(patch, "a-patch", change)
    assert k8s.read(CONFIG, "a", live) is not None
    _, failures = k8s.check(patch, "a-patch", {"apiVersion": "v1", "kind": "ConfigMap"})
    assert failures == ["patch resources need metadata.name (a-patch)"]


@pytest.mark.parametrize(
    ("old", "new", "replaces"),
    [
        ({"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}, ["clusterIdentifier"]),
        (
            {"clusterIdentifier": "a", "kubeconfig": "server: https://x"},
            {"clusterIdentifier": "a", "kubeconfig": UNKNOWN},
            [],
        ),
        ({"kubeconfig": "server: https://x"}, {"kubeconfig": "server: https://y"}, ["kubeconfig"]),
        ({"kubeconfig": "server: https://x"}, {"kubeconfig": UNKNOWN}, ["kubeconfig"]),
        (
            {"kubeconfig": "server: https://x\ntoken: a"},
            {"kubeconfig": "server: https://x\ntoken: b"},
            [],
        ),
    ],
)
def test_what_makes_it_another_cluster(old: Props, new: Props, replaces: list[str]) -> None:
    assert list(Kubernetes().diff_config(old, new).replaces) == replaces


def test_only_what_the_provider_awaits_takes_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("simcloud.clock.time.sleep", slept.append)
    monkeypatch.setattr("simcloud.kubernetes.queueing.answers", lambda *_: "")
    _, k8s = providers(tmp_path, scale=60)
    k8s.create(RELEASE, "kueue", KUEUE)
    k8s.create(QUEUE, "quiet", queue("quiet"))
    awaited = queue("awaited")
    awaited["metadata"]["annotations"] = {"pulumi.com/waitFor": "condition=Active"}
    k8s.create(QUEUE, "awaited", awaited)
    k8s.create(DEPLOYMENT, "vllm", deployment())
    skipped = deployment()
    skipped["metadata"] = {"name": "b", "annotations": {"pulumi.com/skipAwait": "true"}}
    k8s.create(DEPLOYMENT, "b", skipped)
    engine = deployment()
    engine["metadata"] = {"name": "engine"}
    limits = {"limits": {"google.com/tpu": "8"}}
    engine["spec"]["template"]["spec"]["containers"][0]["resources"] = limits
    k8s.create(DEPLOYMENT, "engine", engine)
    assert slept == pytest.approx([1.5 * 60, 0.5 * 60, 60, 7 * 60], abs=1)


def test_a_secret_is_answered_as_a_secret_and_sealed_in_the_store(
    k8s: Provider, tmp_path: Path
) -> None:
    data = {"token": {SIGNATURE: SECRET, "value": "hunter2"}}
    live = k8s.create("kubernetes:core/v1:Secret", "t", thing("Secret", "t", stringData=data))
    assert live.outputs["stringData"] == data
    read = k8s.read("kubernetes:core/v1:Secret", "t", live)
    assert read is not None
    assert read.inputs["stringData"] == data
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"hunter2" in path.read_bytes()] == []


def test_the_table_of_fields_is_of_the_installed_sdk() -> None:
    """The table is generated: a newer SDK needs a newer table."""
    written = json.loads(TARGET.read_text())
    assert importlib.metadata.version("pulumi_kubernetes") in written["source"]
    assert TARGET.stat().st_size < 300_000

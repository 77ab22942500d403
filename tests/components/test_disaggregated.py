"""Prefill and decode as the program declares them, for the shipped stack and its variants."""

import json
from functools import cache
from typing import Any

import pytest

from catalog.workloads import flaws
from config.queueing import Queueing
from config.stack import check
from tests.config.test_bad_disaggregated import TODAY
from tests.support.files import stack_config
from tests.support.recorder import Graph, Registered, record
from tests.support.sent import as_sent, mistakes, sent
from tests.support.variants import changed

QWEN = "tpuserve:serving.qwen"
VARIANTS: dict[str, dict[str, Any]] = {
    "shipped": {},
    "two hosts": {f"{QWEN}.slice": "2x2x2"},
    "public": {
        f"{QWEN}.apiKeySecret": "key",
        f"{QWEN}.exposure": {"kind": "public", "host": "llm.example.com", "certificate": "mine"},
    },
    "spare": {f"{QWEN}.spareSlices": 6},
    "keyed, two hosts": {f"{QWEN}.apiKeySecret": "key", f"{QWEN}.slice": "2x2x2"},
}


@cache
def graph(variant: str = "shipped") -> Graph:
    return record(changed(stack_config("prod"), VARIANTS[variant]), stack="prod")


def groups(of: Graph) -> dict[str, dict[str, Any]]:
    return {
        each.name.removesuffix("-lws"): each.inputs
        for each in of.of("LeaderWorkerSet")
        if each.name.endswith("-lws")
    }


def templates(group: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = group["spec"]["leaderWorkerTemplate"]
    return {key: found[key] for key in ("leaderTemplate", "workerTemplate") if key in found}


def leader(group: dict[str, Any]) -> dict[str, Any]:
    found = templates(group)
    return found.get("leaderTemplate", found["workerTemplate"])


def container(template: dict[str, Any], name: str) -> dict[str, Any]:
    spec = template["spec"]
    everything = [*spec["containers"], *spec.get("initContainers", [])]
    (found,) = [each for each in everything if each["name"] == name]
    return dict(found)


def environment(vllm: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in vllm["env"]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_fits_the_schema_of_its_kind(variant: str) -> None:
    found = [wrong for each in sent(graph(variant)) for wrong in mistakes(each)]
    assert found == []


def test_a_schema_refuses_a_field_nobody_knows() -> None:
    (one,) = graph().of("HTTPRoute")
    wrong = Registered(**{**vars(one), "inputs": {**one.inputs, "spec": {"parentRef": []}}})
    assert mistakes(wrong)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_group_would_be_admitted_by_the_queue(variant: str) -> None:
    config = changed(stack_config("prod"), VARIANTS[variant])
    stack = check(config, name="tpuserve-prod", today=TODAY).require()
    assert isinstance(stack.queueing, Queueing)
    rules = stack.queueing.queue(stack.tpu_pools)
    found = [
        str(flaw)
        for each in graph(variant).of("LeaderWorkerSet")
        if each.name.endswith("-lws")
        for flaw in flaws(as_sent(each), rules)
    ]
    assert found == []


@pytest.mark.parametrize(("variant", "hosts"), [("shipped", 1), ("two hosts", 2)])
def test_size_and_templates_follow_from_the_slice(variant: str, hosts: int) -> None:
    for group in groups(graph(variant)).values():
        assert group["spec"]["leaderWorkerTemplate"]["size"] == hosts
        assert ("leaderTemplate" in templates(group)) is (hosts > 1)
        for template in templates(group).values():
            notes, spec = template["metadata"]["annotations"], template["spec"]
            assert notes["cloud.google.com/skip-tpu-webhook-check"] == "true"
            assert notes["cloud.google.com/gke-tpu-slice-topology"].startswith("2x2x")
            assert "cloud.google.com/gke-tpu-topology" not in spec["nodeSelector"]
            assert "HEALTHY" in spec["nodeSelector"].values()
            assert container(template, "vllm")["resources"]["limits"]["google.com/tpu"] == "4"


@pytest.mark.parametrize("variant", ["shipped", "two hosts"])
def test_leaders_alone_are_members_of_the_pool(variant: str) -> None:
    selector = (
        graph(variant)
        .one("Release", "qwen-router")
        .inputs["values"]["router"]["modelServers"]["matchLabels"]
    )
    for group in groups(graph(variant)).values():
        chosen = [
            name
            for name, template in templates(group).items()
            if selector.items() <= template["metadata"]["labels"].items()
        ]
        assert len(chosen) == 1
        assert leader(group) is templates(group)[chosen[0]]


def test_probes_ask_vllm_itself_for_the_model() -> None:
    for name, port in (("qwen-prefill-0", 8000), ("qwen-decode-0", 8200)):
        vllm = container(leader(groups(graph())[name]), "vllm")
        asked = {key: vllm[key]["httpGet"] for key in ("startupProbe", "readinessProbe")}
        assert asked == {key: {"path": "/v1/models", "port": port} for key in asked}
        assert vllm["livenessProbe"]["httpGet"] == {"path": "/health", "port": port}
        startup = vllm["startupProbe"]
        # 406 GB of weights at 0.1 GB/s and 20 minutes to compile.
        assert startup["failureThreshold"] * startup["periodSeconds"] >= 5200


def test_a_decode_server_has_the_sidecar_of_the_routers_version_before_it() -> None:
    template = leader(groups(graph())["qwen-decode-0"])
    sidecar = container(template, "routing-proxy")
    assert sidecar["image"].startswith("ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0@sha256:")
    assert set(sidecar["args"]) >= {
        "--kv-connector=nixlv2",
        "--model-server-port=8200",
        "--enable-ssrf-protection=true",
        "--inference-pool=llm/qwen",
    }
    assert sidecar["restartPolicy"] == "Always"
    names = [
        each["name"] for each in leader(groups(graph())["qwen-prefill-0"])["spec"]["initContainers"]
    ]
    assert "routing-proxy" not in names


def test_the_sidecar_alone_has_a_token_for_the_clusters_api() -> None:
    for group in groups(graph("two hosts")).values():
        for template in templates(group).values():
            spec = template["spec"]
            assert spec["automountServiceAccountToken"] is False
            with_token = [
                each["name"]
                for each in [*spec["containers"], *spec["initContainers"]]
                if any(mount["name"] == "token" for mount in each["volumeMounts"])
            ]
            assert with_token in ([], ["routing-proxy"])


def test_the_roles_differ_in_their_part_alone() -> None:
    prefill, decode = (
        container(leader(groups(graph())[f"qwen-{role}-0"]), "vllm")["args"]
        for role in ("prefill", "decode")
    )
    differ = set(prefill) ^ set(decode)
    assert {each.split("=")[0] for each in differ} == {"--port", "--kv-transfer-config"}
    transfer = [
        json.loads(each.partition("=")[2]) for each in differ if each.startswith("--kv-transfer")
    ]
    assert {each["kv_role"] for each in transfer} == {"kv_producer", "kv_consumer"}
    assert "--enable-prefix-caching" in set(prefill) & set(decode)  # its model is hybrid


def test_roles_never_share_a_folder_of_compiled_programs() -> None:
    folders = [
        environment(container(leader(group), "fetch"))["PREFIX"]
        for name, group in groups(graph()).items()
        if name.endswith("-0")
    ]
    assert len(set(folders)) == len(folders) == 2


def test_transfer_ports_are_declared_on_every_host() -> None:
    for group in groups(graph("two hosts")).values():
        for template in templates(group).values():
            ports = {each["containerPort"] for each in container(template, "vllm")["ports"]}
            assert {9100, 9600} <= ports


def test_several_hosts_start_with_a_shell_that_ends_and_hands_on_signals() -> None:
    group = groups(graph("two hosts"))["qwen-decode-0"]
    for template, last in (
        (templates(group)["leaderTemplate"], 'exec vllm "$@"'),
        (templates(group)["workerTemplate"], "exec bash"),
    ):
        vllm = container(template, "vllm")
        assert vllm["command"][:2] == ["sh", "-c"]
        assert vllm["command"][2].startswith("set -e\n")
        assert last in vllm["command"][2]
        assert "/examples/ray_serving/multi-node-serving.sh" in vllm["command"][2]
        assert environment(vllm)["TPU_MULTIHOST_BACKEND"] == "ray"
    worker = container(templates(group)["workerTemplate"], "vllm")
    assert not {"startupProbe", "readinessProbe", "livenessProbe"} & set(worker)


@pytest.mark.parametrize("variant", ["shipped", "spare"])
def test_no_group_ever_surges_inside_its_object(variant: str) -> None:
    for group in groups(graph(variant)).values():
        rollout = group["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
        assert rollout == {"maxSurge": 0, "maxUnavailable": 1}
        assert group["spec"]["replicas"] == 1
        assert group["spec"]["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"


def names(changes: dict[str, Any], spare: int) -> dict[str, str]:
    """What the objects are called, by what the engine calls them."""
    of = record(
        changed(stack_config("prod"), {f"{QWEN}.spareSlices": spare, **changes}), stack="prod"
    )
    return {name: group["metadata"]["name"] for name, group in groups(of).items()}


def test_where_slices_are_spare_another_template_is_another_object() -> None:
    before = names({}, spare=8)
    assert len(set(before.values())) == 6
    assert [name for name, each in before.items() if not each.startswith(f"{name}-")] == []
    more = names({f"{QWEN}.decode.replicas": 5}, spare=8)
    assert before.items() < more.items()
    after = names({f"{QWEN}.maxNumSeqs": 32}, spare=8)
    assert [name for name in before if after[name] == before[name]] == []
    one_role = names({f"{QWEN}.decode.extraArgs": ["--async-scheduling"]}, spare=8)
    same = {name for name in before if one_role[name] == before[name]}
    assert same == {"qwen-prefill-0", "qwen-prefill-1"}


def test_without_spare_slices_an_object_keeps_its_name() -> None:
    after = names({f"{QWEN}.maxNumSeqs": 32}, spare=0)
    assert after == {name: name for name in after}


@pytest.mark.parametrize(("variant", "first"), [("shipped", True), ("spare", False)])
def test_an_old_group_ends_first_only_where_its_slice_is_needed(variant: str, first: bool) -> None:
    made = [each for each in graph(variant).of("LeaderWorkerSet") if each.name.startswith("qwen-")]
    assert len(made) == 6
    assert {each.delete_before_replace for each in made} == {first}


def test_the_key_is_mounted_where_vllm_serves_and_nowhere_else() -> None:
    for group in groups(graph("keyed, two hosts")).values():
        with_key = {
            (kind, each["name"])
            for kind, template in templates(group).items()
            for each in [*template["spec"]["containers"], *template["spec"]["initContainers"]]
            if any(mount["name"] == "api-key" for mount in each["volumeMounts"])
        }
        assert with_key == {("leaderTemplate", "vllm")}
        worker = templates(group)["workerTemplate"]["spec"]
        assert "api-key" not in {each["name"] for each in worker["volumes"]}


def test_a_group_has_time_to_drain_and_the_picker_outlives_it() -> None:
    for group in groups(graph()).values():
        spec = leader(group)["spec"]
        pause = container(leader(group), "vllm")["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pause + 90 < spec["terminationGracePeriodSeconds"] <= 130


def test_another_number_of_groups_leaves_the_others_alone() -> None:
    more = record(changed(stack_config("prod"), {f"{QWEN}.decode.replicas": 5}), stack="prod")
    before, after = groups(graph()), groups(more)
    assert set(after) - set(before) == {"qwen-decode-4"}
    assert [name for name in before if before[name] != after[name]] == []


@pytest.mark.parametrize(
    ("kind", "name", "needs", "needed"),
    [
        ("HealthCheckPolicy", "qwen-health", "Release", "qwen-router"),
        ("GCPBackendPolicy", "qwen-backend", "Release", "qwen-router"),
        ("HTTPRoute", "qwen-route", "HealthCheckPolicy", "qwen-health"),
        ("HTTPRoute", "qwen-route", "GCPBackendPolicy", "qwen-backend"),
        ("HTTPRoute", "qwen-route", "Gateway", "qwen-gateway"),
        ("Gateway", "qwen-gateway", "Subnetwork", "tpuserve-prod-proxies"),
        ("Gateway", "qwen-gateway", "Address", "qwen-address"),
        ("LeaderWorkerSet", "qwen-decode-0-lws", "HTTPRoute", "qwen-route"),
        ("LeaderWorkerSet", "qwen-decode-0-lws", "LocalQueue", "queues-llm-local-queue"),
        ("LeaderWorkerSet", "qwen-decode-0-lws", "NodePool", "cubes-001"),
        ("LeaderWorkerSet", "qwen-decode-0-lws", "Job", "staging-qwen"),
    ],
)
def test_what_waits_for_what(kind: str, name: str, needs: str, needed: str) -> None:
    of = graph()
    assert of.depends(of.one(kind, name), of.one(needs, needed))


@pytest.mark.parametrize(
    ("kind", "name", "other", "free"),
    [
        ("LeaderWorkerSet", "qwen-decode-0-lws", "LeaderWorkerSet", "qwen-prefill-0-lws"),
        ("LeaderWorkerSet", "qwen-prefill-0-lws", "LeaderWorkerSet", "qwen-decode-0-lws"),
        ("Release", "qwen-router", "NodePool", "cubes-000"),
        ("Gateway", "qwen-gateway", "NodePool", "cubes-000"),
        ("HTTPRoute", "qwen-route", "NodePool", "cubes-000"),
        ("Job", "staging-qwen", "NodePool", "cubes-000"),
    ],
)
def test_nothing_waits_for_what_it_does_not_use(
    kind: str, name: str, other: str, free: str
) -> None:
    of = graph()
    assert not of.depends(of.one(kind, name), of.one(other, free))


def test_no_definition_that_gke_carries_is_installed() -> None:
    owned = {each.inputs["metadata"]["name"] for each in graph().of("CustomResourceDefinition")}
    assert [each for each in owned if "gateway" in each or "inference" in each] == []


def test_on_the_internet_there_is_tls_and_a_key() -> None:
    of = graph("public")
    spec = of.one("Gateway", "qwen-gateway").inputs["spec"]
    assert spec["gatewayClassName"] == "gke-l7-regional-external-managed"
    (listener,) = spec["listeners"]
    assert listener["protocol"] == "HTTPS"
    assert listener["tls"]["options"] == {"networking.gke.io/cert-manager-certs": "mine"}
    assert of.one("Address", "qwen-address").inputs["addressType"] == "EXTERNAL"
    vllm = container(leader(groups(of)["qwen-decode-0"]), "vllm")
    assert "VLLM_API_KEY" in vllm["command"][2]
    assert "exec" in vllm["readinessProbe"]
    health = of.one("HealthCheckPolicy", "qwen-health").inputs["spec"]["default"]["config"]
    assert health["httpHealthCheck"]["requestPath"] == "/version"
    assert of.stack_outputs["endpoints"]["qwen"]["url"] == "https://llm.example.com"


def test_the_proof_that_is_missing_is_said_wherever_somebody_looks() -> None:
    outputs = graph().stack_outputs
    assert outputs["verify"].endswith("--accuracy")
    assert outputs["endpoints"]["qwen"]["needsProof"] is True
    alerts = [each for each in graph().of("AlertPolicy") if "qwen" in each.name]
    assert alerts
    silent = [
        each.name for each in alerts if "--accuracy" not in each.inputs["documentation"]["content"]
    ]
    assert silent == []

"""Where each rule draws its line: what it must still allow, and what it must not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catalog.images import SOURCES
from rules import RULES, facts
from rules.images import loose_reference, registry_path
from rules.pods import below
from rules.secret_text import looks_secret_for
from rules.vllm import flag, ranks
from tests.policies.support import BY_ID, changed, complaints, graph, rule, without, world
from tests.policies.world import ACCELERATOR, DIGEST, REVISION, SHAPE, TOPOLOGY, Record

TABLE = Path(__file__).parents[2] / "simcloud" / "tables" / "gcp-types.json"


class TestTopology:
    @pytest.mark.parametrize(
        ("topology", "generation"),
        [("2x4", facts.V6E), ("16x16", facts.V5E), ("2x2x1", facts.TPU7X), ("4x4x8", facts.TPU7X),
         ("16x24x24", facts.TPU7X), ("8x4x4", facts.V4), ("4x8x8", facts.V5P)],
    )  # fmt: skip
    def test_legal(self, topology: str, generation: facts.Generation) -> None:
        assert facts.topology_fault(topology, generation) is None

    @pytest.mark.parametrize(
        ("topology", "generation", "why"),
        [("3x5", facts.V6E, "is not one of"), ("4x4x4", facts.V6E, "has 3 dimensions"),
         ("4x4", facts.TPU7X, "has 2 dimensions"), ("4x4x5", facts.TPU7X, "multiples of 4"),
         ("8x4x4", facts.TPU7X, "from small to large"),
         ("24x24x24", facts.TPU7X, "needs 216 cubes"), ("0x4", facts.V6E, "is not written like"),
         ("4x4x4x4", facts.TPU7X, "is not written like")],
    )  # fmt: skip
    def test_illegal(self, topology: str, generation: facts.Generation, why: str) -> None:
        assert why in str(facts.topology_fault(topology, generation))

    def test_versions_compare_by_number(self) -> None:
        older, newer = facts.version("1.36.0-gke.999"), facts.version("1.36.0-gke.3712000")
        assert older is not None
        assert newer is not None
        assert older < newer
        assert facts.version("1.36") is None

    @pytest.mark.parametrize(("pods", "prefix"), [(8, 28), (15, 27), (32, 26), (64, 25), (110, 24)])
    def test_a_node_takes_twice_its_pods_rounded_up(self, pods: int, prefix: int) -> None:
        assert facts.pod_range_prefix(pods) == prefix


POOL = "NodePool"


@pytest.mark.parametrize(
    ("rule_id", "name", "path", "value", "kind"),
    [
        # An explicit name is always deleted first, whatever the option says.
        ("TPU-32", "cube-0", "name", "renamed", POOL),
        ("NET-04", "proxies", "description", "proxies log nothing", "Subnetwork"),
        ("TPU-09", "cube-0", "maxPodsPerNode", 15, POOL),
        ("TPU-25", "cube-0", "nodeConfig/reservationAffinity/values", ["my-reservation"], POOL),
        ("TPU-03", "cube-0", "initialNodeCount", 16, POOL),
        ("TPU-16", "main", "maintenancePolicy/maintenanceExclusions",
         [{"startTime": "2020-01-01T00:00:00Z", "exclusionOptions": {
             "scope": "NO_MINOR_OR_NODE_UPGRADES", "endTimeBehavior": "UNTIL_END_OF_SUPPORT"}}],
         "Cluster"),
        ("TPU-15", "main", "maintenancePolicy",
         {"dailyMaintenanceWindow": {"startTime": "03:00"}}, "Cluster"),
        ("NET-12", "nodes", "secondaryIpRanges/0/ipCidrRange", "100.64.0.0/14", ""),
        ("NET-05", "inside", "sourceRanges", ["10.0.0.0/8"], ""),
        ("GKE-02", "main", "controlPlaneEndpointsConfig",
         {"ipEndpointsConfig": {"enabled": False}}, "Cluster"),
        ("STO-07", "weights", "location", "us-central1", ""),
        ("TPU-33", "compile-cache", "labels", {}, "Bucket"),
        ("HELM-01", "kueue", "version", "v0.18.6-rc.1", "Release"),
        ("TPU-10", "net", "mtu", 8896, ""),
    ],
)  # fmt: skip
def test_still_allowed_in_prod(rule_id: str, name: str, path: str, value: Any, kind: str) -> None:
    assert complaints(rule_id, changed(world.prod, name, path, value, kind)) == []


@pytest.mark.parametrize(
    "case",
    [
        ("TPU-03", "cube-0", "nodeCount", 15, POOL, "a 4x4x4 slice has 16 hosts; set 16"),
        ("TPU-25", "cube-0", "nodeConfig/spot", True, POOL, "reservation and spot at once"),
        ("TPU-04", "cube-0", "placementPolicy", {"type": "COMPACT", "tpuTopology": "4x4x4"}, POOL,
         "COMPACT placement of TPU7x ends in ERROR"),
        ("TPU-26", "cube-1", "nodeConfig/reservationAffinity/values",
         ["projects/p/reservations/r/reservationBlocks/other"], POOL, "one block"),
        ("TPU-26", "main", "releaseChannel/channel", "REGULAR", "Cluster", "must be RAPID"),
        ("TPU-28", "cube-0", "nodeLocations", ["us-east5-a"], POOL, "outside the cluster's"),
        ("TPU-36", "main", "minMasterVersion", "1.36.0-gke.2459000", "Cluster",
         "the sub-slice 2x2x1 needs 1.36.0-gke.3712000"),
        ("TPU-24", "nodes", "secondaryIpRanges/0/ipCidrRange", "10.64.0.0/21", "",
         "has 2048 addresses"),
        ("TPU-15", "main", "maintenancePolicy/dailyMaintenanceWindow", {"startTime": "03:00"},
         "Cluster", "has 2 windows"),
        ("TPU-16", "main", "maintenancePolicy/maintenanceExclusions",
         [{"startTime": "2999-01-01T00:00:00Z", "endTime": "2999-08-01T00:00:00Z"}], "Cluster",
         "lasts 212 days: NO_UPGRADES takes at most 90"),
        ("TPU-16", "main", "maintenancePolicy/maintenanceExclusions",
         [{"startTime": "2026-05-18T00:00:00+02:00", "endTime": "2999-06-01T00:00:00+02:00"}],
         "Cluster", "is not UTC with Z"),
        ("NET-07", "inside", "sourceRanges", ["10.0.0.0/8"], "", "no subnet of the stack owns"),
        ("NET-06", "inside", "sourceRanges", ["8.8.8.0/24"], "", "opens port 22"),
        ("TPU-27", "cq", "spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", 129, "",
         "have 128 chips"),
        ("TPU-27", "cq", "spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", 64, "",
         "64 chips of tpu7x can never be used"),
        ("TPU-27", "cq", "spec/resourceGroups/0/flavors/0/resources/1/nominalQuota", "999999Pi", "",
         "no limit at all"),
        ("QUE-03", "slices", "spec/levels", [{"nodeLabel": "kubernetes.io/hostname"}], "Topology",
         "lacks cloud.google.com/gke-tpu-partition-2x2x2-id"),
        ("TPU-07", "decode-0", "spec/leaderWorkerTemplate/size", 2, "", "2x2x1 has 1 hosts; set 1"),
        ("TPU-07", "wide", "metadata/namespace", "1llm", "", "starts with a digit"),
        ("TPU-06", "decode-0", "spec/leaderWorkerTemplate/workerTemplate/spec/nodeSelector",
         {ACCELERATOR: "tpu7x", TOPOLOGY: "2x2x1"}, "", "a label nodes get only once"),
        ("QUE-04", "decode-0", "metadata/labels",
         {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "low"}, "",
         "is not the highest class"),
        ("SRV-03", "pd", "spec/selector/matchLabels", {"app.kubernetes.io/part-of": "tpuserve"},
         "InferencePool", "the workers of wide match"),
        ("SRV-09", "decode-0", "spec/replicas", 4, "", "one object a group"),
        ("TPU-20", "control-plane", "allows", [{"protocol": "tcp", "ports": ["443", "9443"]}], "",
         "port 8082"),
        ("WH-01", "slices", "webhooks",
         [{"name": "x", "failurePolicy": "Fail", "objectSelector": {}}],
         "MutatingWebhookConfiguration", "webhooks[0] refuses objects in every namespace"),
        ("QUE-02", "cq", "spec/admissionChecks", ["slice"], "", "dropped by v1beta2"),
        ("HELM-03", "kueue", "values/image", {"repository": "x/y", "tag": "main"}, "Release",
         "values.image names the image x/y:main: the tag main moves"),
        ("HELM-02", "kueue", "chart", "oci://ghcr.io/someone/chart", "Release", "comes from oci://"),
    ],
)  # fmt: skip
def test_refused_in_prod(case: tuple[str, str, str, Any, str, str]) -> None:
    rule_id, name, path, value, kind, told = case
    texts = complaints(rule_id, changed(world.prod, name, path, value, kind))
    assert any(told in text for text in texts), texts


def test_a_flex_start_pool_is_complete_or_refused() -> None:
    flex = {
        "flexStart": True, "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
    }  # fmt: skip
    whole = world.pool(
        "flex", "ct6e-standard-8t", nodeLocations=["us-central1-b"], nodeConfig=flex,
        management={"autoRepair": False, "autoUpgrade": True},
        autoscaling={"minNodeCount": 0, "maxNodeCount": 2, "locationPolicy": "ANY"},
    )  # fmt: skip
    assert complaints("TPU-25", [whole]) == []
    assert complaints("NP-06", [whole]) == []
    assert complaints("TPU-25", [whole], {"kinds": ["reservation"]}) == [
        "the pool is flex-start: this environment allows reservation"
    ]
    whole["inputs"]["nodeCount"] = 1
    whole["inputs"]["management"]["autoRepair"] = True
    texts = complaints("TPU-25", [whole])
    assert any("starts at 0 nodes" in t for t in texts)
    assert any("autoRepair false" in t for t in texts)


def test_part_of_a_single_host_may_be_taken_but_not_of_a_slice() -> None:
    def pod(accelerator: str, topology: str, chips: int) -> list[Record]:
        inner = world.server(chips, [])
        return [world.deployment("x", world.tpu_spec(accelerator, topology, inner))]

    assert complaints("TPU-05", pod("tpu-v6e-slice", "2x4", 8)) == []
    assert complaints("TPU-05", pod("tpu-v6e-slice", "2x4", 4)) == []
    assert complaints("TPU-05", pod("tpu7x", "2x2x1", 4)) == []
    assert complaints("TPU-05", pod("tpu7x", "2x2x2", 2)) == [
        "spec.template.spec takes 2 chips, its host has 4: take all of them"
    ]


def test_a_deployment_cannot_span_hosts() -> None:
    inner = world.server(4, ["--tensor-parallel-size=16"])
    wide = world.deployment("x", world.tpu_spec("tpu-v6e-slice", "4x4", inner))
    assert complaints("TPU-07", [wide]) == [
        "4x4 has 4 hosts, a Deployment makes single pods: use a LeaderWorkerSet"
    ]


def test_a_group_larger_than_a_cube_is_refused() -> None:
    wide = world.group("wide", "4x4x8", 32)
    assert any("spans cubes" in t for t in complaints("TPU-07", [wide]))


def test_a_group_of_one_has_no_leader_template() -> None:
    lone = world.group("lone", "2x2x1", 1, leader=True)
    assert any("remove leaderTemplate" in t for t in complaints("TPU-07", [lone]))


class TestCommandLine:
    def serve(self, *args: str, chips: int = 4, **more: Any) -> list[str]:
        inner = world.server(chips, list(args), **more)
        spec = world.tpu_spec("tpu7x", None, inner)
        made = world.deployment("x", spec)
        made["inputs"]["spec"]["template"]["metadata"]["annotations"] = {SHAPE: "2x2x1"}
        return complaints("TPU-30", [made, *world.namespace("llm")])

    def test_all_devices_of_two_per_chip_are_used(self) -> None:
        assert self.serve("--tensor-parallel-size=8") == []
        assert self.serve("--tensor-parallel-size", "4", "--data-parallel-size=2") == []
        assert any("has 8 devices" in t for t in self.serve("--tensor-parallel-size=4"))
        assert any("is 1, a 2x2x1" in t for t in self.serve())

    def test_every_image_of_the_program_may_be_used(self) -> None:
        allowed = BY_ID["POD-14"].settings["registries"].default
        names = [registry_path(image) for image in SOURCES]
        assert [each for each in names if not any(below(each, to) for to in allowed)] == []

    def test_a_model_may_be_trusted_by_name(self) -> None:
        inner = world.server(8, ["--tensor-parallel-size=8", "--trust-remote-code"])
        made = world.deployment("x", world.tpu_spec("tpu-v6e-slice", "2x4", inner))
        records = [made, *world.namespace("llm")]
        assert any("--trust-remote-code" in t for t in complaints("TPU-30", records))
        assert complaints("TPU-30", records, {"trustedModels": ["Qwen/Qwen3-32B"]}) == []

    def test_a_model_of_the_hub_is_pinned_and_one_of_a_bucket_is_not(self) -> None:
        def model(words: list[str]) -> list[str]:
            inner = world.server(8, [])
            inner["args"] = [*words, "--max-model-len=1", "--tensor-parallel-size=8"]
            made = world.deployment("x", world.tpu_spec("tpu-v6e-slice", "2x4", inner))
            return complaints("TPU-30", [made, *world.namespace("llm")])

        assert any("--revision" in t for t in model(["serve", "Qwen/Qwen3-32B"]))
        assert any("--revision" in t for t in model(["serve", "Qwen/Qwen3-32B", "--revision=main"]))
        assert model(["serve", "Qwen/Qwen3-32B", "--revision", REVISION]) == []
        assert model(["serve", "gs://weights/qwen"]) == []

    def test_flags_are_found_in_a_shell_script_too(self) -> None:
        script = "set -e\nexec vllm serve m --tensor-parallel-size=2 --pipeline-parallel-size 4"
        made = world.deployment("x", world.pod_spec({"command": ["sh", "-c"], "args": [script]}))
        (inner,) = rule("POD-13").on.pick(graph([made])[0])
        assert flag(inner, "tensor-parallel-size") == "2"
        assert flag(inner, "parallel-size") is None
        assert ranks(inner) == 8

    def test_an_open_server_needs_a_network_policy(self) -> None:
        made = world.deployment(
            "x",
            world.tpu_spec("tpu-v6e-slice", "2x4", world.server(8, ["--tensor-parallel-size=8"])),
        )
        assert any("no NetworkPolicy guards it" in t for t in complaints("TPU-30", [made]))


class TestImages:
    @pytest.mark.parametrize(
        "image",
        ["vllm/vllm-tpu:v0.32.0", "registry.k8s.io/x:1.2.3", "x:latest" + DIGEST, "x:0.8.0-196"],
    )
    def test_exact(self, image: str) -> None:
        assert loose_reference(image) is None

    @pytest.mark.parametrize(
        "image",
        ["vllm/vllm-tpu", "x:latest", "x:nightly-20260430-18ed615", "x:main", "x:v0", "x:0.17",
         "x:1", "x:chart-dev", "localhost:5000/x"],
    )  # fmt: skip
    def test_moving(self, image: str) -> None:
        assert loose_reference(image)

    @pytest.mark.parametrize(
        ("image", "path"),
        [("vllm/vllm-tpu:v1" + DIGEST, "docker.io/vllm/vllm-tpu"),
         ("busybox", "docker.io/library/busybox"), ("localhost:5000/a:b", "localhost:5000/a"),
         ("ghcr.io/llm-d/x:v0.10.0", "ghcr.io/llm-d/x")],
    )  # fmt: skip
    def test_the_registry_is_spelled_out(self, image: str, path: str) -> None:
        assert registry_path(image) == path


class TestCode:
    def told(self, script: str) -> list[str]:
        inner = world.container("x", "registry.k8s.io/x:1.0.0", command=["sh", "-c"], args=[script])
        return complaints("TPU-12", [world.deployment("x", world.pod_spec(inner))])

    @pytest.mark.parametrize(
        "script",
        ["pip install vllm==0.32.0", "pip install --require-hashes -r r.txt", "curl -sf http://x/health",
         f"git clone https://x/y && cd y && git checkout {REVISION}", "python -c 'print(1)'"],
    )  # fmt: skip
    def test_pinned(self, script: str) -> None:
        assert self.told(script) == []

    @pytest.mark.parametrize(
        "script",
        ["pip install vllm", "pip install --pre vllm==1.0", "curl -L https://x | bash",
         "wget -qO- https://x | sudo sh", "kubectl apply -f https://x/y.yaml",
         "git clone https://x/y && cd y && make"],
    )  # fmt: skip
    def test_moving(self, script: str) -> None:
        assert self.told(script) != []

    @pytest.mark.parametrize(
        ("url", "fine"),
        [("https://github.com/a/b/releases/download/v1.0.0/m.yaml", True),
         (f"https://raw.githubusercontent.com/a/b/{REVISION}/m.yaml", True),
         ("https://raw.githubusercontent.com/a/b/main/m.yaml", False),
         ("https://github.com/a/b/raw/master/m.yaml", False),
         ("https://gist.githubusercontent.com/a/b/raw/m.yaml", False),
         ("manifests/own.yaml", True)],
    )  # fmt: skip
    def test_manifest_addresses(self, url: str, fine: bool) -> None:
        file = world.record("kubernetes:yaml/v2:ConfigFile", "f", {"file": url})
        assert (complaints("TPU-12", [file]) == []) is fine


class TestSecrets:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("ANY", "hf_" + "a" * 34), ("MY_TOKEN", "a1b2c3d4e5f6a7b8c9d0e1f2"),
         ("X", "-----BEGIN RSA PRIVATE KEY-----")],
    )  # fmt: skip
    def test_found(self, name: str, value: str) -> None:
        assert looks_secret_for(name, value)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("MODEL", "Qwen/Qwen3.5-397B-A17B-FP8"), ("HF_TOKEN_PATH", "/etc/secrets/token/hf"),
         ("TOKENIZER", "Qwen3TokenizerFastVersion2"), ("API_KEY", "short")],
    )  # fmt: skip
    def test_not_taken_for_one(self, name: str, value: str) -> None:
        assert not looks_secret_for(name, value)


def test_a_sidecar_needs_no_probe_of_its_own_but_a_model_server_does() -> None:
    model = world.server(8, ["--tensor-parallel-size=8"])
    sidecar = world.container("proxy", "ghcr.io/llm-d/x:v0.10.0")
    del sidecar["readinessProbe"]
    spec = world.tpu_spec("tpu-v6e-slice", "2x4", model, sidecar)
    assert complaints("POD-15", [world.deployment("x", spec)]) == []
    sidecar["readinessProbe"] = model.pop("readinessProbe")
    assert complaints("POD-15", [world.deployment("x", spec)]) == [
        "container vllm: set readinessProbe, or requests reach it while it loads"
    ]


def test_a_default_deny_is_asked_once_for_a_namespace() -> None:
    records = [r for r in world.prod() if not r["name"].endswith("-deny")]
    assert len(complaints("NWP-01", records)) == 1


def test_a_stack_on_a_network_of_others_is_not_asked_for_subnets_or_firewalls() -> None:
    records = [r for r in world.prod() if not r["type"].startswith("gcp:compute/")]
    assert [t for each in ("TPU-19", "TPU-20", "TPU-24") for t in complaints(each, records)] == []


def test_a_stack_without_pools_takes_them_as_given() -> None:
    records = without(world.prod, "NodePool")
    rules = ("TPU-08", "TPU-27", "NP-13", "TPU-17")
    assert [text for each in rules for text in complaints(each, records)] == []


def test_what_needs_an_api_waits_for_it() -> None:
    service, network = world.identity()[0], world.network()[0]
    subnet = world.record("gcp:compute/subnetwork:Subnetwork", "s", {})
    network["dependencies"] = [service["urn"]]
    assert complaints("API-02", [service, network, subnet]) == [
        "it does not depend on the Service compute.googleapis.com: a first `up` may fail"
    ]
    subnet["dependencies"] = [network["urn"]]
    assert complaints("API-02", [service, network, subnet]) == []


def test_every_google_cloud_field_named_here_exists_in_the_provider() -> None:
    """Fields of the sound graphs and of the guards, against the provider's own schema."""
    types = json.loads(TABLE.read_text())["types"]
    wrong = []

    def walk(fields: dict[str, Any], value: Any, place: str) -> None:
        if isinstance(value, list):
            for item in value:
                walk(fields, item, place)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key not in fields:
                    wrong.append(f"{place}.{key}")
                elif "f" in fields[key]:
                    walk(fields[key]["f"], item, f"{place}.{key}")

    for make in world.GRAPHS.values():
        for record in make():
            if record["type"] in types:
                walk(types[record["type"]]["in"], record["inputs"], record["type"])
    for each in RULES:
        for guard in each.guards:
            path = guard.path.split(".") if isinstance(guard.path, str) else list(guard.path)
            tokens = [t for t in types if (guard.on or each.on).matches(t)]
            if tokens and path and isinstance(path[0], str) and not path[0].startswith("@"):
                nested: Any = guard.bad if not callable(guard.bad) else None
                for step in reversed(path):
                    nested = nested if isinstance(step, int) else {step: nested}
                faults: list[list[str]] = []
                for token in tokens:
                    before = len(wrong)
                    walk(types[token]["in"], nested, f"{each.id} {token}")
                    faults.append(wrong[before:])
                    del wrong[before:]
                if all(faults):
                    wrong += faults[0]
    assert wrong == []

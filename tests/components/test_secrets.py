"""The hub's token and the callers' key: where they are, and above all where they are not."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from components.secrets import ACCESSOR
from tests.support.dev import PUBLIC, TOKEN, WITH_TOKEN, container, dev, pod
from tests.support.recorder import Graph

FORMS = (TOKEN, base64.b64encode(TOKEN.encode()).decode(), TOKEN[3:])


def _places(graph: Graph) -> list[str]:
    """Resources whose inputs hold the token in any form."""
    return [
        each.name
        for each in graph.resources
        if any(form in json.dumps(each.inputs, default=str) for form in FORMS)
    ]


def test_the_token_is_an_input_of_its_secret_version_and_of_nothing_else() -> None:
    assert _places(dev(WITH_TOKEN)) == ["hugging-face-version"]


def test_the_token_is_no_output() -> None:
    outputs = json.dumps(dev(WITH_TOKEN).outputs, default=str)
    assert [form for form in FORMS if form in outputs] == []


def test_the_secret_stays_in_the_region_and_the_stager_alone_reads_it() -> None:
    graph = dev(WITH_TOKEN)
    secret = graph.one("Secret", "hugging-face-secret").inputs
    assert secret["secretId"] == "tpuserve-test-hugging-face"
    assert secret["replication"]["userManaged"]["replicas"] == [{"location": "us-central1"}]
    (grant,) = graph.of("SecretIamMember")
    assert grant.inputs["role"] == ACCESSOR
    assert grant.inputs["member"].endswith("/subject/ns/model-store/sa/stager")


def test_an_existing_secret_is_read_and_not_made() -> None:
    graph = dev()
    assert [*graph.of("SecretVersion"), *graph.of("Secret")] == []
    assert graph.one("SecretIamMember").inputs["secretId"] == "hugging-face-token"
    (mounted,) = graph.of("SecretProviderClass")
    resource = "projects/my-project/secrets/hugging-face-token/versions/latest"
    assert f'resourceName: "{resource}"' in mounted.inputs["spec"]["parameters"]["secrets"]


def test_the_job_reads_the_token_from_a_file_of_the_add_on() -> None:
    job = dev().one("Job")
    (volume,) = [each for each in pod(job)["volumes"] if "csi" in each]
    assert volume["csi"] == {
        "driver": "secrets-store-gke.csi.k8s.io",
        "readOnly": True,
        "volumeAttributes": {"secretProviderClass": "hugging-face-token"},
    }
    environment = {each["name"]: each.get("value") for each in container(job, "stage")["env"]}
    assert environment["HUB_TOKEN_FILE"] == "/var/run/hugging-face/value"
    assert "HF_TOKEN" not in environment


def test_servers_see_nothing_of_the_hub() -> None:
    server = dev(WITH_TOKEN).one("Deployment", "llama-server")
    assert [each["name"] for each in pod(server)["volumes"] if "csi" in each] == []
    environment = {each["name"]: each.get("value") for each in container(server, "vllm")["env"]}
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert [name for name in environment if "TOKEN" in name] == []


def test_an_open_model_needs_no_secret() -> None:
    graph = dev({"tpuserve:storage": {}}, model="Qwen/Qwen3-32B")
    kinds = ("Secret", "SecretVersion", "SecretIamMember", "SecretProviderClass")
    assert [each.name for kind in kinds for each in graph.of(kind)] == []
    assert [each for each in pod(graph.one("Job"))["volumes"] if "csi" in each] == []


def test_no_kubernetes_secret_is_made() -> None:
    graph = dev(WITH_TOKEN, PUBLIC)
    assert [each.type for each in graph.resources if each.type == "kubernetes:core/v1:Secret"] == []


class TestApiKey:
    """Callers show a key that the server reads from a file."""

    @pytest.fixture
    def graph(self) -> Graph:
        return dev(PUBLIC)

    def test_the_server_alone_reads_it(self, graph: Graph) -> None:
        grant = graph.one("SecretIamMember", "llama-key-reader").inputs
        assert grant["secretId"] == "llama-key"
        assert grant["member"].endswith("/subject/ns/serving/sa/llama")

    def test_it_stands_in_no_argument_and_no_environment(self, graph: Graph) -> None:
        server = container(graph.one("Deployment", "llama-server"), "vllm")
        assert server["command"][:2] == ["sh", "-c"]
        assert "/var/run/api-key/value" in server["command"][2]
        assert [each for each in server["args"] if "api-key" in each] == []
        assert [each["name"] for each in server["env"] if "KEY" in each["name"]] == []

    def test_probes_show_it_and_liveness_needs_none(self, graph: Graph) -> None:
        server = container(graph.one("Deployment", "llama-server"), "vllm")
        for probe in ("startupProbe", "readinessProbe"):
            assert "httpGet" not in server[probe]
            command = server[probe]["exec"]["command"]
            assert command[:2] == ["python3", "-c"]
            assert "/v1/models" in command[2]
            compile(command[2], probe, "exec")
        assert server["livenessProbe"]["httpGet"]["path"] == "/health"


def _started(folder: Path) -> subprocess.CompletedProcess[str]:
    """The shell of the container, with a `vllm` that says what it was given."""
    vllm = folder / "vllm"
    vllm.write_text('#!/bin/sh\necho "$VLLM_API_KEY|$*"\n')
    vllm.chmod(0o755)
    server = container(dev(PUBLIC).one("Deployment", "llama-server"), "vllm")
    shell = server["command"][2].replace("/var/run/api-key", str(folder))
    return subprocess.run(
        ["sh", "-c", shell, "vllm", *server["args"]],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("kept", ["the-key", "the-key\n", " the-key\r\n"])
def test_the_wrapper_hands_over_key_and_arguments(tmp_path: Path, kept: str) -> None:
    (tmp_path / "value").write_text(kept, newline="")
    assert _started(tmp_path).stdout.startswith("the-key|serve gs://")


@pytest.mark.parametrize("kept", [None, "", "\n", " \t\r\n"])
def test_without_a_key_the_server_does_not_start(tmp_path: Path, kept: str | None) -> None:
    if kept is not None:
        (tmp_path / "value").write_text(kept, newline="")
    done = _started(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is missing or empty" in done.stderr

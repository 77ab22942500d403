"""Finding what a stack serves, and reaching it through kubectl."""

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.verify import Endpoint, app, endpoints_of, read_stack_outputs
from ops.verify.endpoints import EndpointError, Service
from ops.verify.port_forward import PortForward, PortForwardError
from tests.support.openai_server import MODEL, Behaviour, serve

ROOT = Path(__file__).parents[2]
OUTPUTS: dict[str, Any] = {
    "cluster": {"project": "p", "location": "us-east5", "name": "tpuserve-dev"},
    "endpoints": {
        "llama": {
            "url": "http://10.0.0.7",
            "basePath": "/v1",
            "model": MODEL,
            "service": {"namespace": "llm", "name": "llama", "port": 8000},
            "startupSeconds": 5,
            "somethingNewer": True,
        },
        "qwen": {"url": "http://10.0.0.8", "model": "qwen"},
    },
}


def test_the_stack_output_names_address_service_and_cluster() -> None:
    llama, qwen = endpoints_of(OUTPUTS)
    assert str(llama.service) == "llm/llama:8000"
    assert llama.context == "gke_p_us-east5_tpuserve-dev"
    assert llama.wait_seconds == 5
    assert (qwen.name, qwen.service, qwen.model) == ("qwen", None, "qwen")


def test_one_endpoint_can_be_chosen() -> None:
    assert [each.name for each in endpoints_of(OUTPUTS, "qwen")] == ["qwen"]


@pytest.mark.parametrize(
    ("outputs", "only", "words"),
    [
        ({"cluster": {}}, None, "Outputs present: cluster. Run `pulumi up`"),
        ({"endpoints": {}}, None, "nothing is served"),
        (OUTPUTS, "lama", "it has llama, qwen"),
        ({"endpoints": {"a": {"model": "m"}}}, None, "endpoints.a: .*neither url nor service"),
        ({"endpoints": {"a": {"url": "ftp://x"}}}, None, "endpoints.a: .*not of the form"),
        (
            {"endpoints": {"a": "x", "b": {"service": {"namespace": "n", "name": "s"}}}},
            None,
            "endpoints.a.*; endpoints.b.service.port",
        ),
    ],
)
def test_outputs_without_a_usable_endpoint_are_refused(
    outputs: dict[str, object], only: str | None, words: str
) -> None:
    with pytest.raises(EndpointError, match=words):
        endpoints_of(outputs, only)


def test_the_wait_follows_from_the_size_of_a_known_model() -> None:
    small = Endpoint(name="a", url="http://x", model="meta-llama/Llama-3.1-8B")
    large = Endpoint(name="a", url="http://x", model="Qwen/Qwen3.5-397B-A17B-FP8")
    unknown = Endpoint(name="a", url="http://x", model="mine/own")
    assert small.wait_seconds == unknown.wait_seconds == 1800
    assert large.wait_seconds > 3600


def program(folder: Path, name: str, code: str) -> None:
    """Puts a small program on PATH in place of a tool."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(code)}")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_outputs_are_read_without_secrets(path: Path) -> None:
    program(path, "pulumi", "import json, sys; print(json.dumps({'seen': sys.argv[1:]}))")
    assert read_stack_outputs("dev")["seen"] == [
        "stack",
        "output",
        "--json",
        "--non-interactive",
        "--stack",
        "dev",
    ]


def test_what_pulumi_complains_about_is_passed_on(path: Path) -> None:
    program(path, "pulumi", "import sys; sys.exit('error: no stack named dev found')")
    with pytest.raises(EndpointError, match="no stack named dev found"):
        read_stack_outputs("dev")


def test_a_missing_pulumi_is_said_so(path: Path) -> None:
    assert list(path.iterdir()) == []
    with pytest.raises(EndpointError, match="pulumi is not on PATH"):
        read_stack_outputs("dev")


KUBECTL = """
    import json, os, pathlib, sys, time
    here = pathlib.Path(__file__).parent
    calls = here / "calls"
    number = len(calls.read_text().splitlines()) if calls.exists() else 0
    with calls.open("a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\\n")
    (here / "pid").write_text(str(os.getpid()))
    if number < {refusals}:
        sys.exit("error: unable to forward port because pod is not running. Current status=Pending")
    print("Forwarding from 127.0.0.1:{port} -> 8000", flush=True)
    time.sleep({life})
"""


def calls(path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (path / "calls").read_text().splitlines()]


def alive(path: Path) -> bool:
    return Path("/proc", (path / "pid").read_text()).exists()


SERVICE = Service(namespace="llm", name="llama", port=8000)


def test_kubectl_forwards_a_free_local_port_and_is_ended(path: Path) -> None:
    program(path, "kubectl", KUBECTL.format(refusals=0, port=4711, life=60))
    with PortForward(SERVICE, "gke_p") as forward:
        assert forward.url() == "http://127.0.0.1:4711"
        assert forward.url() == "http://127.0.0.1:4711"
        assert alive(path)
    assert not alive(path)
    assert calls(path) == [
        [
            "--context",
            "gke_p",
            "--namespace",
            "llm",
            "port-forward",
            "--address",
            "127.0.0.1",
            "service/llama",
            ":8000",
        ]
    ]


def test_a_dead_tunnel_is_opened_again(path: Path) -> None:
    program(path, "kubectl", KUBECTL.format(refusals=0, port=4711, life=0))
    with PortForward(SERVICE) as forward:
        forward.url()
        assert forward._process is not None
        forward._process.wait(10)
        forward.url()
    assert len(calls(path)) == 2


def test_a_pending_pod_is_an_error_that_passes(path: Path) -> None:
    program(path, "kubectl", KUBECTL.format(refusals=1, port=4711, life=60))
    with PortForward(SERVICE) as forward:
        with pytest.raises(PortForwardError, match="Current status=Pending"):
            forward.url()
        assert forward.url().endswith(":4711")


@pytest.mark.parametrize(
    "complaint",
    ['error: context "gke_p" does not exist', "error: You must be logged in to the server"],
)
def test_a_wrong_context_is_hopeless(path: Path, complaint: str) -> None:
    program(path, "kubectl", f"import sys; sys.exit({complaint!r})")
    with PortForward(SERVICE) as forward, pytest.raises(EndpointError, match="get-credentials"):
        forward.url()


def test_a_stack_is_verified_through_kubectl_while_its_pod_is_still_pending(
    path: Path, tmp_path: Path
) -> None:
    evidence = tmp_path / "evidence.json"
    with serve(Behaviour(loading_seconds=0.5)) as server:
        port = server.url.rpartition(":")[2]
        program(path, "kubectl", KUBECTL.format(refusals=1, port=port, life=60))
        program(path, "pulumi", f"print('''{json.dumps(OUTPUTS)}''')")
        command = ["-s", "dev", "--endpoint", "llama", "--evidence", str(evidence)]
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert not alive(path)
    table = json.loads(evidence.read_text())
    assert table["stack"] == "dev"
    assert table["endpoints"][0]["address"] == "kubectl port-forward llm/llama:8000"
    assert table["endpoints"][0]["model"] == MODEL
    assert {"gke_p_us-east5_tpuserve-dev"} == {call[1] for call in calls(path)}


def test_direct_uses_the_address_of_the_stack(path: Path, tmp_path: Path) -> None:
    with serve() as server:
        llama = {**OUTPUTS["endpoints"]["llama"], "url": server.url}
        program(path, "pulumi", f"print('''{json.dumps({'endpoints': {'llama': llama}})}''')")
        command = ["-s", "dev", "--direct", "--evidence", str(tmp_path / "e.json")]
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert server.url in done.output


def test_a_missing_kubectl_is_reported_as_not_ready(path: Path, tmp_path: Path) -> None:
    assert list(path.iterdir()) == []
    command = ["--service", "llm/llama:8000", "--evidence", str(tmp_path / "e.json")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 3
    assert "kubectl is not on PATH" in done.output


def test_a_cancelled_job_stops_kubectl_and_keeps_the_evidence(path: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence.json"
    with serve(Behaviour(loading_seconds=60)) as server:
        port = server.url.rpartition(":")[2]
        program(path, "kubectl", KUBECTL.format(refusals=0, port=port, life=60))
        code = "from ops.verify import app; app()"
        command = ["--service", "llm/llama:8000", "--evidence", str(evidence)]
        process = subprocess.Popen([sys.executable, "-c", code, *command], cwd=ROOT)
        deadline = time.monotonic() + 30
        while server.requests["/v1/models"] < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.terminate()
        assert process.wait(30) == 130
    assert not alive(path)
    assert json.loads(evidence.read_text())["result"] == "interrupted"

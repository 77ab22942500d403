"""`ops verify` against a real HTTP server: it believes answers, not status codes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ops.verify import Endpoint, Evidence, Options, app, verify
from ops.verify.command import Display
from ops.verify.evidence import Check, Result, Status
from tests.support.openai_server import MODEL, Behaviour, Server, serve

QUICK = Options(timeout=1, wait=5, max_tokens=12)


def run(server: Server, options: Options = QUICK, **fields: object) -> Evidence:
    fields = {"name": "llama", "url": server.url, "model": MODEL, **fields}
    endpoint = Endpoint.model_validate(fields)
    display = Display(Console(quiet=True))
    return verify([endpoint], options=options, reporter=display)


def checks(evidence: Evidence) -> dict[str, Check]:
    return {check.name: check for check in evidence.endpoints[0].checks}


def statuses(evidence: Evidence) -> dict[str, Status]:
    return {name: check.status for name, check in checks(evidence).items()}


def test_a_healthy_server_passes_every_check() -> None:
    with serve() as server:
        evidence = run(server)
    assert list(statuses(evidence)) == [
        "ready",
        "model",
        "completion",
        "chat",
        "streaming",
        "metrics",
    ]
    assert set(statuses(evidence).values()) == {Status.PASSED}
    assert evidence.result is Result.PASSED
    model = checks(evidence)["model"].observed
    assert model == {"max_model_len": 4096, "server_version": "0.32.0"}
    # Counted by the server, not by the client: what was claimed was really asked.
    assert server.requests["/v1/completions"] == 2
    assert server.requests["/v1/chat/completions"] == 1
    assert [body.get("stream") for body in server.bodies] == [None, None, True]


@pytest.mark.parametrize("knows", [True, False])
def test_a_stacks_model_must_know_what_it_was_taught(knows: bool) -> None:
    with serve(Behaviour(knows=knows)) as server:
        endpoint = Endpoint(name="llama", url=server.url, model=MODEL)
        evidence = verify(
            [endpoint], options=QUICK, reporter=Display(Console(quiet=True)), stack="dev"
        )
    found = checks(evidence)["accuracy"]
    assert found.status is (Status.PASSED if knows else Status.FAILED)
    assert ("64 of 64 right" if knows else "below 70%") in found.detail
    assert evidence.result is (Result.PASSED if knows else Result.FAILED)


def test_questions_are_asked_of_any_address_on_demand_and_of_a_stack_unless_refused() -> None:
    with serve(Behaviour(knows=False)) as server:
        endpoint = Endpoint(name="llama", url=server.url, model=MODEL)
        asked, spared = (
            verify(
                [endpoint],
                options=replace(QUICK, accuracy=accuracy),
                reporter=Display(Console(quiet=True)),
                stack=stack,
            )
            for accuracy, stack in ((True, None), (False, "dev"))
        )
    assert checks(asked)["accuracy"].status is Status.FAILED
    assert "accuracy" not in checks(spared)


def test_speed_is_measured_from_the_stream() -> None:
    with serve(Behaviour(token_seconds=0.02)) as server:
        seen = checks(run(server))["streaming"].observed
    assert seen["ttft_seconds"] >= 0.02
    assert seen["tokens_per_second"] <= 50
    assert seen["seconds"] >= 12 * 0.02


def test_a_lying_health_path_does_not_count_as_ready() -> None:
    with serve(Behaviour(loading_seconds=0.6, health_lies=True)) as server:
        ready = checks(run(server))["ready"]
    assert ready.status is Status.PASSED
    assert ready.observed["polls"] > 1
    assert ready.observed["health_answered_before_the_model"] is True


def test_a_server_that_never_gets_ready_is_told_apart_from_a_wrong_one() -> None:
    with serve(Behaviour(loading_seconds=60, health_lies=True)) as server:
        evidence = run(server, Options(wait=0.4))
    assert evidence.result is Result.NOT_READY
    assert list(statuses(evidence)) == ["ready"]
    ready = checks(evidence)["ready"]
    assert "503" in ready.detail
    assert "a proxy answers it" in ready.fix


def test_a_closed_port_is_not_ready() -> None:
    with serve() as server:
        address = server.url
    endpoint = Endpoint(name="gone", url=address)
    evidence = verify([endpoint], options=Options(wait=0.3), reporter=Display(Console(quiet=True)))
    assert evidence.result is Result.NOT_READY
    assert "ConnectError" in evidence.endpoints[0].checks[0].detail


def test_a_missing_key_fails_at_once_and_not_at_the_deadline() -> None:
    with serve(Behaviour(api_key="sk-right")) as server:
        evidence = run(server, Options(wait=60))
    ready = checks(evidence)["ready"]
    assert ready.status is Status.FAILED
    assert ready.seconds < 10
    assert "TPUSERVE_API_KEY" in ready.fix
    assert server.requests["/v1/models"] == 1


BASE = "meta-llama/Llama-3.1-70B"


def test_chat_is_skipped_for_a_base_model_of_the_catalogue() -> None:
    with serve(Behaviour(model=BASE, chat_template=False)) as server:
        evidence = run(server, model=BASE)
    chat = checks(evidence)["chat"]
    assert chat.status is Status.SKIPPED
    assert "base model" in chat.detail
    assert server.requests["/v1/chat/completions"] == 0
    assert evidence.result is Result.PASSED


def test_chat_is_skipped_when_an_unknown_model_has_no_template() -> None:
    with serve(Behaviour(model="mine/own", chat_template=False)) as server:
        chat = checks(run(server, model="mine/own"))["chat"]
    assert (chat.status, server.requests["/v1/chat/completions"]) == (Status.SKIPPED, 1)


def test_chat_must_work_when_the_catalogue_says_the_model_has_a_template() -> None:
    with serve(Behaviour(chat_template=False)) as server:
        evidence = run(server)
    assert statuses(evidence)["chat"] is Status.FAILED
    assert "--chat-template" in checks(evidence)["chat"].fix
    assert evidence.result is Result.FAILED


def test_thinking_counts_as_an_answer() -> None:
    with serve(Behaviour(reasoning=True)) as server:
        assert statuses(run(server))["chat"] is Status.PASSED


@pytest.mark.parametrize(
    ("behaviour", "failed", "words"),
    [
        (Behaviour(listed_as="/data"), "model", "not meta-llama"),
        (Behaviour(answers_as="gs://bucket/x"), "completion", "gs://bucket/x"),
        (Behaviour(text=""), "completion", "no text"),
        (Behaviour(text=" \n"), "completion", "no text"),
        (Behaviour(text="!"), "completion", "one character repeated"),
        (Behaviour(text="\ufffd"), "completion", "not readable"),
        (Behaviour(object="chat"), "completion", "not a 'text_completion'"),
        (Behaviour(finish_reason="error"), "completion", "finish_reason is 'error'"),
        (Behaviour(completion_status=500), "completion", "the engine is dead"),
        (Behaviour(completion_status=503), "completion", "503"),
        (Behaviour(not_json=True), "completion", "without JSON"),
        (
            Behaviour(usage={"prompt_tokens": 3, "completion_tokens": 12, "total_tokens": 20}),
            "completion",
            "3 + 12 = 20",
        ),
        (
            Behaviour(usage={"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}),
            "completion",
            "length after 5 of 12",
        ),
        (
            Behaviour(usage={"prompt_tokens": 3, "completion_tokens": 13, "total_tokens": 16}),
            "completion",
            "max_tokens 12",
        ),
        (Behaviour(stream="no done"), "streaming", "without [DONE]"),
        (Behaviour(stream="after done"), "streaming", "after [DONE]"),
        (Behaviour(stream="not json"), "streaming", "half an event"),
        (Behaviour(stream="error event"), "streaming", "EngineCore died"),
        (Behaviour(stream="wrong model"), "streaming", "someone/else"),
        (Behaviour(stream="no usage"), "streaming", "no usage"),
        (Behaviour(stream="hanging"), "streaming", "no answer in 1 s"),
        (Behaviour(stream="dribbling"), "streaming", "not finished after 1 s"),
        (Behaviour(stream="no content type"), "streaming", "text/plain"),
        (
            Behaviour(metrics="vllm:gpu_cache_usage_perc 0\nvllm:num_requests_waiting 0\n"),
            "metrics",
            "vllm:kv_cache_usage_perc",
        ),
    ],
)
def test_a_wrong_answer_fails_its_check(behaviour: Behaviour, failed: str, words: str) -> None:
    with serve(behaviour) as server:
        evidence = run(server)
    check = checks(evidence)[failed]
    assert check.status is Status.FAILED
    assert words in check.detail
    assert evidence.result is Result.FAILED


def test_one_failed_check_does_not_hide_the_next() -> None:
    with serve(Behaviour(stream="no done", metrics="vllm:other 1\n")) as server:
        found = statuses(run(server))
    assert (found["completion"], found["streaming"], found["metrics"]) == (
        Status.PASSED,
        Status.FAILED,
        Status.FAILED,
    )


def test_metrics_behind_a_gateway_are_skipped() -> None:
    with serve(Behaviour(metrics=None)) as server:
        assert statuses(run(server))["metrics"] is Status.SKIPPED


def test_the_completion_must_contain_what_is_expected() -> None:
    with serve() as server:
        wanted = run(server, Options(wait=5, max_tokens=12, expect="FOG and bridges"))
        missing = run(server, Options(wait=5, max_tokens=12, expect="Paris"))
    assert statuses(wanted)["completion"] is Status.PASSED
    assert "does not contain 'Paris'" in checks(missing)["completion"].detail


def test_the_only_model_is_taken_when_none_is_named() -> None:
    with serve(Behaviour(model="mine/own")) as server:
        evidence = run(server, model=None)
    assert evidence.endpoints[0].model == "mine/own"
    assert evidence.result is Result.PASSED


@pytest.mark.parametrize(
    ("behaviour", "code", "result"),
    [
        (Behaviour(), 0, "passed"),
        (Behaviour(text=""), 1, "failed"),
        (Behaviour(loading_seconds=60), 3, "not ready"),
    ],
)
def test_the_exit_code_and_the_evidence_agree(
    behaviour: Behaviour, code: int, result: str, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "evidence.json"
    with serve(behaviour) as server:
        command = ["--url", f"{server.url}/v1/", "--wait", "0.5", "--evidence", str(path)]
        done = CliRunner().invoke(app, command)
    assert done.exit_code == code, done.output
    table = json.loads(path.read_text())
    assert table["result"] == result
    assert table["endpoints"][0]["address"] == server.url
    assert table["endpoints"][0]["checks"][0]["name"] == "ready"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], "exactly one of"),
        (["--url", "http://127.0.0.1:1", "--stack", "dev"], "exactly one of"),
        (["--url", "127.0.0.1:8000"], "not of the form"),
        (["--url", "http://127.0.0.1:1?token=a"], "not of the form"),
        (["--service", "vllm:8000"], "namespace/name:port"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_to_do(command: list[str], words: str) -> None:
    done = CliRunner().invoke(app, command, env={"COLUMNS": "500"})
    assert done.exit_code == 2
    assert words in done.output


SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize("echo", [False, True])
def test_the_api_key_is_used_and_never_written(echo: bool, tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    with serve(Behaviour(api_key=SECRET, echo_authorization=echo)) as server:
        command = ["--url", server.url, "--wait", "2", "--evidence", str(path)]
        done = CliRunner().invoke(app, command, env={"TPUSERVE_API_KEY": SECRET})
    assert done.exit_code == (1 if echo else 0)
    for text in (done.output, path.read_text()):
        # The echo stands where messages are cut, so a part of the key would betray it too.
        assert SECRET[:8] not in text
    assert ("***" in path.read_text()) is echo


def test_a_password_in_the_address_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    with serve() as server:
        address = server.url.replace("http://", "http://me:hunter22@")
        command = ["--url", address, "--wait", "0.3", "--evidence", str(path)]
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    assert "hunter22" not in done.output + path.read_text()


def test_ctrl_c_keeps_the_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "evidence.json"

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ops.verify.checks.time.sleep", interrupt)
    with serve(Behaviour(loading_seconds=60)) as server:
        done = CliRunner().invoke(app, ["--url", server.url, "--evidence", str(path)])
    assert done.exit_code == 130
    assert json.loads(path.read_text())["result"] == "interrupted"

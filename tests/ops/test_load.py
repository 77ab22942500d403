"""`ops load` against a real HTTP server: what the figures count, and how it ends."""

import asyncio
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.load import Plan, Samples, Target, app, drive, summarise
from ops.load.plan import Prompts, arrivals
from tests.support import tiny_llama
from tests.support.openai_server import MODEL, Behaviour, Server, serve

ROOT = Path(__file__).parents[2]


def run(server: Server, *, stop_after: float | None = None, **changes: object) -> Samples:
    plan = Plan(**{"clients": 4, "seconds": 0.5, "max_tokens": 6, "grace": 2, **changes})
    samples = Samples()

    async def go() -> None:
        stop = asyncio.Event()
        if stop_after is not None:
            asyncio.get_running_loop().call_later(stop_after, stop.set)
        await drive(plan, Target(url=f"{server.url}/v1", model=MODEL), samples, stop)

    asyncio.run(go())
    return samples


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_every_request_of_every_api_is_counted_once(stream: bool, chat: bool) -> None:
    with serve() as server:
        samples = run(server, stream=stream, chat=chat)
    path = "/v1/chat/completions" if chat else "/v1/completions"
    assert samples.completed == server.requests[path] > 10
    assert samples.errors == {}
    assert set(samples.completion_tokens) == {6}
    assert all(tokens > 100 for tokens in samples.prompt_tokens)
    assert {math.isnan(ttft) for ttft in samples.ttft} == {not stream}


def test_all_clients_work_at_the_same_time_and_no_more() -> None:
    with serve(Behaviour(token_seconds=0.01)) as server:
        run(server, clients=7)
    assert server.most_in_flight == 7


def test_the_first_token_is_timed_apart_from_the_whole_answer() -> None:
    with serve(Behaviour(token_seconds=0.02)) as server:
        samples = run(server)
    assert samples.completed
    for ttft, latency in zip(samples.ttft, samples.latency, strict=True):
        assert 0.02 <= ttft < latency
        assert latency >= 6 * 0.02


def test_the_empty_role_event_of_a_chat_is_not_the_first_token() -> None:
    with serve(Behaviour(token_seconds=0.05)) as server:
        samples = run(server, chat=True, clients=1)
    assert all(ttft >= 0.05 for ttft in samples.ttft)


@pytest.mark.parametrize(
    ("behaviour", "stream", "kind"),
    [
        (Behaviour(completion_status=503), True, "http 503"),
        (Behaviour(completion_status=500), False, "http 500"),
        (Behaviour(text=""), True, "empty text"),
        (Behaviour(text=""), False, "empty text"),
        (Behaviour(not_json=True), False, "malformed answer"),
        (Behaviour(not_json=True), True, "stream cut off"),
        (Behaviour(stream="no done"), True, "stream cut off"),
        (Behaviour(stream="error event"), True, "error in stream"),
        (Behaviour(stream="no usage"), True, "no usage in stream"),
        (Behaviour(stream="hanging"), True, "timeout"),
    ],
)
def test_what_is_no_answer_is_counted_as_an_error_of_its_kind(
    behaviour: Behaviour, stream: bool, kind: str
) -> None:
    with serve(behaviour) as server:
        samples = run(server, stream=stream, timeout=0.3, seconds=0.2)
    assert samples.completed == 0
    assert set(samples.errors) == {kind}


def test_a_connection_closed_between_two_requests_is_opened_again() -> None:
    with serve(Behaviour(drops_connections=True)) as server:
        samples = run(server)
    assert samples.errors == {}
    assert samples.completed > 5


def test_a_server_that_closes_every_connection_unanswered_is_an_error() -> None:
    async def go() -> Samples:
        async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        listener = await asyncio.start_server(close, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        target = Target(url=f"http://127.0.0.1:{port}/v1", model=MODEL)
        samples = Samples()
        plan = Plan(clients=1, seconds=0.2)
        await drive(plan, target, samples, asyncio.Event())
        listener.close()
        return samples

    samples = asyncio.run(go())
    assert set(samples.errors) == {"connection lost"}
    assert samples.reconnects == samples.errors["connection lost"]


def test_a_refusing_server_is_not_hammered() -> None:
    with serve(Behaviour(completion_status=503)) as server:
        samples = run(server, clients=1, seconds=1)
    assert 2 <= samples.errors["http 503"] <= 8


def test_a_server_that_is_gone_is_an_error_and_not_a_crash() -> None:
    with serve() as server:
        pass
    samples = run(server, seconds=0.2)
    assert set(samples.errors) == {"no connection"}


def test_a_rate_is_kept_and_late_requests_are_told() -> None:
    with serve() as server:
        kept = run(server, rate=40, seconds=1.5)
    with serve(Behaviour(token_seconds=0.05)) as server:
        slow = run(server, rate=40, seconds=1.5, clients=2)
    # What the schedule has in that time, exactly: arrivals are drawn from the seed.
    due = list(itertools.takewhile(lambda at: at < 1.5, arrivals(Plan(rate=40, seed=0))))
    assert kept.completed == len(due)
    assert slow.late > 0


def test_time_up_lets_requests_finish_within_the_grace() -> None:
    with serve(Behaviour(token_seconds=0.05)) as server:
        samples = run(server, seconds=0.1, grace=5)
    assert (samples.completed, samples.unfinished) == (4, 0)


def test_requests_longer_than_the_grace_are_given_up_and_counted() -> None:
    with serve(Behaviour(stream="hanging")) as server:
        samples = run(server, seconds=0.1, grace=0.2)
    assert (samples.completed, samples.unfinished, samples.errors) == (0, 4, {})


def test_a_stop_ends_at_once() -> None:
    with serve(Behaviour(stream="hanging")) as server:
        began = time.monotonic()
        samples = run(server, seconds=60, stop_after=0.2)
    assert time.monotonic() - began < 30
    assert samples.unfinished == 4


def test_the_seed_fixes_prompts_and_arrivals() -> None:
    def bodies(seed: int) -> list[bytes]:
        prompts = Prompts(Plan(seed=seed, prompt_tokens=(8, 64)), "m")
        return [prompts.next() for _ in range(20)]

    def due(seed: int) -> list[float]:
        return list(itertools.islice(arrivals(Plan(seed=seed, rate=5)), 20))

    assert bodies(1) == bodies(1)
    assert due(1) == due(1)
    assert bodies(1) != bodies(2)
    assert due(1) != due(2)


def test_no_prompt_is_sent_twice_so_that_no_prefix_cache_answers() -> None:
    prompts = Prompts(Plan(prompt_tokens=(4, 32)), "m")
    texts = [json.loads(prompts.next())["prompt"] for _ in range(500)]
    assert len(set(texts)) == 500
    assert {len(text.split()) for text in texts} == {4, 32}
    assert len({text.split()[0] for text in texts}) == 500


def test_a_given_prompt_is_sent_as_it_is() -> None:
    prompts = Prompts(Plan(prompt="Write a story", stream=False, ignore_eos=True), "m")
    assert (
        json.loads(prompts.next())
        == json.loads(prompts.next())
        == {
            "model": "m",
            "prompt": "Write a story",
            "max_tokens": 128,
            "temperature": 0,
            "ignore_eos": True,
        }
    )


def made_up() -> Samples:
    """100 answers a second for 10 s, of 1, 2, ... 10 ms; three tokens each; two failures."""
    samples = Samples()
    for number in range(1000):
        start, length = number / 100, (number % 10 + 1) / 1000
        samples.add(
            start, start + length, first=start + length / 2, prompt_tokens=5, completion_tokens=3
        )
    samples.fail(0.5, "timeout")
    samples.fail(9.5, "http 503")
    return samples


def test_the_figures_follow_from_the_samples() -> None:
    summary = summarise(made_up(), Plan(), 10, cpu_seconds=2)
    assert (summary.completed, summary.failed) == (1000, 2)
    assert summary.requests_per_second == 100
    assert summary.tokens_per_second == 300
    assert summary.errors == {"http 503": 1, "timeout": 1}
    assert summary.latency is not None
    assert summary.latency.mean == pytest.approx(0.0055)
    assert summary.latency.p50 == pytest.approx(0.0055)
    assert (summary.latency.p99, summary.latency.max) == pytest.approx((0.01, 0.01))
    assert summary.ttft is not None
    assert summary.ttft.max == pytest.approx(0.005)
    assert summary.seconds_per_token is not None
    # Half of the latency for the two tokens after the first.
    assert summary.seconds_per_token.max == pytest.approx(0.0025)
    assert summary.client_cpu == 0.2
    assert summary.failure_share == pytest.approx(2 / 1002)
    assert [i.requests_per_second for i in summary.timeline] == pytest.approx([100] * 10, abs=2)
    assert [interval.failures_per_second for interval in summary.timeline] == [1, *[0] * 8, 1]


def test_the_warm_up_is_left_out_of_every_figure() -> None:
    summary = summarise(made_up(), Plan(warmup=5), 10, cpu_seconds=0)
    assert (summary.completed, summary.failed, summary.errors) == (500, 1, {"http 503": 1})
    assert summary.requests_per_second == 100
    assert summary.completion_tokens == 1500
    assert [interval.at for interval in summary.timeline] == [5 + n / 2 for n in range(10)]


def test_a_run_without_an_answer_has_figures_too() -> None:
    summary = summarise(Samples(), Plan(), 10, cpu_seconds=0)
    assert (summary.latency, summary.ttft, summary.failure_share) == (None, None, 1.0)


def test_without_streaming_there_is_no_first_token() -> None:
    samples = Samples()
    samples.add(0, 1, prompt_tokens=1, completion_tokens=5)
    summary = summarise(samples, Plan(stream=False), 1, cpu_seconds=0)
    assert (summary.ttft, summary.seconds_per_token) == (None, None)


def command(server: Server, folder: Path, *more: str) -> list[str]:
    output = str(folder / "load.json")
    return ["--url", server.url, "-n", "4", "--max-tokens", "4", "--output", output, *more]


def test_the_command_writes_results_and_a_picture(tmp_path: Path) -> None:
    with serve() as server:
        more = ("-d", "0.5", "--prompt-tokens", "8,16")
        done = CliRunner().invoke(app, command(server, tmp_path, *more))
    assert done.exit_code == 0, done.output
    table = json.loads((tmp_path / "load.json").read_text())
    assert table["model"] == MODEL
    assert table["completed"] == server.requests["/v1/completions"] > 0
    assert table["plan"]["prompt_tokens"] == [8, 16]
    assert set(table["ttft"]) == {"mean", "p50", "p90", "p95", "p99", "max"}
    assert (tmp_path / "load.png").read_bytes().startswith(b"\x89PNG")
    assert "requests/s" in done.output


def test_too_many_failures_are_a_failed_run(tmp_path: Path) -> None:
    with serve(Behaviour(completion_status=503)) as server:
        done = CliRunner().invoke(app, command(server, tmp_path, "-d", "0.2"))
    assert done.exit_code == 1
    assert "http 503" in done.output
    assert json.loads((tmp_path / "load.json").read_text())["failed"] > 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--prompt-tokens", "12,x"], "positive numbers"),
        (["--rate", "0"], "positive number"),
        (["-d", "5", "--warmup", "5"], "leaves nothing"),
        (["--stack", "dev"], "exactly one of"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_sent(
    more: list[str], words: str, tmp_path: Path
) -> None:
    with serve() as server:
        done = CliRunner().invoke(app, command(server, tmp_path, *more))
    assert done.exit_code == 2
    assert words in done.output
    assert server.requests == {}


def test_a_wrong_model_name_ends_before_the_load(tmp_path: Path) -> None:
    with serve() as server:
        done = CliRunner().invoke(app, command(server, tmp_path, "--model", "other/model"))
    assert done.exit_code == 3
    assert server.requests["/v1/completions"] == 0


def test_the_api_key_is_sent_and_never_written(tmp_path: Path) -> None:
    key = "sk-very-secret-0123456789"
    with serve(Behaviour(api_key=key)) as server:
        done = CliRunner().invoke(
            app, command(server, tmp_path, "-d", "0.2"), env={"TPUSERVE_API_KEY": key}
        )
    assert done.exit_code == 0, done.output
    assert key not in done.output + (tmp_path / "load.json").read_text()


def test_ctrl_c_stops_and_still_writes_the_results(tmp_path: Path) -> None:
    code = "from ops.load import app; app()"
    with serve(Behaviour(token_seconds=0.005)) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *command(server, tmp_path, "-d", "300")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        deadline = time.monotonic() + 30
        while server.requests["/v1/completions"] < 20 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    table = json.loads((tmp_path / "load.json").read_text())
    assert table["interrupted"] is True
    assert table["completed"] > 0
    assert table["seconds"] < 60
    assert (tmp_path / "load.png").exists()
    assert "Traceback" not in output


@pytest.mark.skipif(not tiny_llama.available(), reason=tiny_llama.WHY_NOT)
def test_a_real_engine_takes_the_load(tmp_path: Path) -> None:
    with tiny_llama.serve(tmp_path) as address:
        options = ["--url", address, "-n", "3", "-d", "1", "--max-tokens", "8"]
        output = ["--output", str(tmp_path / "load.json"), "--prompt-tokens", "16"]
        done = CliRunner().invoke(app, [*options, *output])
    assert done.exit_code == 0, done.output
    table = json.loads((tmp_path / "load.json").read_text())
    assert table["model"] == tiny_llama.MODEL
    assert table["completed"] > 3
    assert table["ttft"]["p50"] > 0

"""How much load `ops load` can make, and what it costs.

A server of a few lines, in a process of its own, answers every request at once with fixed bytes, so
that what is measured is the client. Figures: the rate with clients in a closed loop, the CPU at 500
requests a second, and the cost of the same requests without `ops load` around them. `ops verify` is
timed against the same server.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Literal

import aiohttp
import httpx
import uvloop
from rich.console import Console

from benchmarks.figures import Figure
from ops.load import Plan, Samples, Target, summarise
from ops.load.command import measure as run
from ops.load.plan import Prompts

COMMAND = "python -m benchmarks load"
SECONDS = 8.0
RATE = 500
GOAL_SHARE = 0.20
CLIENTS = 16
MODEL = "bench/model"

Library = Literal["aiohttp", "httpx"]
LIBRARIES: tuple[Library, ...] = ("aiohttp", "httpx")

_CHOICE = {"index": 0, "text": " ok then", "logprobs": None, "finish_reason": "length"}
_USAGE = {"prompt_tokens": 128, "completion_tokens": 8, "total_tokens": 136}


async def _serve() -> None:
    """Answers each request of a connection with the bytes its path and body ask for."""

    def response(body: bytes, kind: str) -> bytes:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def answer(kind: str, choice: dict[str, object]) -> dict[str, object]:
        row = {"index": 0, "finish_reason": "length", **choice}
        return {"id": "c", "object": kind, "model": MODEL, "choices": [row], "usage": _USAGE}

    def events(*rows: object) -> bytes:
        return b"".join(b"data: %b\n\n" % json.dumps(row).encode() for row in rows)

    whole = answer("text_completion", {"text": " ok then"})
    said = answer("chat.completion", {"message": {"role": "assistant", "content": " ok"}})
    pieces = [{**whole, "choices": [{**_CHOICE, "finish_reason": None}], "usage": None}] * 7
    stream = response(
        events(*pieces, {**whole, "usage": None}, {**whole, "choices": []}) + b"data: [DONE]\n\n",
        "text/event-stream",
    )
    models = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
    as_json = "application/json"
    canned = {
        b"GET /v1/models": response(json.dumps(models).encode(), as_json),
        b"POST /v1/chat/completions": response(json.dumps(said).encode(), as_json),
        b"POST /v1/completions": response(json.dumps(whole).encode(), as_json),
    }
    missing = response(b"", "text/plain")

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport, self.buffer = transport, b""

        def data_received(self, data: bytes) -> None:
            self.buffer += data
            while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
                head = self.buffer[:end]
                _, found, rest = head.lower().partition(b"content-length:")
                size = int(rest.split(b"\r\n", 1)[0]) if found else 0
                if len(self.buffer) < end + 4 + size:
                    return
                body = self.buffer[end + 4 : end + 4 + size]
                self.buffer = self.buffer[end + 4 + size :]
                streamed = b'"stream": true' in body or b'"stream":true' in body
                path = head.split(b" HTTP/", 1)[0]
                self.transport.write(stream if streamed else canned.get(path, missing))

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.sleep(600)


@contextlib.contextmanager
def trivial_server() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.load"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def tool(url: str, seconds: float, *, stream: bool, rate: float | None) -> dict[str, float]:
    """One run of the load as the command makes it, live table included."""
    plan = Plan(clients=CLIENTS, seconds=seconds, stream=stream, rate=rate, max_tokens=8)
    samples = Samples()
    with Path(os.devnull).open("w") as nowhere:
        console = Console(file=nowhere, force_terminal=True)
        target = Target(url=f"{url}/v1", model=MODEL)
        taken, cpu, _ = uvloop.run(run(plan, target, samples, console))
    summary = summarise(samples, plan, taken, cpu)
    assert summary.failed == 0, summary.errors
    return {
        "requests_per_second": summary.requests_per_second,
        "core_share": summary.client_cpu,
        "cpu_ms_per_request": 1000 * summary.client_cpu / summary.requests_per_second,
    }


def bare(library: Library, url: str, seconds: float) -> dict[str, float]:
    """The same requests from a bare loop around a client library, nothing recorded."""
    prompts = Prompts(Plan(stream=False, max_tokens=8), MODEL)
    path = f"{url}/v1/completions"
    headers = {"Content-Type": "application/json"}
    count = 0

    async def clients(post: Callable[[], Awaitable[object]]) -> None:
        nonlocal count
        end = time.perf_counter() + seconds

        async def one() -> None:
            nonlocal count
            while time.perf_counter() < end:
                await post()
                count += 1

        await asyncio.gather(*(one() for _ in range(CLIENTS)))

    async def with_aiohttp() -> None:
        connector = aiohttp.TCPConnector(limit=CLIENTS)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def post() -> None:
                async with session.post(path, data=prompts.next()) as response:
                    json.loads(await response.read())

            await clients(post)

    async def with_httpx() -> None:
        limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
        async with httpx.AsyncClient(limits=limits, headers=headers, trust_env=False) as client:

            async def post() -> None:
                json.loads((await client.post(path, content=prompts.next())).content)

            await clients(post)

    cpu, began = time.process_time(), time.perf_counter()
    uvloop.run(with_aiohttp() if library == "aiohttp" else with_httpx())
    cpu, taken = time.process_time() - cpu, time.perf_counter() - began
    return {"requests_per_second": count / taken, "cpu_ms_per_request": 1000 * cpu / count}


def verify_seconds(url: str) -> float:
    """`python -m ops verify` from start to exit, interpreter included."""
    code = "from ops.verify import app; app()"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--url", url, "--max-tokens", "8", "--evidence", f"{folder}/verify.json"]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code, *options], check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - began


def measure() -> list[Figure]:
    """Rate and CPU of `ops load`, and the seconds of `ops verify`, on an idle server."""
    with trivial_server() as url:
        tool(url, 1, stream=False, rate=None)  # imports and first connections
        closed = tool(url, SECONDS, stream=False, rate=None)
        paced = tool(url, SECONDS, stream=False, rate=RATE)
        loops = {library: bare(library, url, SECONDS) for library in LIBRARIES}
        verified = verify_seconds(url)
    own = closed["cpu_ms_per_request"] / loops["aiohttp"]["cpu_ms_per_request"] - 1
    httpx_costs = loops["httpx"]["cpu_ms_per_request"] / closed["cpu_ms_per_request"]
    rate = closed["requests_per_second"]
    return [
        Figure(
            what=f"requests a second of `ops load`, {CLIENTS} clients in a closed loop",
            measured=f"{rate:.0f}",
            goal=f"at least {RATE}",
            reached=rate >= RATE,
            command=COMMAND,
        ),
        Figure.at_most(
            f"its share of a core at {RATE}/s", paced["core_share"], GOAL_SHARE, "", COMMAND
        ),
        Figure.reported("its CPU on top of a bare aiohttp loop", f"{own:+.0%}", COMMAND),
        Figure.reported("CPU of a bare httpx loop / of `ops load`", f"{httpx_costs:.1f}", COMMAND),
        Figure.at_most("`ops verify`, with the interpreter's start", verified, 5, "s", COMMAND),
    ]


if __name__ == "__main__":
    asyncio.run(_serve())

"""Prefill, decode, routing sidecar and Gateway on this machine, with the faults of real ones.

Every pod has its own loopback address, so ports are the ones of the manifests. The handshake is the
one of llm-d-router 0.10 (pkg/sidecar/proxy/connector_nixlv2.go): the Gateway names a prefill server
in a header, the sidecar has the prompt read there for one token, and hands what comes back in
`kv_transfer_params` to its own server with the request.
"""

import asyncio
import itertools
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from aiohttp import ClientSession, web

from ops.verify.accuracy import questions

MODEL = "Qwen/Qwen3.5-397B-A17B-FP8"
HEADER = "x-prefiller-host-port"
GATEWAY = "127.0.9.1"
FRONT, ENGINE = 8000, 8200
BLOCK = 16
"""Tokens of a block; here every word is one."""


@dataclass
class Faults:
    """What is wrong; nothing, by default."""

    decode_loads_for_ever: bool = False
    """vLLM never answers, and the sidecar's /health says 200 all the same."""
    no_prefill_header: bool = False
    """The picker sends everything to decode alone."""
    picks_prefill_to_answer: bool = False
    """The picker failed open: a prefill server answers callers."""
    nothing_transferred: bool = False
    """Decode computes every prompt again."""
    wrong_state: bool = False
    """Caches arrive damaged: answers are wrong wherever such a block is read."""
    wrong_everywhere: bool = False
    mixes_callers: bool = False
    """Answers hold another caller's prompt."""
    forgets_long_prompts: bool = False
    worker_in_pool: bool = False
    half_of_requests_fail: bool = False
    """The Gateway sends every second request to an address where nobody listens."""
    answers_the_router_alone: bool = False
    """A decode server that is asked for a whole prompt says 500."""
    hides_metrics: bool = False
    others_tokens: int = 0
    """What others ask of every server between two looks at its counters."""
    cuts_answers: bool = False
    """The Gateway gives up before the end of an answer."""


@dataclass
class Counters:
    prompt: int = 0
    answered: int = 0
    moved: int = 0

    def text(self) -> str:
        return "".join(
            f'vllm:{name}{{engine="0",model_name="{MODEL}"{more}}} {value}.0\n'
            for name, more, value in (
                ("prompt_tokens_total", "", self.prompt),
                ("generation_tokens_total", "", self.answered),
                ("prompt_tokens_by_source_total", ',source="external_kv_transfer"', self.moved),
            )
        )


@dataclass
class PrefixCache:
    """Blocks of prompts by everything up to their end, and whether they arrived damaged."""

    blocks: dict[int, bool] = field(default_factory=dict)

    def cached(self, words: list[str]) -> int:
        """Tokens at the start of a prompt that need not be computed."""
        return BLOCK * sum(1 for _ in itertools.takewhile(self.blocks.__contains__, _keys(words)))

    def damaged(self, words: list[str]) -> bool:
        return any(self.blocks.get(key, False) for key in _keys(words))

    def keep(self, words: list[str], *, damaged: bool) -> None:
        for key in _keys(words):
            self.blocks.setdefault(key, damaged)


def _keys(words: list[str]) -> Iterator[int]:
    key = 0
    for start in range(0, len(words) - BLOCK + 1, BLOCK):
        key = hash((key, *words[start : start + BLOCK]))
        yield key


@dataclass
class Site:
    """Running servers: the addresses of their pods, and what each was asked."""

    faults: Faults
    prefill: list[str]
    decode: list[str]
    counters: dict[str, Counters] = field(default_factory=dict)
    last_prompts: list[str] = field(default_factory=list)
    routed: int = 0
    local_prefill_tokens: int = 0
    """The picker leaves prompts with fewer uncached tokens where they are decoded."""
    caches: dict[str, "PrefixCache"] = field(default_factory=lambda: defaultdict(PrefixCache))

    @property
    def url(self) -> str:
        return f"http://{GATEWAY}:{FRONT}"


def answer(site: Site, prompt: str, limit: int, *, damaged: bool) -> str:
    """What a good model says; a damaged cache makes another one of it."""
    faults = site.faults
    others = [each for each in site.last_prompts if each != prompt]
    site.last_prompts.append(prompt)
    if faults.wrong_everywhere or (damaged and "Q:" in prompt):
        return " violet violet violet"
    if code := re.search(r"Code: ([0-9a-f]{8})\nCopy:$", prompt):
        if faults.mixes_callers and others:
            found = re.findall(r"Code: ([0-9a-f]{8})\nCopy:$", others[-1])
            return f" {found[0] if found else code[1]}"
        return f" {code[1]}"
    if word := re.search(r"The password is (cobalt-\d+)", prompt):
        return " unknown" if faults.forgets_long_prompts else f" {word[1]}."
    last = prompt.rsplit("Q: ", 1)[-1].split("\n", 1)[0]
    for row in questions()[1]:
        if row.text == last:
            return f" {row.answers[0]}"
    words = "Paris a city of light and bridges and many cafes by the river Seine".split()
    return "".join(f" {words[index % len(words)]}" for index in range(limit))


@contextmanager
def serve(
    *,
    prefill: int = 1,
    decode: int = 1,
    faults: Faults | None = None,
    local_prefill_tokens: int = 0,
) -> Iterator[Site]:
    """Runs every server in one thread."""
    site = Site(
        faults=faults or Faults(),
        prefill=[f"127.0.10.{index + 1}" for index in range(prefill)],
        decode=[f"127.0.11.{index + 1}" for index in range(decode)],
        local_prefill_tokens=local_prefill_tokens,
    )
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        runners = []
        async with ClientSession() as client:
            for address in site.prefill:
                runners.append(await _listen(_engine(site, address), address, FRONT))
            for address in site.decode:
                if not site.faults.decode_loads_for_ever:
                    runners.append(await _listen(_engine(site, address), address, ENGINE))
                sidecar = _sidecar(site, address, client)
                runners.append(await _listen(sidecar, address, FRONT))
            runners.append(await _listen(_gateway(site, client), GATEWAY, FRONT))
            started.set()
            await stop.wait()
            for runner in runners:
                await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def _listen(application: web.Application, address: str, port: int) -> web.AppRunner:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, address, port, reuse_address=True).start()
    return runner


def _engine(site: Site, address: str) -> web.Application:
    """vLLM of one role: a producer leaves a cache behind, a consumer fetches it."""
    mine = site.counters.setdefault(address, Counters())
    cache = site.caches[address]
    routes = web.RouteTableDef()

    @routes.get("/health")
    async def health(_: web.Request) -> web.Response:
        return web.Response()

    @routes.get("/v1/models")
    async def models(_: web.Request) -> web.Response:
        row = {"id": MODEL, "object": "model", "max_model_len": 32768}
        return web.json_response({"object": "list", "data": [row]})

    @routes.get("/metrics")
    async def metrics(_: web.Request) -> web.Response:
        if site.faults.hides_metrics:
            raise web.HTTPNotFound
        mine.prompt += site.faults.others_tokens
        mine.answered += site.faults.others_tokens
        mine.moved += site.faults.others_tokens
        return web.Response(text=mine.text())

    @routes.post("/v1/completions")
    @routes.post("/v1/chat/completions")
    async def generate(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        chat = request.path.endswith("chat/completions")
        prompt = _prompt(body)
        transfer = body.get("kv_transfer_params") or {}
        given = prompt.split()
        read = len(given)
        fetches = bool(transfer.get("do_remote_prefill")) and not site.faults.nothing_transferred
        if site.faults.answers_the_router_alone and not transfer:
            return web.Response(status=500, text="EngineCore died")
        moved = read - cache.cached(given) if fetches else 0
        mine.prompt += read
        mine.moved += moved
        cache.keep(given, damaged=site.faults.wrong_state and fetches)
        limit = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        # The prefill leg's token does not reach the caller.
        if transfer.get("do_remote_decode"):
            handed = {"do_remote_prefill": True, "remote_host": address, "remote_port": 9100}
            return web.json_response(
                {**_body(" .", read, 1, chat=chat), "kv_transfer_params": handed}
            )
        text = answer(site, prompt, limit, damaged=cache.damaged(given))
        words = text.split()[:limit]
        text = "".join(f" {each}" for each in words)
        mine.answered += len(words)
        if body.get("stream"):
            return await _stream(request, words, read, chat=chat)
        await asyncio.sleep(0.002)
        finish = "length" if len(words) == limit else "stop"
        return web.json_response(_body(text, read, len(words), chat=chat, finish=finish))

    application = web.Application(client_max_size=2**24)
    application.add_routes(routes)
    return application


def _sidecar(site: Site, address: str, client: ClientSession) -> web.Application:
    """Answers /health by itself, always; everything else is vLLM's."""
    own = f"http://{address}:{ENGINE}"

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path == "/health":
            return web.Response()
        data = await request.read()
        reader = request.headers.get(HEADER)
        if request.method == "POST" and reader:
            if reader.split(":")[0] not in site.prefill:
                return web.Response(status=403, text="not in the pool")
            body = json.loads(data)
            first = {
                **body,
                "max_tokens": 1,
                "stream": False,
                "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False},
            }
            first.pop("stream_options", None)
            async with client.post(f"http://{reader}{request.path}", json=first) as done:
                if done.status != 200:
                    return web.Response(status=done.status, body=await done.read())
                handed = (await done.json())["kv_transfer_params"]
            data = json.dumps({**body, "kv_transfer_params": handed}).encode()
        return await _forward(request, client, own, data)

    application = web.Application(client_max_size=2**24)
    application.router.add_route("*", "/{tail:.*}", handle)
    return application


def _gateway(site: Site, client: ClientSession) -> web.Application:
    """Load balancer and picker: a decode server for each request, and a prefill one beside it."""

    async def handle(request: web.Request) -> web.StreamResponse:
        faults, data = site.faults, await request.read()
        site.routed += 1
        turn = site.routed
        if faults.half_of_requests_fail and turn % 2 and request.method == "POST":
            return web.Response(status=503, text="no healthy upstream")
        if faults.cuts_answers and request.method == "POST":
            return web.Response(status=504, text="upstream request timeout")
        decode = site.decode[turn % len(site.decode)]
        headers = {}
        words = _prompt(json.loads(data)).split() if data else []
        uncached = len(words) - site.caches[decode].cached(words)
        if not faults.no_prefill_header and uncached >= site.local_prefill_tokens:
            headers[HEADER] = f"{site.prefill[turn % len(site.prefill)]}:{FRONT}"
        target = f"http://{decode}:{FRONT}"
        if faults.picks_prefill_to_answer:
            target, headers = f"http://{site.prefill[0]}:{FRONT}", {}
        return await _forward(request, client, target, data, headers)

    application = web.Application(client_max_size=2**24)
    application.router.add_route("*", "/{tail:.*}", handle)
    return application


async def _forward(
    request: web.Request,
    client: ClientSession,
    target: str,
    data: bytes,
    headers: dict[str, str] | None = None,
) -> web.StreamResponse:
    try:
        async with client.request(
            request.method,
            f"{target}{request.path_qs}",
            data=data or None,
            headers={"Content-Type": "application/json", **(headers or {})},
        ) as got:
            response = web.StreamResponse(status=got.status)
            response.content_type = got.content_type
            await response.prepare(request)
            async for piece in got.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response
    except OSError:
        return web.Response(status=502, text="connection refused")


def _prompt(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"] if "messages" in body else body["prompt"])


def _body(
    text: str, read: int, wrote: int, *, chat: bool, finish: str = "length"
) -> dict[str, Any]:
    said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return {
        "object": "chat.completion" if chat else "text_completion",
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": finish, **said}],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": wrote,
            "total_tokens": read + wrote,
        },
    }


async def _stream(
    request: web.Request, words: list[str], read: int, *, chat: bool
) -> web.StreamResponse:
    del chat
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)

    async def send(data: dict[str, Any]) -> None:
        await response.write(f"data: {json.dumps({'model': MODEL, **data})}\n\n".encode())

    for index, word in enumerate(words):
        finish = "length" if index == len(words) - 1 else None
        await send({"choices": [{"index": 0, "text": f" {word}", "finish_reason": finish}]})
    usage = {
        "prompt_tokens": read,
        "completion_tokens": len(words),
        "total_tokens": read + len(words),
    }
    await send({"choices": [], "usage": usage})
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def reachable(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False

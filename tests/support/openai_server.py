"""A server that speaks vLLM's HTTP API on this machine, with faults to order."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler

from ops.verify.accuracy import questions

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
WORDS = " city of hills, fog and bridges that many people call home for a while".split(" ")[1:]
NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a "
    "chat template if the tokenizer does not define one."
)
METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 12.0
"""


@dataclass
class Behaviour:
    """What the server does; the defaults are a healthy vLLM."""

    model: str = MODEL
    listed_as: str | None = None
    answers_as: str | None = None
    api_key: str | None = None
    echo_authorization: bool = False
    loading_seconds: float = 0
    health_lies: bool = False
    chat_template: bool = True
    reasoning: bool = False
    text: str | None = None
    knows: bool = True
    """Whether it answers the scored questions; everything else it talks past."""
    usage: dict[str, int] | None = None
    finish_reason: str | None = None
    object: str | None = None
    completion_status: int = 200
    stream: str = "sound"
    """sound, no done, after done, not json, error event, wrong model, no usage, hanging, dribbling,
    no content type."""
    metrics: str | None = METRICS
    token_seconds: float = 0
    not_json: bool = False
    drops_connections: bool = False
    """Closes each connection after one stream, without saying so."""


@dataclass
class Server:
    """A running server: its address, its behaviour, and what was asked of it."""

    url: str
    behaviour: Behaviour
    requests: Counter[str] = field(default_factory=Counter)
    bodies: list[dict[str, object]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0


@contextmanager
def serve(behaviour: Behaviour | None = None) -> Iterator[Server]:
    """Runs the server in a thread, on a free port of 127.0.0.1."""
    server = Server(url="", behaviour=behaviour or Behaviour())
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        runner = web.AppRunner(_application(server), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        server.url = f"http://127.0.0.1:{port}"
        started.set()
        await stop.wait()
        await runner.cleanup()
        # Answers that hang by order are still under way.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()
        loop.close()


def _application(server: Server) -> web.Application:
    behaviour = server.behaviour
    born = time.monotonic()

    def loading() -> bool:
        return time.monotonic() - born < behaviour.loading_seconds

    @web.middleware
    async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
        server.requests[request.path] += 1
        server.in_flight += 1
        server.most_in_flight = max(server.most_in_flight, server.in_flight)
        try:
            if request.path == "/health" and behaviour.health_lies:
                return web.Response()
            if loading():
                return web.Response(status=503, text="no healthy upstream")
            wanted = f"Bearer {behaviour.api_key}"
            given = request.headers.get("Authorization", "")
            if behaviour.api_key and request.path.startswith("/v1") and given != wanted:
                return web.json_response({"error": f"Unauthorized {given}"}, status=401)
            if behaviour.echo_authorization and request.path == "/v1/completions":
                return _error(f"{'x' * 265} rejected header: {given} {given}", 400)
            return await handler(request)
        finally:
            server.in_flight -= 1

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def version(_: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def models(_: web.Request) -> web.Response:
        row = {
            "id": behaviour.listed_as or behaviour.model,
            "object": "model",
            "owned_by": "vllm",
            "max_model_len": 4096,
        }
        return web.json_response({"object": "list", "data": [row]})

    async def metrics(_: web.Request) -> web.Response:
        if behaviour.metrics is None:
            raise web.HTTPNotFound
        return web.Response(text=behaviour.metrics)

    async def generate(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        server.bodies.append(body)
        chat = request.path.endswith("/chat/completions")
        if behaviour.completion_status != 200:
            return _error("the engine is dead", behaviour.completion_status)
        if body.get("model") != behaviour.model:
            return _error(f"The model `{body.get('model')}` does not exist.", 404)
        if chat and not behaviour.chat_template:
            return _error(NO_TEMPLATE, 400)
        if behaviour.not_json:
            return web.Response(text="<html>sign in</html>", content_type="text/html")
        if body.get("stream"):
            return await _stream(request, body, behaviour)
        tokens = _tokens(body, behaviour)
        if behaviour.token_seconds:
            await asyncio.sleep(behaviour.token_seconds * len(tokens))
        return web.json_response(_answer(body, behaviour, tokens, chat=chat))

    application = web.Application(middlewares=[gate])
    application.router.add_get("/health", health)
    application.router.add_get("/version", version)
    application.router.add_get("/v1/models", models)
    application.router.add_get("/metrics", metrics)
    application.router.add_post("/v1/completions", generate)
    application.router.add_post("/v1/chat/completions", generate)
    return application


def _tokens(body: dict[str, object], behaviour: Behaviour) -> list[str]:
    limit = body["max_tokens"]
    assert isinstance(limit, int)
    if behaviour.text is not None:
        return [behaviour.text] * limit
    for row in questions()[1] if behaviour.knows else ():
        if f"Q: {row.text}" in str(body.get("prompt")):
            return [f" {row.answers[0]}"]
    return [f" {WORDS[i % len(WORDS)]}" for i in range(limit)]


def _usage(body: dict[str, object], behaviour: Behaviour, answered: int) -> dict[str, int]:
    prompt = len(str(body.get("prompt") or body.get("messages")).split())
    return behaviour.usage or {
        "prompt_tokens": prompt,
        "completion_tokens": answered,
        "total_tokens": prompt + answered,
    }


def _answer(
    body: dict[str, object], behaviour: Behaviour, tokens: list[str], *, chat: bool
) -> dict[str, object]:
    text = "".join(tokens)
    finish = behaviour.finish_reason or "length"
    choice: dict[str, object] = {"index": 0, "logprobs": None, "finish_reason": finish}
    if chat:
        said = {"content": None, "reasoning": text} if behaviour.reasoning else {"content": text}
        choice["message"] = {"role": "assistant", **said}
    else:
        choice["text"] = text
    kind = "chat.completion" if chat else "text_completion"
    return {
        "id": "cmpl-1",
        "object": behaviour.object or kind,
        "created": 1,
        "model": behaviour.answers_as or behaviour.model,
        "choices": [choice],
        "usage": _usage(body, behaviour, len(tokens)),
    }


async def _stream(
    request: web.Request, body: dict[str, object], behaviour: Behaviour
) -> web.StreamResponse:
    fault = behaviour.stream
    chat = request.path.endswith("/chat/completions")
    kind = "text/plain" if fault == "no content type" else "text/event-stream"
    response = web.StreamResponse(headers={"Content-Type": f"{kind}; charset=utf-8"})
    await response.prepare(request)

    async def send(data: object) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        await response.write(f"data: {text}\n\n".encode())

    def chunk(piece: str, finish: str | None) -> dict[str, object]:
        choice: dict[str, object] = {"index": 0, "finish_reason": finish}
        if chat:
            choice["delta"] = {"content": piece}
        else:
            choice["text"] = piece
        model = "someone/else" if fault == "wrong model" else behaviour.model
        return {"id": "cmpl-1", "model": model, "choices": [choice]}

    tokens = _tokens(body, behaviour)
    if chat:
        role = {"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}
        await send({"id": "cmpl-1", "model": behaviour.model, "choices": [role]})
    for number, token in enumerate(tokens, 1):
        if number == 3 and fault == "hanging":
            await asyncio.sleep(30)
        while number == 3 and fault == "dribbling":
            await response.write(b": ping\n\n")
            await asyncio.sleep(0.05)
        if number == 3 and fault == "not json":
            await send("{half an event")
        if number == 3 and fault == "error event":
            await send({"error": {"message": "EngineCore died", "code": 500}})
        if behaviour.token_seconds:
            await asyncio.sleep(behaviour.token_seconds)
        await send(chunk(token, "length" if number == len(tokens) else None))
    if fault != "no usage":
        usage = _usage(body, behaviour, len(tokens))
        await send({"id": "cmpl-1", "model": behaviour.model, "choices": [], "usage": usage})
    if fault != "no done":
        await send("[DONE]")
    if fault == "after done":
        await send(chunk(" more", None))
    await response.write_eof()
    if behaviour.drops_connections and request.transport:
        request.transport.close()
    return response


def _error(message: str, status: int) -> web.Response:
    error = {"message": message, "type": "BadRequestError", "code": status}
    return web.json_response({"error": error}, status=status)

"""The clients: parallel requests over kept connections, until the time is up or someone stops them.

aiohttp and not httpx: httpx takes about 3 ms of CPU for a request and so stops at 100 to 330 a
second on two cores, aiohttp about 0.2 ms (benchmarks/load.py, 2026-11-30).
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import nan
from typing import Any

import aiohttp

from ops.load.plan import Plan, Prompts, arrivals
from ops.load.samples import Samples

_TAIL = 8192
"""Bytes of a stream kept for its end: the last events, with the usage, are far shorter."""
# vLLM closes a connection idle for 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); one reused just then breaks.
_KEEP_ALIVE_SECONDS = 4
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """The server: API address with its base path, served model, key."""

    url: str
    model: str
    key: str | None = None


class AnswerError(Exception):
    """A request that counts as failed; the message is the kind it is counted under."""


@dataclass
class _Run:
    plan: Plan
    target: Target
    samples: Samples
    prompts: Prompts
    due: Iterator[float]
    clock: Callable[[], float]
    """Seconds since the start."""
    stop: asyncio.Event


async def drive(plan: Plan, target: Target, samples: Samples, stop: asyncio.Event) -> float:
    """Puts the load on the server, filling `samples` meanwhile; returns the seconds it took.

    Setting `stop` ends it at once. Requests under way are then, or after the plan's grace, counted
    as unfinished and cancelled.
    """
    began = time.perf_counter()  # uvloop's own clock counts whole milliseconds
    run = _Run(
        plan=plan,
        target=target,
        samples=samples,
        prompts=Prompts(plan, target.model),
        due=arrivals(plan),
        clock=lambda: time.perf_counter() - began,
        stop=stop,
    )
    clients = {asyncio.ensure_future(_client(run)) for _ in range(plan.clients)}
    stopped = asyncio.ensure_future(stop.wait())
    pending: set[asyncio.Future[Any]] = {*clients, stopped}
    limit = plan.seconds + plan.grace
    while clients & pending and stopped in pending and (left := limit - run.clock()) > 0:
        _, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    for task in {*clients, stopped}:
        task.cancel()
    for outcome in await asyncio.gather(*clients, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
    return run.clock()


async def _client(run: _Run) -> None:
    send = _stream if run.plan.stream else _whole
    url = run.target.url + run.plan.path
    failures = 0
    async with _session(run) as session:
        while await _turn(run):
            started = run.clock()
            try:
                await send(run, session, url, started)
            except asyncio.CancelledError:
                run.samples.unfinished += 1
                raise
            except (AnswerError, aiohttp.ClientError, TimeoutError, OSError) as error:
                run.samples.fail(started, _kind(error))
                failures += 1
                # A server that refuses at once must not be asked thousands of times a second.
                await asyncio.sleep(min(_LONGEST_PAUSE, 0.02 * 2**failures))
            else:
                failures = 0


def _session(run: _Run) -> aiohttp.ClientSession:
    """One client's own: after a kept connection that was closed the next one is new."""
    headers = {"Content-Type": "application/json"}
    if run.target.key:
        headers["Authorization"] = f"Bearer {run.target.key}"
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, keepalive_timeout=_KEEP_ALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=run.plan.timeout),
        headers=headers,
        auto_decompress=False,
    )


async def _turn(run: _Run) -> bool:
    """Waits until the next request is due; false when the time is up."""
    now = run.clock()
    if run.plan.rate is None:
        return now < run.plan.seconds
    due = next(run.due)
    if due >= run.plan.seconds or now >= run.plan.seconds:
        return False
    if due > now:
        await asyncio.sleep(due - now)
    elif now - due > 0.01:
        run.samples.late += 1
    return True


async def _post(run: _Run, session: aiohttp.ClientSession, url: str) -> aiohttp.ClientResponse:
    """Sends a request; again when a kept connection turns out to be closed before any answer.

    A server may close a connection it has answered on at any time, and the client notices only when
    it uses it again (RFC 9112, 9.3.1); llama.cpp does so after every stream.
    """
    body = run.prompts.next()
    try:
        return await session.post(url, data=body)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
        run.samples.reconnects += 1
        return await session.post(url, data=body)


async def _whole(run: _Run, session: aiohttp.ClientSession, url: str, started: float) -> None:
    async with await _post(run, session, url) as response:
        body = await response.read()
        if response.status != 200:
            raise AnswerError(f"http {response.status}")
    try:
        answer = json.loads(body)
        choice = answer["choices"][0]
        text = _said(choice["message"]) if run.plan.chat else choice["text"]
        usage = answer["usage"]
        counts = usage["prompt_tokens"], usage["completion_tokens"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise AnswerError("malformed answer") from None
    if not text:
        raise AnswerError("empty text")
    run.samples.add(started, run.clock(), prompt_tokens=counts[0], completion_tokens=counts[1])


async def _stream(run: _Run, session: aiohttp.ClientSession, url: str, started: float) -> None:
    """Times the first text, then only looks at the end: parsing every event would cost the most."""
    first, head, tail = nan, b"", b""
    async with await _post(run, session, url) as response:
        if response.status != 200:
            await response.read()
            raise AnswerError(f"http {response.status}")
        async for piece in response.content.iter_any():
            if first != first:  # noqa: PLR0124  nan: no text yet
                head += piece
                *events, head = head.split(b"\n\n")
                if any(map(_has_text, events)):
                    first = run.clock()
            tail = (tail + piece)[-_TAIL:]
            if b'data: {"error"' in piece:
                raise AnswerError("error in stream")
    if not tail.rstrip().endswith(b"data: [DONE]"):
        raise AnswerError("stream cut off")
    if first != first:  # noqa: PLR0124  nan: no text at all
        raise AnswerError("empty text")
    counts = _usage(tail)
    run.samples.add(
        started,
        run.clock(),
        first=first,
        prompt_tokens=counts[0],
        completion_tokens=counts[1],
    )


def _has_text(event: bytes) -> bool:
    data = _data(event)
    for choice in (data or {}).get("choices") or ():
        if choice.get("text") or _said(choice.get("delta") or {}):
            return True
    return False


def _usage(tail: bytes) -> tuple[int, int]:
    """Prompt and completion tokens, from the last event that has a count."""
    for event in reversed(tail.split(b"\n\n")):
        usage = (_data(event) or {}).get("usage")
        if usage:
            return usage["prompt_tokens"], usage["completion_tokens"]
    raise AnswerError("no usage in stream")


def _data(event: bytes) -> dict[str, Any] | None:
    if not event.startswith(b"data: {"):
        return None
    try:
        data = json.loads(event[6:])
    except ValueError:
        raise AnswerError("malformed event") from None
    return data if isinstance(data, dict) else None


def _said(message: dict[str, str | None]) -> str:
    keys = ("content", "reasoning", "reasoning_content")
    return "".join(message.get(key) or "" for key in keys)


def _kind(error: Exception) -> str:
    match error:
        case AnswerError():
            return str(error)
        case TimeoutError():
            return "timeout"
        case aiohttp.ClientConnectorError():
            return "no connection"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | OSError():
            return "connection lost"
        case _:
            return type(error).__name__

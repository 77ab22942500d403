"""The checks themselves: each asks one thing of a server and judges the content of its answer."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from catalog import vllm
from ops.verify.api import Api, ApiError, Event, quote

_FINISHED = {"stop", "length"}
_METRIC = re.compile(r"^(vllm:\w+)", re.MULTILINE)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LONGEST_POLL = 5.0


class CheckFailedError(Exception):
    """An answer was not what it must be; `fix` says where to look."""

    def __init__(
        self, message: str, fix: str = "", observed: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.fix = fix
        self.observed = observed or {}


class CheckSkippedError(Exception):
    """The check does not apply here; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A passed check: one sentence for people, observations for the evidence."""

    detail: str
    observed: Mapping[str, Any]


@dataclass(kw_only=True)
class Context:
    """What the checks share. `model` is found by `served_model` when nobody named it."""

    api: Api
    model: str | None
    expects_chat: bool | None
    prompt: str
    expect: str | None
    max_tokens: int


Check = Callable[[Context], Outcome]


def wait_until_ready(
    api: Api, *, seconds: float, on_poll: Callable[[str], None], pause: float = 0.25
) -> Outcome:
    """Polls /v1/models until it answers. Raises CheckFailedError when time is up or access denied.

    /health is no proof: the routing sidecar of a decode pod answers it for itself, long before the
    model is loaded (llm-d-router 0.8 to 0.10, pkg/sidecar/proxy).
    """
    started = time.monotonic()
    polls, deceived = 0, False
    while True:
        polls += 1
        try:
            api.models(timeout=max(0.5, min(5.0, seconds)))
        except ApiError as error:
            problem = str(error)
            if error.status in {401, 403}:
                raise CheckFailedError(problem, error.fix) from None
        except (httpx.HTTPError, OSError) as error:
            problem = describe(error)
        else:
            waited = time.monotonic() - started
            observed = {"polls": polls, "waited_seconds": round(waited, 3)}
            if deceived:
                observed["health_answered_before_the_model"] = True
            return Outcome(detail=f"/v1/models answers after {waited:.1f} s", observed=observed)
        if not deceived:
            deceived = _health_answers(api)
        elapsed = time.monotonic() - started
        if elapsed + pause > seconds:
            msg = f"not ready after {elapsed:.0f} s and {polls} attempts; last: {problem}"
            raise CheckFailedError(msg, _readiness_fix(deceived=deceived))
        on_poll(problem)
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_POLL)


def served_model(context: Context) -> Outcome:
    """The expected model is listed under its served name."""
    context.model, row = only_model(context.api.models(), context.model)
    observed = {"max_model_len": row.get("max_model_len"), "server_version": _version(context.api)}
    return Outcome(detail=f"serves {context.model}", observed=observed)


def only_model(answer: Mapping[str, Any], wanted: str | None) -> tuple[str, Mapping[str, Any]]:
    """The wanted row of /v1/models, or the only one. Raises CheckFailedError."""
    rows = answer.get("data")
    if answer.get("object") != "list" or not isinstance(rows, list) or not rows:
        raise CheckFailedError(f"/v1/models is no list of models: {quote(str(answer))}")
    listed = {str(row.get("id")): row for row in rows if isinstance(row, dict)}
    names = ", ".join(listed)
    if wanted is None:
        if len(listed) != 1:
            raise CheckFailedError(f"the server lists {names}", "say which one with --model")
        wanted = next(iter(listed))
    if wanted not in listed:
        msg = f"the server lists {names}, not {wanted}"
        fix = "--served-model-name and the name clients use must be equal"
        raise CheckFailedError(msg, fix)
    return wanted, listed[wanted]


def completion(context: Context) -> Outcome:
    """A greedy completion has text, a finish reason, the right model and a sound count."""
    started = time.perf_counter()
    answer = context.api.post("/completions", _completion_body(context))
    seconds = time.perf_counter() - started
    choice = _only_choice(answer, "text_completion", context)
    text = _judge_text(choice.get("text"))
    _judge_end(choice.get("finish_reason"), answer.get("usage"), context.max_tokens)
    if context.expect and context.expect.lower() not in text.lower():
        msg = f"the completion of {context.prompt!r} does not contain {context.expect!r}: {text!r}"
        raise CheckFailedError(msg, "wrong weights, tokenizer or numerics")
    return _answered(text, choice, answer["usage"], seconds)


def chat(context: Context) -> Outcome:
    """A chat answer has the same, from the assistant; skipped for a base model."""
    if context.expects_chat is False:
        msg = f"{context.model} is a base model without chat template"
        raise CheckSkippedError(msg)
    body = {
        "model": context.model,
        "messages": [{"role": "user", "content": context.prompt}],
        "max_tokens": context.max_tokens,
        "temperature": 0,
    }
    started = time.perf_counter()
    try:
        answer = context.api.post("/chat/completions", body)
    except ApiError as error:
        if error.status == httpx.codes.BAD_REQUEST and "chat template" in str(error):
            if context.expects_chat is None:
                msg = f"the server has no chat template for {context.model}"
                raise CheckSkippedError(msg) from None
            fix = "serve the instruct variant, or give vLLM --chat-template"
            raise CheckFailedError(str(error), fix) from None
        raise
    seconds = time.perf_counter() - started
    choice = _only_choice(answer, "chat.completion", context)
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("role") != "assistant":
        raise CheckFailedError(f"no message of the assistant: {quote(str(choice))}")
    text = _judge_text(_spoken(message))
    _judge_end(choice.get("finish_reason"), answer.get("usage"), context.max_tokens)
    return _answered(text, choice, answer["usage"], seconds)


def streaming(context: Context) -> Outcome:
    """The same completion as a stream: sound events, one model, text, a finish, [DONE], a count."""
    body = _completion_body(context) | {
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    started = time.perf_counter()
    seen = _Stream(context)
    for event in context.api.stream("/completions", body):
        seen.add(event)
    text = _judge_text("".join(seen.text))
    usage = _judge_end(seen.finish, seen.usage, context.max_tokens)
    first, last = seen.first_at - started, seen.last_at - started
    tokens = usage["completion_tokens"]
    rate = (tokens - 1) / (last - first) if tokens > 1 and last > first else None
    return Outcome(
        detail=f"first token after {first * 1000:.0f} ms"
        + (f", then {rate:.0f} tokens/s" if rate else ""),
        observed={
            "events": seen.events,
            "text": text,
            "usage": usage,
            "ttft_seconds": round(first, 4),
            "seconds": round(last, 4),
            "tokens_per_second": round(rate, 2) if rate else None,
        },
    )


def metrics(context: Context) -> Outcome:
    """The gauges autoscaling reads are published; skipped where /metrics is not reachable."""
    answer = context.api.get("/metrics")
    names = set(_METRIC.findall(answer.text)) if answer.status_code == httpx.codes.OK else set()
    if not names:
        msg = f"/metrics answered {answer.status_code} without metrics of vLLM"
        raise CheckSkippedError(msg)
    missing = [name for name in vllm.AUTOSCALING_METRICS if name not in names]
    if missing:
        old = [reason for name, reason in vllm.RETIRED_METRICS.items() if name in names]
        msg = f"not published: {', '.join(missing)}"
        fix = f"the server is older than {vllm.release().vllm}: {old[0]}" if old else ""
        raise CheckFailedError(msg, fix or f"expected of vLLM {vllm.release().vllm}")
    return Outcome(
        detail=f"{len(names)} metrics, those of autoscaling among them",
        observed={"metrics": len(names)},
    )


CHECKS: dict[str, Check] = {
    "model": served_model,
    "completion": completion,
    "chat": chat,
    "streaming": streaming,
    "metrics": metrics,
}
"""In this order, after the server is ready."""


class _Stream:
    """What the events of one stream have said so far."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.text: list[str] = []
        self.finish: str | None = None
        self.usage: object = None
        self.events = 0
        self.first_at = self.last_at = 0.0

    def add(self, event: Event) -> None:
        self.events += 1
        data = event.data
        if data.get("model") != self._context.model:
            msg = f"event {self.events} is of model {data.get('model')!r}"
            raise CheckFailedError(msg, f"expected {self._context.model!r}")
        # With include_usage the last event carries the count and may have no choice.
        self.usage = data.get("usage") or self.usage
        for choice in data.get("choices") or []:
            if self.finish and choice.get("text"):
                raise CheckFailedError("text came after the finish reason")
            if choice.get("text"):
                self.text.append(choice["text"])
                self.last_at = event.at
                self.first_at = self.first_at or event.at
            self.finish = choice.get("finish_reason") or self.finish


def text_of(answer: Mapping[str, object]) -> str:
    """What a completion says. Raises CheckFailedError where it has no choice."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise CheckFailedError(f"the answer has no choice: {quote(str(answer))}")
    return str(choices[0].get("text") or "")


def prompt_tokens(answer: Mapping[str, object]) -> int:
    """How long the server found the prompt. Raises CheckFailedError where it does not say."""
    usage = answer.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if not isinstance(tokens, int) or tokens < 1:
        raise CheckFailedError(f"the answer does not count its prompt: {quote(str(answer))}")
    return tokens


def describe(error: Exception) -> str:
    """A transport failure in words; some of httpx's have no text of their own."""
    match error:
        case httpx.TimeoutException():
            return f"no answer in time ({type(error).__name__})"
        case _:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _completion_body(context: Context) -> dict[str, Any]:
    return {
        "model": context.model,
        "prompt": context.prompt,
        "max_tokens": context.max_tokens,
        "temperature": 0,
    }


def _only_choice(answer: dict[str, Any], kind: str, context: Context) -> dict[str, Any]:
    if answer.get("object") != kind:
        raise CheckFailedError(f"the answer is a {answer.get('object')!r}, not a {kind!r}")
    if answer.get("model") != context.model:
        msg = f"the answer is of model {answer.get('model')!r}, asked was {context.model!r}"
        raise CheckFailedError(msg, "two servers share this address, or a router rewrites names")
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise CheckFailedError(f"the answer has not exactly one choice: {quote(str(choices))}")
    return choices[0]


def _spoken(message: dict[str, Any]) -> str:
    # A reasoning parser moves the text of thinking out of content; older builds name it otherwise.
    parts = (message.get(key) for key in ("reasoning", "reasoning_content", "content"))
    return "".join(part for part in parts if isinstance(part, str))


def _judge_text(text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise CheckFailedError(f"the answer has no text: {text!r}", "see the server's log")
    broken = text.count(_REPLACEMENT)
    if broken > len(text) / 2:
        msg = f"the text is not readable: {text!r}"
        raise CheckFailedError(msg, "wrong tokenizer, weights or numerics")
    if len(text.strip()) >= 8 and len(set(text.strip())) == 1:
        msg = f"the text is one character repeated: {text!r}"
        raise CheckFailedError(msg, "logits are NaN or the weights are not loaded")
    return text


def _judge_end(finish: object, usage: object, limit: int) -> dict[str, int]:
    """The usage, when finish reason and counts agree with each other."""
    if finish not in _FINISHED:
        raise CheckFailedError(f"finish_reason is {finish!r}, not one of stop, length")
    keys = ("prompt_tokens", "completion_tokens", "total_tokens")
    if not isinstance(usage, dict) or not all(isinstance(usage.get(key), int) for key in keys):
        raise CheckFailedError(f"the answer has no usage counts: {usage!r}")
    prompt, answered, total = (usage[key] for key in keys)
    if prompt + answered != total or prompt < 1 or not 1 <= answered <= limit:
        msg = f"usage is {prompt} + {answered} = {total} with max_tokens {limit}"
        raise CheckFailedError(msg, "the counts contradict each other")
    if finish == "length" and answered != limit:
        msg = f"finish_reason is length after {answered} of {limit} tokens"
        raise CheckFailedError(msg, "--max-model-len is shorter than prompt and answer")
    return {key: usage[key] for key in keys}


def _answered(text: str, choice: dict[str, Any], usage: dict[str, Any], seconds: float) -> Outcome:
    return Outcome(
        detail=f"{usage['completion_tokens']} tokens in {seconds:.2f} s: {quote(text, 70)}",
        observed={
            "text": text,
            "finish_reason": choice["finish_reason"],
            "usage": usage,
            "seconds": round(seconds, 4),
        },
    )


def _version(api: Api) -> str | None:
    """What the server says it is; vLLM answers /version, others need not."""
    with contextlib.suppress(httpx.HTTPError, OSError, ValueError, AttributeError):
        return str(api.get("/version", timeout=2).json().get("version"))
    return None


def _health_answers(api: Api) -> bool:
    try:
        return api.get("/health", timeout=2).status_code == httpx.codes.OK
    except (httpx.HTTPError, OSError):
        return False


def _readiness_fix(*, deceived: bool) -> str:
    if deceived:
        return (
            "/health answers while the model does not: a proxy answers it. See the log of the vLLM "
            "container itself"
        )
    return (
        "see `kubectl get pods` and the vLLM log: pending pods lack TPUs or quota, a loading model "
        "needs a longer --wait, a private address needs a machine inside the network"
    )

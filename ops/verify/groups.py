"""Checks of a model whose prompts are read and whose answers are written by different servers."""

import re
import secrets
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from ops.verify.accuracy import Score, compare, score
from ops.verify.api import Api, ApiError, quote
from ops.verify.checks import (
    Check,
    CheckFailedError,
    CheckSkippedError,
    Context,
    Outcome,
    describe,
    only_model,
)
from ops.verify.cluster import Cluster, Pod, condition
from ops.verify.endpoints import Endpoint, Groups

ROLES = ("prefill", "decode")
LEADS = "0"

PROMPT_TOKENS = "vllm:prompt_tokens_total"
ANSWER_TOKENS = "vllm:generation_tokens_total"
TRANSFERRED = (
    'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}',
    "vllm:external_prefix_cache_hits_total",
)
"""Tokens whose cache a decode server took from another: either counter tells."""

_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{([^}]*)\})?\s+([-+.\deE]+)\s*$", re.MULTILINE)
_SOURCE = re.compile(r'source="([^"]*)"')

SETTLE_SECONDS = 15.0
PARALLEL = 16
OBEYED = 0.75
"""Share of parallel callers who must find their own word in their answer."""
LONG_TOKENS = 6000
LONG_PIECE = "The harbour log notes wind from the west, two ships in, one ship out. "
LONG_PIECE_TOKENS = 17


@dataclass(kw_only=True)
class Site:
    """The model's groups, as the stack describes them and the cluster shows them."""

    endpoint: Endpoint
    groups: Groups
    cluster: Cluster

    def leaders(self) -> list[Pod]:
        label, _, value = self.groups.member.partition("=")
        return self.cluster.pods(self.groups, {label: value})


def gateway(site: Site) -> Check:
    """The load balancer is there, and its address is the stack's."""

    def check(context: Context) -> Outcome:
        del context
        found = site.cluster.gateway(site.groups)
        programmed, words = condition(found, "Programmed")
        name = f"{site.groups.namespace}/{site.groups.gateway}"
        if not programmed:
            msg = f"Gateway {name} is not programmed: {words}"
            fix = f"kubectl -n {site.groups.namespace} describe gateway {site.groups.gateway}"
            raise CheckFailedError(msg, fix)
        rows = (found.get("status") or {}).get("addresses") or ()
        addresses = [str(each.get("value")) for each in rows if each.get("value")]
        if not addresses:
            msg = f"Gateway {name} has no address"
            raise CheckFailedError(msg, "is there a proxy-only subnet in its network and region?")
        wanted = site.endpoint.address
        if wanted is not None and wanted not in addresses:
            msg = f"Gateway {name} has {', '.join(addresses)}, the stack reserved {wanted}"
            raise CheckFailedError(msg, "pulumi refresh, then pulumi up")
        return Outcome(detail=f"programmed at {addresses[0]}", observed={"addresses": addresses})

    return check


def pool(site: Site) -> Check:
    """The pool is the leaders of every group, and each of them answers for the model itself."""

    def check(context: Context) -> Outcome:
        groups = site.groups
        spec = site.cluster.pool(groups).get("spec") or {}
        selector = (spec.get("selector") or {}).get("matchLabels") or {}
        if not selector:
            raise CheckFailedError(f"InferencePool {groups.pool} selects nothing")
        found = site.cluster.pods(groups, selector)
        workers = [each.name for each in found if each.index != LEADS]
        if workers:
            msg = f"the pool counts workers, which serve no HTTP: {', '.join(workers)}"
            raise CheckFailedError(msg, "only leaders carry the pool's label")
        counts = {role: sum(each.role == role for each in found) for role in ROLES}
        for role, wanted in (("prefill", groups.prefill), ("decode", groups.decode)):
            if counts[role] != wanted:
                msg = f"{counts[role]} {role} servers in the pool, {wanted} in the stack"
                raise CheckFailedError(msg, "python -m ops slices; kubectl get workloads,pods")
        late = [each.name for each in found if not each.ready]
        if late:
            raise CheckFailedError(f"not ready: {', '.join(late)}", "see their logs and events")
        for each in found:
            _answers_itself(context, groups, each)
        return Outcome(
            detail=f"{counts['prefill']} prefill and {counts['decode']} decode leaders, no worker",
            observed={"selector": dict(selector), "pods": [each.name for each in found]},
        )

    return check


def _answers_itself(context: Context, groups: Groups, pod: Pod) -> None:
    """Asks vLLM on its own port, and then what stands before it."""
    own = groups.engine_ports[pod.role or ""]
    front = groups.engine_ports["prefill"]
    for port in dict.fromkeys((own, front)):
        api = context.api.at(f"http://{pod.address}:{port}")
        try:
            only_model(api.models(timeout=10), context.model)
        except (ApiError, httpx.HTTPError, OSError) as error:
            what = str(error) if isinstance(error, ApiError) else describe(error)
            lies = port != own and _healthy(api)
            msg = f"{pod.name}:{port} does not answer for the model: {what}"
            fix = (
                "its /health says yes all the same: a proxy answers that one"
                if lies
                else "see the log of its vLLM container"
            )
            raise CheckFailedError(msg, fix) from None
        finally:
            api.close()


def _healthy(api: Api) -> bool:
    try:
        return api.get("/health", timeout=5).status_code == httpx.codes.OK
    except (httpx.HTTPError, OSError):
        return False


def roles(site: Site) -> Check:
    """One request is read by a prefill server, written by a decode server, its cache moved."""

    def check(context: Context) -> Outcome:
        leaders = site.leaders()
        before = _counters(context, site.groups, leaders)
        words = max(400, 2 * site.groups.local_prefill_tokens)
        marks = " ".join(secrets.token_hex(3) for _ in range(words // 4))
        body = {
            "model": context.model,
            "prompt": f"Ignore these marks: {marks}\nThe capital of France is",
            "max_tokens": 8,
            "temperature": 0,
        }
        context.api.post("/completions", body)
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            moved = _moved(leaders, before, _counters(context, site.groups, leaders))
            missing = _missing(moved)
            if not missing:
                break
            if time.monotonic() > deadline:
                raise CheckFailedError(*missing)
            time.sleep(0.5)
        return Outcome(
            detail=f"{moved['prefill read']:.0f} tokens read by prefill, "
            f"{moved['decode transferred']:.0f} of their cache moved, "
            f"{moved['decode wrote']:.0f} written by decode",
            observed=moved,
        )

    return check


def _missing(moved: Mapping[str, float]) -> tuple[str, str] | None:
    if not moved["prefill read"]:
        return (
            "no prefill server read anything: the request was served by decode alone",
            "see the picker's log and profiles, the header x-prefiller-host-port, and the "
            "sidecar's flags",
        )
    if not moved["decode wrote"]:
        return (
            "no decode server wrote anything: the request ended in a prefill server",
            "the picker failed open, or the role labels are wrong",
        )
    if not moved["decode transferred"]:
        return (
            "both roles worked, but no cache was moved: decode computed the prompt again",
            "see --kv-transfer-config of both roles, and ports 9100 and 9600 between their pods",
        )
    return None


def _counters(
    context: Context, groups: Groups, leaders: Iterable[Pod]
) -> dict[str, dict[str, float]]:
    found = {}
    for pod in leaders:
        port = groups.engine_ports[pod.role or "decode"]
        api = context.api.at(f"http://{pod.address}:{port}")
        try:
            found[pod.name] = samples(api.get("/metrics", timeout=15).text)
        finally:
            api.close()
    return found


def samples(text: str) -> dict[str, float]:
    """Counters by name, summed over engines; a label `source` keeps its values apart."""
    found: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        source = _SOURCE.search(labels)
        keys = [name] if source is None else [f'{name}{{source="{source[1]}"}}']
        for key in keys:
            found[key] = found.get(key, 0.0) + float(value)
    return found


def _moved(
    leaders: Iterable[Pod],
    before: Mapping[str, Mapping[str, float]],
    after: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    def grown(role: str, metric: str) -> float:
        return sum(
            after[pod.name].get(metric, 0.0) - before[pod.name].get(metric, 0.0)
            for pod in leaders
            if pod.role == role
        )

    return {
        "prefill read": grown("prefill", PROMPT_TOKENS),
        "decode wrote": grown("decode", ANSWER_TOKENS),
        "decode transferred": max(grown("decode", each) for each in TRANSFERRED),
    }


def long_prompt(site: Site) -> Check:
    """A word near the start of a long prompt is found again at its end."""

    def check(context: Context) -> Outcome:
        room = min(LONG_TOKENS, site.groups.max_model_len // 2)
        word = f"cobalt-{secrets.randbelow(9000) + 1000}"
        filling = LONG_PIECE * (room // LONG_PIECE_TOKENS)
        prompt = f"The password is {word}.\n{filling}\nQ: What is the password?\nA: The password is"
        body = {"model": context.model, "prompt": prompt, "max_tokens": 16, "temperature": 0}
        answer = context.api.post("/completions", body)
        text = _text(answer)
        tokens = (answer.get("usage") or {}).get("prompt_tokens")
        if word not in text:
            msg = f"after {tokens} tokens {word} was not found again: {quote(text)}"
            raise CheckFailedError(msg, "caches of many blocks arrive incomplete or out of order")
        return Outcome(
            detail=f"found again after {tokens} tokens", observed={"text": text, "tokens": tokens}
        )

    return check


def parallel(site: Site) -> Check:
    """Callers at the same time get their own words back, and nobody else's."""
    del site

    def check(context: Context) -> Outcome:
        codes = [f"{secrets.token_hex(4)}" for _ in range(PARALLEL)]

        def ask(code: str) -> str:
            prompt = f"Copy the code.\nCode: 1a2b3c4d\nCopy: 1a2b3c4d\nCode: {code}\nCopy:"
            body = {"model": context.model, "prompt": prompt, "max_tokens": 24, "temperature": 0}
            return _text(context.api.post("/completions", body))

        with ThreadPoolExecutor(PARALLEL) as callers:
            texts = list(callers.map(ask, codes))
        for mine, text in zip(codes, texts, strict=True):
            leaked = [each for each in codes if each != mine and each in text]
            if leaked:
                msg = f"the answer to {mine} holds {leaked[0]} of another caller: {quote(text)}"
                raise CheckFailedError(
                    msg, "caches of two requests were mixed: take it off traffic"
                )
        obeyed = sum(code in text for code, text in zip(codes, texts, strict=True)) / len(codes)
        if obeyed < OBEYED:
            msg = f"only {obeyed:.0%} of {len(codes)} callers found their own word in the answer"
            raise CheckFailedError(msg, "caches arrive damaged when requests overlap")
        return Outcome(
            detail=f"{len(codes)} at once, nobody saw another's text",
            observed={"callers": len(codes), "own_word": obeyed},
        )

    return check


def accuracy(site: Site, *, wanted: bool) -> Check:
    """Scored questions, through the Gateway and to one decode server alone, must score alike."""

    def check(context: Context) -> Outcome:
        if not wanted:
            raise CheckSkippedError("not asked for: --accuracy")
        routed = score(context.api, context.model or "")
        direct = _direct(context, site)
        problem = compare(routed, direct)
        observed = {
            "questions": routed.asked,
            "routed": routed.as_row(),
            "direct": None if direct is None else direct.as_row(),
        }
        beside = "" if direct is None else f", one server alone {direct.share:.0%}"
        told = f"{routed.right} of {routed.asked} right through the Gateway{beside}"
        if problem is not None:
            raise CheckFailedError(f"{told}: {problem}", "do not send traffic here", observed)
        return Outcome(detail=told, observed=observed)

    return check


def _direct(context: Context, site: Site) -> Score | None:
    """A decode server asked on its own port reads the prompt itself: nothing is moved."""
    decode = [each for each in site.leaders() if each.role == "decode" and each.ready]
    if not decode:
        return None
    api = context.api.at(f"http://{decode[0].address}:{site.groups.engine_ports['decode']}")
    try:
        return score(api, context.model or "")
    except (ApiError, httpx.HTTPError, OSError):
        return None
    finally:
        api.close()


def _text(answer: Mapping[str, object]) -> str:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise CheckFailedError(f"the answer has no choice: {quote(str(answer))}")
    return str(choices[0].get("text") or "")


def before_ready(site: Site) -> dict[str, Check]:
    return {"gateway": gateway(site)}


def after_chat(site: Site, *, prove: bool) -> dict[str, Check]:
    """In this order, once the model has answered at all."""
    return {
        "pool": pool(site),
        "roles": roles(site),
        "long prompt": long_prompt(site),
        "parallel": parallel(site),
        "accuracy": accuracy(site, wanted=prove),
    }

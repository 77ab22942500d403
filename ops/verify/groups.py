"""Checks of a model whose prompts are read and whose answers are written by different servers."""

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
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
    prompt_tokens,
    text_of,
)
from ops.verify.cluster import Cluster, Pod, condition
from ops.verify.endpoints import Endpoint, Groups
from ops.verify.prompts import fresh

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
QUIET_SECONDS = 2.0
MOVED_SHARE = 0.75
"""Of a prompt's tokens: the last one is computed where it is decoded, in older releases the last
block."""
PARALLEL = 16
OBEYED = 0.75
"""Share of parallel callers who must find their own word in their answer."""
LONG_WORDS = 5000


@dataclass(kw_only=True)
class Site:
    """The model's groups, as the stack describes them and the cluster shows them."""

    endpoint: Endpoint
    groups: Groups
    cluster: Cluster
    pods: Api
    """The way to pods; each is asked at its own address."""

    def at(self, pod: Pod, port: int) -> Api:
        return self.pods.at(f"http://{pod.address}:{port}")

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
        strangers = [each.name for each in found if each.role not in ROLES]
        if strangers:
            msg = f"pods of the pool say no role: {', '.join(strangers)}"
            raise CheckFailedError(msg, "the picker takes them for decode servers")
        counts = {role: sum(each.role == role for each in found) for role in ROLES}
        for role, wanted in (("prefill", groups.prefill), ("decode", groups.decode)):
            if counts[role] != wanted:
                msg = f"{counts[role]} {role} servers in the pool, {wanted} in the stack"
                raise CheckFailedError(msg, "python -m ops slices; kubectl get workloads,pods")
        late = [each.name for each in found if not each.ready]
        if late:
            raise CheckFailedError(f"not ready: {', '.join(late)}", "see their logs and events")
        for each in found:
            _answers_itself(context, site, each)
        return Outcome(
            detail=f"{counts['prefill']} prefill and {counts['decode']} decode leaders, no worker",
            observed={"selector": dict(selector), "pods": [each.name for each in found]},
        )

    return check


def _answers_itself(context: Context, site: Site, pod: Pod) -> None:
    """Asks vLLM on its own port, and then what stands before it."""
    ports = site.groups.engine_ports
    own = ports[pod.role or "decode"]
    for port in dict.fromkeys((own, ports["prefill"])):
        api = site.at(pod, port)
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
        earlier = _counters(site, leaders)
        time.sleep(QUIET_SECONDS)
        before = _counters(site, leaders)
        prompt = fresh(site.groups, "The capital of France is")
        body = {"model": context.model, "prompt": prompt, "max_tokens": 8, "temperature": 0}
        asked = prompt_tokens(context.api.post("/completions", body))
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            grown = _growths(leaders, before, _counters(site, leaders))
            missing = _missing(grown, asked)
            if not missing or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        reader = max((each for each in grown if each.role == "prefill"), key=lambda one: one.read)
        writer = max((each for each in grown if each.role == "decode"), key=lambda one: one.moved)
        observed = {
            "prompt tokens": asked,
            "prefill server": reader.pod,
            "prefill read": reader.read,
            "decode server": writer.pod,
            "decode wrote": writer.wrote,
            "decode transferred": writer.moved,
            "background": {
                "seconds": QUIET_SECONDS,
                "servers": [vars(each) for each in _growths(leaders, earlier, before)],
            },
        }
        if missing:
            raise CheckFailedError(*missing, observed)
        return Outcome(
            detail=f"{asked} tokens read by {reader.pod}, {writer.moved:.0f} of their cache moved "
            f"to {writer.pod}, {writer.wrote:.0f} written there",
            observed=observed,
        )

    return check


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Tokens that a server read, wrote, and took from another's cache."""

    pod: str
    role: str
    read: float
    wrote: float
    moved: float


def _missing(grown: Sequence[Growth], asked: int) -> tuple[str, str] | None:
    """What one prefill and one decode server should have done with a prompt, and did not."""
    decode = [each for each in grown if each.role == "decode"]
    if not any(each.read >= asked for each in grown if each.role == "prefill"):
        return (
            f"no prefill server read the {asked} tokens: the request was served by decode alone",
            "see the picker's log and profiles, the header x-prefiller-host-port, and the "
            "sidecar's flags",
        )
    if not any(each.wrote for each in decode):
        return (
            "no decode server wrote anything: the request ended in a prefill server",
            "the picker failed open, or the role labels are wrong",
        )
    if not any(each.wrote and each.moved >= MOVED_SHARE * asked for each in decode):
        most = max(each.moved for each in decode)
        return f"both roles worked, but {_not_moved(most, asked)}", TRANSFER_FIX
    return None


TRANSFER_FIX = "see --kv-transfer-config of both roles, and ports 9100 and 9600 between their pods"


def _not_moved(moved: float, asked: int) -> str:
    return (
        f"the cache of {moved:.0f} of {asked} tokens was moved: decode computed the prompt itself"
    )


Counters = Mapping[str, Mapping[str, float]]
"""By pod and metric."""


def _counters(site: Site, leaders: Sequence[Pod]) -> Counters:
    found = {}
    for pod in leaders:
        api = site.at(pod, site.groups.engine_ports[pod.role or "decode"])
        try:
            answer = api.get("/metrics", timeout=15)
        finally:
            api.close()
        if answer.status_code != httpx.codes.OK:
            msg = f"/metrics of {pod.name} answered {answer.status_code}: nothing can be shown"
            raise CheckFailedError(msg, "see the log of its vLLM container")
        found[pod.name] = samples(answer.text)
    return found


def samples(text: str) -> dict[str, float]:
    """Counters by name, summed over engines; a label `source` keeps its values apart."""
    found: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        source = _SOURCE.search(labels)
        key = name if source is None else f'{name}{{source="{source[1]}"}}'
        found[key] = found.get(key, 0.0) + float(value)
    return found


def _growths(leaders: Sequence[Pod], before: Counters, after: Counters) -> list[Growth]:
    def grown(pod: Pod, metric: str) -> float:
        return after[pod.name].get(metric, 0.0) - before[pod.name].get(metric, 0.0)

    return [
        Growth(
            pod=pod.name,
            role=pod.role or "",
            read=grown(pod, PROMPT_TOKENS),
            wrote=grown(pod, ANSWER_TOKENS),
            moved=max(grown(pod, each) for each in TRANSFERRED),
        )
        for pod in leaders
    ]


class Transfers:
    """What all decode servers took from prefill ones since this was made."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._leaders = [each for each in site.leaders() if each.role == "decode"]
        self._before = _counters(site, self._leaders)

    def cover(self, asked: int) -> float:
        """Tokens moved. Raises CheckFailedError when prompts of so many were not."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            after = _counters(self._site, self._leaders)
            moved = sum(each.moved for each in _growths(self._leaders, self._before, after))
            if moved >= MOVED_SHARE * asked:
                return moved
            if time.monotonic() > deadline:
                raise CheckFailedError(
                    f"nothing is shown: {_not_moved(moved, asked)}",
                    f"router.localPrefillTokens of the stack and of the picker; {TRANSFER_FIX}",
                )
            time.sleep(0.5)


def long_prompt(site: Site) -> Check:
    """A word near the start of a long prompt is found again at its end."""

    def check(context: Context) -> Outcome:
        transfers = Transfers(site)
        word = f"cobalt-{secrets.randbelow(9000) + 1000}"
        prompt = fresh(
            site.groups,
            "Q: What is the password?\nA: The password is",
            start=f"The password is {word}.",
            least=LONG_WORDS,
        )
        body = {"model": context.model, "prompt": prompt, "max_tokens": 16, "temperature": 0}
        answer = context.api.post("/completions", body)
        text, tokens = text_of(answer), prompt_tokens(answer)
        if word not in text:
            msg = f"after {tokens} tokens {word} was not found again: {quote(text)}"
            raise CheckFailedError(msg, "caches of many blocks arrive incomplete or out of order")
        moved = transfers.cover(tokens)
        return Outcome(
            detail=f"found again after {tokens} tokens",
            observed={"text": text, "tokens": tokens, "transferred": moved},
        )

    return check


def parallel(site: Site) -> Check:
    """Callers at the same time get their own words back, and nobody else's."""

    def check(context: Context) -> Outcome:
        transfers = Transfers(site)
        codes = [f"{secrets.token_hex(4)}" for _ in range(PARALLEL)]

        def ask(code: str) -> tuple[str, int]:
            end = f"Copy the code.\nCode: 1a2b3c4d\nCopy: 1a2b3c4d\nCode: {code}\nCopy:"
            prompt = fresh(site.groups, end)
            body = {"model": context.model, "prompt": prompt, "max_tokens": 24, "temperature": 0}
            answer = context.api.post("/completions", body)
            return text_of(answer), prompt_tokens(answer)

        with ThreadPoolExecutor(PARALLEL) as callers:
            texts, tokens = zip(*callers.map(ask, codes), strict=True)
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
        moved = transfers.cover(sum(tokens))
        return Outcome(
            detail=f"{len(codes)} at once, nobody saw another's text",
            observed={"callers": len(codes), "own_word": obeyed, "transferred": moved},
        )

    return check


def accuracy(site: Site, *, wanted: bool) -> Check:
    """Scored questions, through the Gateway and to one decode server alone, must score alike.

    No prompt begins like another one: what one run leaves in a cache, the other cannot read.
    """

    def check(context: Context) -> Outcome:
        if not wanted:
            raise CheckSkippedError("not asked for: --accuracy")

        def ask(api: Api) -> Score:
            return score(api, context.model or "", lambda end: fresh(site.groups, end))

        transfers = Transfers(site)
        routed = ask(context.api)
        moved = transfers.cover(routed.prompt_tokens)
        direct = _alone(site, ask)
        observed = {
            "questions": routed.asked,
            "transferred": moved,
            "routed": routed.as_row(),
            "direct": direct.as_row(),
        }
        told = (
            f"{routed.right} of {routed.asked} right through the Gateway, one server alone "
            f"{direct.share:.0%}"
        )
        if problem := compare(routed, direct):
            raise CheckFailedError(f"{told}: {problem}", "do not send traffic here", observed)
        return Outcome(detail=told, observed=observed)

    return check


def _alone(site: Site, ask: Callable[[Api], Score]) -> Score:
    """A decode server asked on its own port reads the prompt itself: nothing is moved."""
    decode = [each for each in site.leaders() if each.role == "decode" and each.ready]
    if not decode:
        raise CheckFailedError("no decode server is ready to be asked alone", "kubectl get pods")
    api = site.at(decode[0], site.groups.engine_ports["decode"])
    try:
        return ask(api)
    except (ApiError, httpx.HTTPError, OSError) as error:
        what = str(error) if isinstance(error, ApiError) else describe(error)
        msg = f"{decode[0].name}, asked alone for comparison: {what}"
        raise CheckFailedError(msg, "without it no loss can be told") from None
    finally:
        api.close()


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

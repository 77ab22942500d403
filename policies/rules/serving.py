"""Model servers: start-up, the vLLM command line, releases, groups and rollouts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.images import release_of
from rules.kinds import (
    DYNAMIC_LWS,
    MODEL_SERVER,
    NETWORK_POLICY,
    TPU_DEPLOYMENT,
    TPU_LWS,
    Container,
)
from rules.model import DROP, Guard, Resource, Setting, Severity, Stack, rule
from rules.vllm import flag, generation_of, hosts_of, ranks, slice_of

_SERVED = ("Deployment", "StatefulSet", "LeaderWorkerSet")


def _probe_seconds(container: Container, probe: str) -> int:
    node = container.node(probe)
    delay, period = node.number("initialDelaySeconds"), node.number("periodSeconds")
    failures = node.number("failureThreshold")
    return (delay or 0) + (10 if period is None else period) * (3 if failures is None else failures)


def _pod_answers(container: Container) -> bool:
    """Whether a pod of this container takes requests: not a worker of a group."""
    return container.pod.role != "worker" or not container.resource.has(
        "spec.leaderWorkerTemplate.leaderTemplate"
    )


@rule(
    "TPU-21",
    "A model server is given the time to load and to finish.",
    severity=Severity.MEDIUM,
    on=MODEL_SERVER.where("model servers that answer", _pod_answers),
    fix=(
        "startupProbe on /v1/models for the load time, readiness on the same, grace of 60 s or "
        "more."
    ),
    url=links.PROBES,
    settings={"startupMinutes": Setting("integer", 30, "least minutes a model has to load")},
    guards=[
        Guard("startupProbe", DROP, when=lambda c: c.pod.kind in _SERVED),
        Guard("startupProbe.failureThreshold", 3, when=lambda c: c.pod.kind in _SERVED),
        Guard(
            "readinessProbe", {"tcpSocket": {"port": 8000}}, when=lambda c: c.pod.kind in _SERVED
        ),
        Guard("livenessProbe.httpGet.path", "/", when=lambda c: c.has("livenessProbe.httpGet")),
    ],
)
def time_to_load(container: Container, settings: dict[str, Any]) -> Iterator[str]:
    if container.pod.kind not in _SERVED:
        return
    title = container.title
    needed = settings["startupMinutes"] * 60
    if not container.has("startupProbe"):
        yield (
            f"{title}: set startupProbe for at least {needed} s, or liveness kills it while it "
            "loads"
        )
    elif _probe_seconds(container, "startupProbe") < needed:
        yield (
            f"{title}: startupProbe allows {_probe_seconds(container, 'startupProbe')} s, a model "
            f"takes up to {needed}; raise failureThreshold"
        )
    paths = {
        probe: container.text(f"{probe}.httpGet.path")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    for probe, path in paths.items():
        if container.has(probe) and path not in {"/health", "/v1/models"}:
            yield (
                f"{title}: {probe} must ask /health or /v1/models over HTTP, an open port is not "
                "ready"
            )
    grace = container.pod.number("terminationGracePeriodSeconds")
    sleep = container.number("lifecycle.preStop.sleep.seconds") or 0
    if (30 if grace is None else grace) < max(60, sleep):
        yield (
            f"{container.pod.at('terminationGracePeriodSeconds')} is {grace or 'unset (30)'}: "
            f"requests in flight are cut; set at least {max(60, sleep)}"
        )


_MODEL_REVISION = re.compile(r"[0-9a-f]{40}")


@rule(
    "TPU-30",
    "The vLLM command line uses all devices, bounds its context and trusts no remote code.",
    severity=Severity.MEDIUM,
    on=MODEL_SERVER.where("model servers that answer", _pod_answers),
    whole_stack=True,
    fix="Set the parallel sizes, --max-model-len and --revision; avoid --trust-remote-code.",
    url=links.VLLM_SERVE,
    settings={
        "trustedModels": Setting("array", [], "model ids that may run code of their repository"),
    },
    guards=[
        Guard("args", lambda args: [*(args or []), "--trust-remote-code"]),
        Guard("args", lambda args: [*(args or []), "--tensor-parallel-size=3"],
              when=lambda c: hosts_of(c.pod) is not None and "tensor-parallel" not in c.words),
    ],
)  # fmt: skip
def command_line(container: Container, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    title = container.title
    model = flag(container, "model") or _served_model(container)
    if flag(container, "trust-remote-code") is not None and model not in settings["trustedModels"]:
        yield (
            f"{title}: --trust-remote-code runs the model repository's code; list it in "
            "trustedModels"
        )
    if flag(container, "max-model-len") is None:
        yield f"{title}: set --max-model-len, or one long request takes all of the KV cache"
    generation, topology = generation_of(container.pod), slice_of(container.pod)
    if generation is not None and topology is not None:
        devices = facts.chips_of(topology) * generation.devices_per_chip
        if ranks(container) != devices:
            yield (
                f"{title}: tensor x pipeline x data parallel is {ranks(container)}, a {topology} "
                f"slice of {generation.label} has {devices} devices; use all of them"
            )
    from_hub = model and "/" in model and not model.startswith(("gs://", "/", "."))
    revision = flag(container, "revision")
    if from_hub and not _MODEL_REVISION.fullmatch(revision or ""):
        yield f"{title}: --revision is not a 40-digit commit, so the weights may change; pin it"
    guarded = any(
        p.text("metadata.namespace") == container.pod.namespace for p in stack.of(NETWORK_POLICY)
    )
    if not guarded and flag(container, "api-key") is None:
        yield (
            f"{title}: the server asks nobody who they are and no NetworkPolicy guards it; add one"
        )


def _served_model(container: Container) -> str | None:
    found = re.search(r"\bserve\s+([^\s-][^\s]*)", container.words)
    return found[1].strip("'\"") if found else None


@rule(
    "SRV-05",
    "The vLLM release works with what is asked of it.",
    severity=Severity.HIGH,
    on=MODEL_SERVER,
    fix="Use vllm-tpu 0.30 or later with TPUConnectorHMA.",
    url=links.VLLM_SERVE,
    guards=[
        Guard("image", "docker.io/vllm/vllm-tpu:v0.28.0",
              when=lambda c: "TPUConnectorHMA" in c.words),
    ],
)  # fmt: skip
def release_works(container: Container) -> Iterator[str]:
    release = release_of(container.text("image") or "")
    if "TPUConnectorHMA" in container.words and release in facts.HMA_BROKEN:
        yield (
            f"{container.title}: TPUConnectorHMA stops at start in 0.27 to 0.29; use 0.30 or later"
        )


@rule(
    "SRV-06",
    "Prefill and decode run the same engine.",
    severity=Severity.HIGH,
    on=MODEL_SERVER.where("prefill and decode servers", lambda c: "kv_role" in c.words),
    whole_stack=True,
    fix="Give both roles the same tensor-parallel size, block size and image.",
    url=links.VLLM_SERVE,
    guards=[Guard("image", "docker.io/vllm/vllm-tpu:v0.1.0", when=_pod_answers)],
)
def same_engine(container: Container, stack: Stack) -> Iterator[str]:
    if not _pod_answers(container):
        return
    for other in stack.of(MODEL_SERVER):
        paired = (
            other.pod.namespace == container.pod.namespace
            and _served_model(other) == _served_model(container)
            and "kv_role" in other.words
            and _pod_answers(other)
            and ("kv_producer" in other.words) != ("kv_producer" in container.words)
        )
        if not paired:
            continue
        for name in ("tensor-parallel-size", "block-size", "kv-cache-dtype"):
            if flag(other, name) != flag(container, name):
                yield (
                    f"{container.title}: --{name} differs from {other.resource.name}; make them "
                    "equal"
                )
        if other.text("image") != container.text("image"):
            yield f"{container.title}: the image differs from {other.resource.name}; use one digest"


@rule(
    "SRV-07",
    "A group does not wait for itself.",
    severity=Severity.HIGH,
    on=TPU_LWS,
    fix="Use startupPolicy LeaderCreated: the leader is ready only once its workers run.",
    url=links.LWS,
    guards=[Guard("spec.startupPolicy", "LeaderReady")],
)
def no_deadlock(lws: Resource) -> Iterator[str]:
    if lws.text("spec.startupPolicy") == "LeaderReady":
        yield (
            "spec.startupPolicy LeaderReady waits for a leader that waits for its workers: use "
            "LeaderCreated"
        )


@rule(
    "SRV-08",
    "A rollout needs no chips that do not exist.",
    severity=Severity.MEDIUM,
    on=TPU_DEPLOYMENT | TPU_LWS,
    fix="Deployment: Recreate, or maxSurge 0. LeaderWorkerSet: maxSurge 0, maxUnavailable 1.",
    url=links.LWS,
    guards=[
        Guard("spec.strategy", DROP, on=TPU_DEPLOYMENT),
        Guard("spec.strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
              on=TPU_DEPLOYMENT),
        Guard("spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge", 1, on=TPU_LWS),
    ],
)  # fmt: skip
def rollout_fits(workload: Resource) -> Iterator[str]:
    if workload.type.endswith(":Deployment"):
        strategy = workload.node("spec.strategy")
        if strategy.text("type") != "Recreate" and strategy.raw("rollingUpdate.maxSurge") not in (
            0,
            "0%",
        ):
            yield (
                "spec.strategy starts a second pod that finds no TPU node: use Recreate or "
                "maxSurge 0"
            )
        return
    surge = workload.node("spec.rolloutStrategy.rollingUpdateConfiguration").raw("maxSurge")
    if surge not in (None, 0, "0", "0%"):
        yield "rollingUpdateConfiguration.maxSurge needs a spare slice: set 0"


@rule(
    "SRV-09",
    "Each group on a dynamic slice is an object of its own.",
    severity=Severity.MEDIUM,
    on=DYNAMIC_LWS,
    fix=(
        "Use replicas 1 and one LeaderWorkerSet a group; a group scaled away keeps its slice "
        "otherwise."
    ),
    url=links.DYNAMIC_SLICING,
    guards=[Guard("spec.replicas", 2)],
)
def one_group(lws: Resource) -> Iterator[str]:
    if (lws.number("spec.replicas") or 1) > 1:
        yield (
            "spec.replicas is above 1: a group scaled away never frees its slice; one object a "
            "group"
        )


RULES = [
    time_to_load,
    command_line,
    release_works,
    same_engine,
    no_deadlock,
    rollout_fits,
    one_group,
]

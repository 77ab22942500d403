"""Rules on served models: do they fit a host, and are there hosts for them."""

import re
from collections.abc import Iterator

from catalog.accelerators import PLAN_TPUS
from catalog.source import READ, Source, docs
from config.checks.sizes import PATH, SCHEDULER, misfits, step
from config.observability import Observability
from config.problem import Problem, nearest
from config.serving import AUTOSCALING, ServedModel, SingleHost, single_hosts
from config.tpu_pools import DynamicPool, StaticPool, TpuPool

SINGLE_HOST = docs("Serve an LLM using TPU Trillium on GKE with vLLM")
VLLM_SECURITY = Source("vLLM docs, 'Security'", READ)
SPOT = docs("Run fault-tolerant workloads at lower costs in Spot VMs")

LONGEST_KEY = 40
"""Pods append up to 17 characters to a name of at most 63, staging Jobs prefix and suffix 15. The
router's chart cuts its own names here and not the pool's (llm-d-router v0.10.0, config/charts)."""

RESERVED_NAMESPACES = re.compile(
    r"default|model-store|custom-metrics|(kube|gke|gmp|config|asm|istio)-.*"
)


def keys_make_good_names(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key in serving:
        if len(key) > LONGEST_KEY:
            yield Problem(
                path=f"{PATH}.{key}",
                value=key,
                rule=f"names of pods and Jobs are made from it: at most {LONGEST_KEY} characters, "
                f"this has {len(key)}",
                fix=f"shorten it by {len(key) - LONGEST_KEY}",
                source="Kubernetes docs, 'Object Names and IDs'",
            )
        if key == "vllm":
            yield Problem(
                path=f"{PATH}.{key}",
                value=key,
                rule="a Service called vllm sets VLLM_PORT to a URL in other pods of its "
                "namespace, and any vLLM among them does not start",
                fix="name the key after the model",
                source=VLLM_SECURITY,
            )


def namespaces_are_free(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in serving.items():
        if RESERVED_NAMESPACES.fullmatch(said.namespace):
            yield Problem(
                path=f"{PATH}.{key}.namespace",
                value=said.namespace,
                rule="belongs to the cluster, or to another part of the stack",
                fix="choose another, `serving` say",
                source="Kubernetes docs, 'Namespaces'",
            )


def models_run_on_single_hosts(
    serving: dict[str, ServedModel], tpu_pools: dict[str, TpuPool], named_pools: frozenset[str]
) -> Iterator[Problem]:
    for key, said in single_hosts(serving).items():
        path = f"{PATH}.{key}.pool"
        pool = tpu_pools.get(said.pool)
        if pool is None and said.pool in named_pools:
            continue  # it is there and wrong, and that is said elsewhere
        if pool is None:
            yield Problem(
                path=path,
                value=said.pool,
                rule="no such pool exists",
                fix=nearest(said.pool, named_pools) if named_pools else "add it",
                source="tpuserve:tpuPools",
            )
        elif isinstance(pool, DynamicPool):
            yield Problem(
                path=path,
                value=said.pool,
                rule="its chips are joined by Kueue while workloads run; mode singleHost takes "
                "whole hosts",
                fix="name a pool of slicing: static",
                source=SINGLE_HOST,
            )
        elif len(pool.candidates()) == 1 and pool.slice.multi_host:
            yield Problem(
                path=path,
                value=said.pool,
                rule=f"a {pool.topology} slice has {pool.slice.hosts} hosts; one server of mode "
                "singleHost has one",
                fix=f"name a pool of one host, such as {_one_host(pool)}",
                source=PLAN_TPUS,
            )


def models_fit_their_host(
    serving: dict[str, ServedModel], tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for key, said, pool in _placed(serving, tpu_pools):
        yield from misfits(f"{PATH}.{key}", said, pool.slice)


def steps_are_large_enough(
    serving: dict[str, ServedModel], tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for key, said, pool in _placed(serving, tpu_pools):
        found, tokens = said.fit(pool.slice), said.max_num_batched_tokens
        if said.max_num_seqs is not None or found.fits:
            yield from step(f"{PATH}.{key}", tokens, found.max_num_seqs)
        whole = "--no-enable-chunked-prefill" in said.extra_args
        if whole and tokens is not None and tokens < found.max_model_len:
            yield Problem(
                path=f"{PATH}.{key}.maxNumBatchedTokens",
                value=tokens,
                rule="without chunked prefill a step takes a whole prompt, of up to "
                f"{found.max_model_len} tokens: vLLM does not start",
                fix=f"use {found.max_model_len} or more, lower maxModelLen to {tokens}, or remove "
                "--no-enable-chunked-prefill",
                source=SCHEDULER,
            )


def hosts_have_memory_for_the_mount(
    serving: dict[str, ServedModel], tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for key, said, pool in _placed(serving, tpu_pools):
        engine = said.engine(pool.slice, weights_bucket="", image="")
        if said.loader == "fuse" and engine.memory_gib < engine.weights_gib:
            yield Problem(
                path=f"{PATH}.{key}.loader",
                value=said.loader,
                rule=f"a mount keeps the {engine.weights_gib:.0f} GiB of weights in memory beside "
                f"the server, whose share of the host is then {engine.memory_gib} GiB",
                fix="set loader: streamer",
                source=Source("GoogleCloudPlatform/gcs-fuse-csi-driver issue 314", READ),
            )


def chat_needs_a_template(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in serving.items():
        given = any(each.startswith("--chat-template") for each in said.extra_args)
        if said.chat and not said.profile.chat_template and not given:
            yield Problem(
                path=f"{PATH}.{key}.model",
                value=said.profile.id,
                rule="is a base model without a chat template: /v1/chat/completions answers 400",
                fix=f"serve {said.profile.id}-Instruct or its like, or set chat: false and use "
                "/v1/completions",
                source=Source("vLLM docs, 'OpenAI-Compatible Server', chat template", READ),
            )


def replicas_have_hosts(
    serving: dict[str, ServedModel], tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    asked: dict[str, int] = {}
    for key, said, pool in _placed(serving, tpu_pools):
        others = asked.get(said.pool, 0)
        asked[said.pool] = others + said.replicas.max
        if asked[said.pool] > pool.max_hosts:
            beside = f" beside {others} of other models" if others else ""
            yield Problem(
                path=f"{PATH}.{key}.replicas.max",
                value=said.replicas.max,
                rule=f"a replica takes a host, and pool {said.pool!r} has at most "
                f"{pool.max_hosts}{beside}: further ones would wait for ever",
                fix=f"set tpuPools.{said.pool}.slices.max: {asked[said.pool]}, or lower this",
                source=docs("About GKE cluster autoscaling"),
            )


def targets_can_be_met(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in single_hosts(serving).items():
        path = f"{PATH}.{key}.target"
        if said.target is None:
            continue
        if not said.replicas.scale:
            yield Problem(
                path=path,
                value=said.target,
                rule=f"the count of replicas is fixed at {said.replicas.max}",
                fix="remove it, or let replicas.max be above replicas.min",
                source=AUTOSCALING,
                severity="warning",
            )
        if said.intent == "latency" and said.target >= 1:
            yield Problem(
                path=path,
                value=said.target,
                rule="a share of the KV cache, which is never above 1",
                fix="set it between 0.5 and 0.9",
                source=AUTOSCALING,
            )
        if said.intent == "throughput" and said.target < 1:
            yield Problem(
                path=path,
                value=said.target,
                rule="requests that wait per replica: below 1 the count never comes down",
                fix="set it to 1 or more; load tests begin at 10",
                source=AUTOSCALING,
            )


def production_is_not_taken_back(
    serving: dict[str, ServedModel], tpu_pools: dict[str, TpuPool], protect: bool
) -> Iterator[Problem]:
    for key, said, pool in _placed(serving, tpu_pools):
        if protect and pool.capacity.kind in ("spot", "flex-start"):
            yield Problem(
                path=f"{PATH}.{key}.pool",
                value=said.pool,
                rule=f"{pool.capacity.kind} capacity ends when Google says so, and the stack is "
                "protected",
                fix="serve from a reservation or on-demand capacity",
                source=SPOT,
                severity="warning",
            )


def somebody_hears_of_trouble(
    serving: dict[str, ServedModel], observability: Observability, protect: bool
) -> Iterator[Problem]:
    if protect and serving and not observability.notifies:
        yield Problem(
            path="tpuserve:observability",
            value=None,
            rule="alerts reach nobody",
            fix="set emails or channels",
            source=docs("Create and manage notification channels"),
            severity="warning",
        )


def _placed(
    serving: dict[str, ServedModel], tpu_pools: dict[str, TpuPool]
) -> Iterator[tuple[str, SingleHost, StaticPool]]:
    """Models whose pool is one of single hosts; the others are reported elsewhere."""
    for key, said in single_hosts(serving).items():
        pool = tpu_pools.get(said.pool)
        if not isinstance(pool, StaticPool) or len(pool.candidates()) != 1:
            continue
        if not pool.slice.multi_host:
            yield key, said, pool


def _one_host(pool: StaticPool) -> str:
    return "2x4 with chipsPerHost: 8" if pool.slice.accelerator.fabric == "2d" else "2x2x1"


CHECKS = (
    keys_make_good_names,
    namespaces_are_free,
    models_run_on_single_hosts,
    models_fit_their_host,
    steps_are_large_enough,
    hosts_have_memory_for_the_mount,
    chat_needs_a_template,
    replicas_have_hosts,
    targets_can_be_met,
    production_is_not_taken_back,
    somebody_hears_of_trouble,
)

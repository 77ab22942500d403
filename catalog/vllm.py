"""Flags, environment variables and metrics that exist in the pinned vLLM for TPU.

The table beside this file lists every name found in the published wheels. A name that is not in it
is refused with the nearest one that is, and names still found in guides with the reason they are
wrong.
"""

import difflib
import json
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources

TABLE = "vllm-0.32.json"

RETIRED_ENVIRONMENT = {
    "VLLM_USE_V1": "removed about vLLM 0.11, the V1 engine is the only one; drop it",
    "VLLM_ENGINE_CLIENT_STARTUP_TIMEOUT": "never existed; use VLLM_ENGINE_READY_TIMEOUT_S "
    "(default 600)",
    "RAY_heartbeat_timeout_milliseconds": "gone from Ray; use RAY_health_check_timeout_ms",
    "RAY_initial_reconstruction_timeout_milliseconds": "gone from Ray; drop it",
    "RAY_external_storage_heartbeat_timeout_ms": "gone from Ray; drop it",
    "RAY_grpc_server_thread_pool_size": "gone from Ray; drop it",
    "RAY_rpc_server_listen_quiet_period_ms": "gone from Ray; drop it",
}
RETIRED_METRICS = {
    "vllm:gpu_cache_usage_perc": (
        "deprecated in vLLM 0.9 (PR 18354) and removed by PR 29330 (November 2025); "
        "use vllm:kv_cache_usage_perc"
    ),
}

AUTOSCALING_METRICS = (
    "vllm:num_requests_waiting",
    "vllm:num_requests_running",
    "vllm:kv_cache_usage_perc",
)
"""Gauges: GKE's AutoscalingMetric takes no counter and no histogram (GKE docs, 'Autoscale using
metrics', read 2026-08)."""

# Prometheus clients publish counters as <name>_total and histograms as the other four.
_SAMPLE_SUFFIXES = ("_total", "_bucket", "_sum", "_count", "_created")


@dataclass(frozen=True)
class Release:
    """All names of one vLLM release, with where and when they were read."""

    vllm: str
    tpu_inference: str
    source: str
    read: date
    flags: frozenset[str]
    environment: frozenset[str]
    metrics: frozenset[str]


@cache
def release() -> Release:
    """The pinned release."""
    table = json.loads(resources.files("catalog").joinpath("data", TABLE).read_text("utf-8"))
    return Release(
        vllm=table["vllm"],
        tpu_inference=table["tpu_inference"],
        source=table["source"],
        read=date.fromisoformat(table["read"]),
        flags=frozenset(table["serve_flags"]),
        environment=frozenset(table["vllm_environment"] + table["tpu_inference_environment"]),
        metrics=frozenset(table["metrics"]),
    )


def flag_error(argument: str) -> str | None:
    """Why `vllm serve` would refuse `--name`, `--name=value` or `--no-name`, or None."""
    name = argument.split("=", 1)[0]
    if not name.startswith("--"):
        return (
            f"{name!r} is not a long option; write the long form with hyphens, --name or "
            "--name=value"
        )
    # A JSON option may be set key by key: --kv-transfer-config.kv_role=kv_producer.
    base = name.split(".", 1)[0]
    known = release().flags
    if (hyphens := base.replace("_", "-")) != base:
        return f"{base} has underscores; write the long form with hyphens, {hyphens}"
    positive = f"--{base.removeprefix('--no-')}" if base.startswith("--no-") else base
    if base in known or positive in known:
        return None
    return _unknown("flag", base, known)


def environment_error(name: str) -> str | None:
    """Why an environment name has no effect, or None.

    Only `VLLM_` names are judged against the table; others belong to JAX, Ray, libtpu or the hub.
    """
    if reason := RETIRED_ENVIRONMENT.get(name):
        return f"{name} has no effect in vLLM {release().vllm}: {reason}"
    if not name.startswith("VLLM_") or name in release().environment:
        return None
    return _unknown("environment variable", name, release().environment)


def metric_error(name: str) -> str | None:
    """Why a metric is not published, or None. Takes sample names such as `..._total` too."""
    known = release().metrics
    full = name if name.startswith("vllm:") else f"vllm:{name}"
    bases = [full, *(full.removesuffix(s) for s in _SAMPLE_SUFFIXES if full.endswith(s))]
    for base in bases:
        if reason := RETIRED_METRICS.get(base):
            return f"{name} is not in vLLM {release().vllm}: {reason}"
    if full != name and full in known:
        return f"{name} is published as {full}"
    if full == name and any(base in known for base in bases):
        return None
    return _unknown("metric", name, known)


def _unknown(what: str, name: str, known: frozenset[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; nearest is {near[0]}" if near else ""
    return f"{what} {name} is not in vLLM {release().vllm} ({release().source}){hint}"

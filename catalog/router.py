"""The llm-d router: versions that belong together, its chart's values and its configuration.

Chart, endpoint picker and sidecar carry one version; the picker's configuration has an API version
that older and newer builds do not know, and the sidecar ends at start on a flag it does not know.
Read at llm-d/llm-d-router v0.9.0 and v0.10.0 (config/charts, pkg/sidecar/proxy/options.go).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from catalog.names import SYSTEM_POOL
from catalog.partitions import POOL_LABEL
from catalog.serving import PORT
from catalog.source import Source

CHART = "oci://ghcr.io/llm-d/charts/llm-d-router-gateway"

PICKER_PORT, PICKER_HEALTH_PORT, PICKER_METRICS_PORT = 9002, 9003, 9090
PICKER_SUFFIX = "-epp"
"""Of everything the chart makes beside the pool."""
GRACE_SECONDS = 130
"""Fixed in the chart; servers of the pool must be gone by then."""

ROLE_LABEL = "llm-d.ai/role"
POOL_MEMBER_LABEL = "llm-d.ai/pool"
"""On leaders only: the picker takes every ready pod that matches, and workers serve no HTTP."""
ENGINE_LABEL = "llm-d.ai/engine-type"
POOL_GROUP = "inference.networking.k8s.io"
CONFIG_FILE = "prefill-decode.yaml"


@dataclass(frozen=True, kw_only=True)
class RouterRelease:
    """One version of chart, picker and sidecar."""

    version: str
    picker: str
    sidecar: str
    config_api: str
    """The newest one its picker knows."""
    connector_flag: str
    port_flag: str
    source: Source


_REGISTRY = "ghcr.io/llm-d"
_DIGESTS = Source(
    "llm-d/llm-d-router v0.10.0; digests from public manifests that pin them", date(2026, 11, 30)
)

RELEASES = (
    RouterRelease(
        version="v0.10.0",
        picker=f"{_REGISTRY}/llm-d-router-endpoint-picker:v0.10.0"
        "@sha256:2e516fa1310da7be59b82beb1445362139597d6d553ef04d546716abe3aaaa70",
        sidecar=f"{_REGISTRY}/llm-d-router-disagg-sidecar:v0.10.0"
        "@sha256:1344adff65f96f76fc00c6003a1c63c1e9bb70f3628307f61f748a89a265b260",
        config_api="llm-d.ai/v1alpha1",
        connector_flag="--kv-connector",
        port_flag="--model-server-port",
        source=_DIGESTS,
    ),
    RouterRelease(
        version="v0.9.0",
        picker=f"{_REGISTRY}/llm-d-router-endpoint-picker:v0.9.0"
        "@sha256:873179822ab0895a37ea09f2112ca39a6ae50a26612561c8bfad7f9a8c5af6f5",
        sidecar=f"{_REGISTRY}/llm-d-router-disagg-sidecar:v0.9.0",
        config_api="llm-d.ai/v1alpha1",
        connector_flag="--kv-connector",
        port_flag="--vllm-port",
        source=_DIGESTS,
    ),
)
"""The newest first: it is the default."""


def release(version: str) -> RouterRelease:
    """KeyError for a version that was not read."""
    return {each.version: each for each in RELEASES}[version]


def picker_config(of: RouterRelease, *, local_prefill_tokens: int) -> dict[str, Any]:
    """Which server prefills and which decodes; unknown parameters would stop the picker.

    With `local_prefill_tokens`, a prompt with fewer uncached tokens is prefilled where it is
    decoded: the transfer would take longer than the work.
    """
    always, by_prefix = "always-disagg-pd-decider", "prefix-based-pd-decider"
    decider: dict[str, Any] = {"type": always}
    if local_prefill_tokens:
        decider = {"type": by_prefix, "parameters": {"nonCachedTokens": local_prefill_tokens}}

    def profile(name: str) -> dict[str, Any]:
        return {
            "name": name,
            "plugins": [
                {"pluginRef": f"{name}-filter"},
                {"pluginRef": "max-score-picker"},
                {"pluginRef": "prefix-cache-scorer", "weight": 2},
                {"pluginRef": "queue-scorer", "weight": 1},
            ],
        }

    return {
        "apiVersion": of.config_api,
        "kind": "EndpointPickerConfig",
        "plugins": [
            {"type": "approx-prefix-cache-producer"},
            {"type": "prefix-cache-scorer"},
            {"type": "queue-scorer"},
            {"type": "prefill-filter"},
            {"type": "decode-filter"},
            {"type": "max-score-picker"},
            decider,
            {
                "type": "disagg-profile-handler",
                "parameters": {"deciders": {"prefill": decider["type"]}},
            },
        ],
        "schedulingProfiles": [profile("prefill"), profile("decode")],
    }


def chart_values(
    of: RouterRelease,
    *,
    picker: str,
    member_labels: Mapping[str, str],
    failure_mode: str,
    local_prefill_tokens: int,
    cpus: int,
    memory_gib: int,
) -> dict[str, Any]:
    """Values of the chart; routes and policies are the program's own, so its provider is none."""
    name, _, tag = picker.rpartition("/")[2].partition(":")
    memory = f"{memory_gib}Gi"
    return {
        "provider": {"name": "none"},
        "httpRoute": {"create": False},
        "router": {
            "modelServers": {
                "type": "vllm",
                "protocol": "http",
                "matchLabels": dict(member_labels),
                "targetPorts": [{"number": PORT}],
            },
            "inferencePool": {"create": True, "failureMode": failure_mode},
            "epp": {
                # What it knows of caches and of requests under way is in its memory.
                "replicas": 1,
                "image": {
                    "registry": picker.rpartition("/")[0],
                    "repository": name,
                    "tag": tag,
                    "pullPolicy": "IfNotPresent",
                },
                "resources": {
                    "requests": {"cpu": str(cpus), "memory": memory},
                    "limits": {"memory": memory},
                },
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": POOL_LABEL,
                                            "operator": "In",
                                            "values": [SYSTEM_POOL],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                },
                "pluginsConfigFile": CONFIG_FILE,
                # Text; JSON is YAML.
                "pluginsCustomConfig": {
                    CONFIG_FILE: json.dumps(
                        picker_config(of, local_prefill_tokens=local_prefill_tokens), indent=2
                    )
                },
            },
            # The network policy decides who reads metrics: no long-lived token in a Secret.
            "monitoring": {"prometheus": {"enabled": False, "auth": {"enabled": False}}},
        },
    }


def sidecar_arguments(of: RouterRelease, *, engine_port: int, pool: str) -> list[str]:
    """Command line of the routing sidecar; `pool` is namespace/name."""
    return [
        f"--port={PORT}",
        f"{of.port_flag}={engine_port}",
        # The handshake that vLLM's TPU connectors follow.
        f"{of.connector_flag}=nixlv2",
        "--secure-proxy=false",
        # A caller's own header would else send its request to any address.
        "--enable-ssrf-protection=true",
        f"--inference-pool={pool}",
        f"--pool-group={POOL_GROUP}",
    ]

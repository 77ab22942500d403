"""Prefill and decode: what each role's servers are started with, and what both must share."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from catalog.compatibility import CONNECTOR, MODULE, Version, kind_of
from catalog.router import GRACE_SECONDS as POOL_GRACE_SECONDS
from catalog.serving import GRACE_SECONDS, PORT, Engine
from catalog.source import READ, Source

Role = Literal["prefill", "decode"]
ROLES: tuple[Role, ...] = ("prefill", "decode")

ENGINE_PORTS: Mapping[Role, int] = {"prefill": PORT, "decode": 8200}
"""vLLM's own port: before a decode server stands the routing sidecar, which answers /health itself
(llm-d/llm-d-router v0.8 to v0.10, pkg/sidecar/proxy)."""

TRANSFER_PORT, RELEASE_PORT = 9100, 9600
"""Keys and values of every host, and the notice that they were fetched (tpu-inference 0.32.0,
distributed/utils.py)."""
RAY_PORT, PROCESS_PORT = 6379, 8476

KV_ROLES: Mapping[Role, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}

GUIDES = Source("llm-d/llm-d guides, pd-disaggregation and optimized-baseline for TPU7x", READ)

MOST_UNEVEN = 8
"""Groups of one role for each of the other beyond which one role waits for the other."""

RAY_INIT_SECONDS = 1800

ROLE_FLAGS = frozenset(
    """
    --async-scheduling --long-prefill-token-threshold --max-num-scheduled-tokens
    --scheduling-policy --stream-interval
    --aggregate-engine-logging --collect-detailed-traces --disable-access-log-for-endpoints
    --disable-log-stats --disable-uvicorn-access-log --enable-log-deltas --enable-log-outputs
    --enable-log-requests --enable-logging-iteration-details --enable-mfu-metrics
    --enable-per-request-metrics --kv-cache-metrics --kv-cache-metrics-sample --log-config-file
    --log-error-stack --log-level --logging-config --max-log-len --otlp-traces-endpoint
    --show-hidden-metrics-for-version --uvicorn-log-level
    """.split()
)
"""Flags a role may have to itself: how steps are filled, and what is logged and measured. Any other
may decide how a block of the cache looks, and a server reads the blocks of another only if they
look alike (tpu-inference PR 3379 would relax the tensor-parallel size)."""

ROLE_ENVIRONMENT = frozenset(
    """
    TPU_P2P_WAIT_PULL_TIMEOUT
    RAY_health_check_initial_delay_ms RAY_health_check_period_ms RAY_health_check_timeout_ms
    RAY_health_check_failure_threshold RAY_CGRAPH_get_timeout RAY_CGRAPH_submit_timeout
    VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS
    VLLM_CONFIGURE_LOGGING VLLM_LOGGING_COLOR VLLM_LOGGING_CONFIG_PATH VLLM_LOGGING_LEVEL
    VLLM_LOGGING_PREFIX VLLM_LOGGING_STREAM VLLM_LOG_BATCHSIZE_INTERVAL VLLM_LOG_MODEL_INSPECTION
    VLLM_LOG_STATS_INTERVAL VLLM_TRACE_FUNCTION
    """.split()
)
"""Names likewise: patience of transfer, hosts and steps, and logging."""

MADE_FOR_A_ROLE = frozenset(
    "--port --kv-transfer-config --max-num-seqs --max-num-batched-tokens".split()
)
"""What the program itself gives each role."""

OWNED_FLAGS = frozenset(
    """
    --kv-transfer-config --kv-offloading-backend --kv-offloading-size
    --distributed-executor-backend
    """.split()
)
"""Flags a stack may not give: offloading writes a transfer configuration of its own, and which
executor joins the hosts follows from the slice."""

HYBRID_FLAGS = frozenset(
    """
    --enable-prefix-caching --disable-hybrid-kv-cache-manager --prefix-match-unit
    --mamba-cache-mode --mamba-block-size --enable-mamba-shared-prefix-checkpoint
    --speculative-config --spec-method --spec-model --spec-tokens
    """.split()
)
"""Nor these, where a model is hybrid: its state is moved by block only in cache mode `align`, which
speculative decoding and another kind of prefix caching switch off."""
HYBRID_STATE = Source(
    "tpu-inference 0.30.0 to 0.32.0, platforms/tpu_platform.py and runner/tpu_runner.py, read and "
    "not run",
    date(2026, 11, 30),
)

OWNED_ENVIRONMENT = frozenset(
    """
    TPU_KV_TRANSFER_PORT TPU_SIDE_CHANNEL_PORT TPU_MULTIHOST_BACKEND TPU_WORKER_ID
    TPU_WORKER_HOSTNAMES VLLM_HOST_IP
    """.split()
)

ADDRESS_ENVIRONMENT = "VLLM_HOST_IP"
"""The pod's address, by which servers name themselves to each other."""

MULTI_HOST_SCRIPTS: tuple[tuple[Version, str], ...] = (
    ((0, 21, 0), "/workspace/vllm/examples/ray_serving/multi-node-serving.sh"),
    ((0, 0, 0), "/workspace/vllm/examples/online_serving/multi-node-serving.sh"),
)
"""From which release of the image the script lies where (vllm-project/vllm 75162ed; devrel-demos,
ai-ml/dynamic-slicing; seen in no image)."""


@dataclass(frozen=True, kw_only=True)
class RoleSettings:
    """What may differ between the roles: none of it changes a block of the cache."""

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    extra_arguments: tuple[str, ...] = ()
    extra_environment: Mapping[str, str] = field(default_factory=dict)


def role_engine(shared: Engine, role: Role, own: RoleSettings) -> Engine:
    """The server of a role: the shared one, its part in the transfer, and what is its own."""
    transfer = {
        "kv_connector": CONNECTOR,
        "kv_connector_module_path": MODULE,
        "kv_role": KV_ROLES[role],
    }
    hybrid = kind_of(shared.model) == "hybrid"
    environment = {
        # Only the vLLM implementation of a model is in the published P/D tests.
        "MODEL_IMPL_TYPE": "vllm",
        "TPU_KV_TRANSFER_PORT": str(TRANSFER_PORT),
        "TPU_SIDE_CHANNEL_PORT": str(RELEASE_PORT),
        **({"TPU_MULTIHOST_BACKEND": "ray"} if shared.slice.multi_host else {}),
    }
    return replace(
        shared,
        port=ENGINE_PORTS[role],
        max_num_seqs=own.max_num_seqs or shared.max_num_seqs,
        max_num_batched_tokens=own.max_num_batched_tokens or shared.max_num_batched_tokens,
        extra_arguments=(
            f"--kv-transfer-config={json.dumps(transfer)}",
            # A hybrid model's state is found by block, and moved by it, with these alone.
            *(
                ("--enable-prefix-caching", "--no-disable-hybrid-kv-cache-manager")
                if hybrid
                else ()
            ),
            *shared.extra_arguments,
            *own.extra_arguments,
        ),
        extra_environment={**environment, **shared.extra_environment, **own.extra_environment},
    )


def disagreements(prefill: Engine, decode: Engine) -> list[str]:
    """Where two servers would not understand each other's blocks; empty when they do."""
    found = []
    for what, mine, theirs in (
        ("image", prefill.image, decode.image),
        ("weights", prefill.weights, decode.weights),
        ("slice", prefill.slice.shape, decode.slice.shape),
    ):
        if mine != theirs:
            found.append(f"{what}: {mine} and {theirs}")
    for first, second, own in (
        (_flags(prefill), _flags(decode), ROLE_FLAGS | MADE_FOR_A_ROLE),
        (prefill.environment, decode.environment, ROLE_ENVIRONMENT),
    ):
        for name in sorted({*first, *second} - own):
            if first.get(name) != second.get(name):
                found.append(f"{name}: {first.get(name)} and {second.get(name)}")
    return found


def flag_of(argument: str) -> str:
    """The flag an argument sets: `--no-x` and one key of a JSON value set the flag as well."""
    name = argument.partition("=")[0].partition(".")[0]
    return f"--{name.removeprefix('--no-')}" if name.startswith("--no-") else name


def _flags(engine: Engine) -> dict[str, str]:
    """What each flag is set to; of two arguments for one the last counts."""
    found = {}
    for argument in engine.arguments[2:]:
        name, _, value = argument.partition("=")
        off = name.startswith("--no-")
        found[flag_of(name) if off else name] = value or ("off" if off else "on")
    return found


def script(version: Version) -> str:
    """Path of the script that forms a group of hosts, in an image of this release."""
    return next(path for first, path in MULTI_HOST_SCRIPTS if version >= first)


def leader_command(version: Version) -> str:
    """Shell of a leader of several hosts: ends if the others never come, and hands on signals."""
    return (
        "set -e\n"
        f'bash {script(version)} leader --ray_cluster_size="$LWS_GROUP_SIZE" '
        f"--ray_init_timeout={RAY_INIT_SECONDS}\n"
        'exec vllm "$@"\n'
    )


def worker_command(version: Version) -> str:
    return (
        "set -e\n"
        f'exec bash {script(version)} worker --ray_address="$LWS_LEADER_ADDRESS" '
        f"--ray_init_timeout={RAY_INIT_SECONDS}\n"
    )


def group_name(key: str, role: Role, index: int) -> str:
    """Of one group: an object of its own, so that a change of their number leaves it alone."""
    return f"{key}-{role}-{index}"


assert GRACE_SECONDS <= POOL_GRACE_SECONDS  # noqa: S101  the picker outlives what it points to

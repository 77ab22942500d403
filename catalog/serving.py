"""What one vLLM process on one TPU host is given: flags, environment, memory, time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from catalog.accelerators import Slice
from catalog.buckets import cache_path
from catalog.models import ModelProfile
from catalog.sizing import GIB, KvDtype, startup_budget_seconds

Loader = Literal["streamer", "fuse"]
Intent = Literal["throughput", "latency"]

PORT = 8000
API_PATH = "/v1"
"""All that a load balancer passes on. vLLM asks for its key under this and a few more prefixes;
/invocations, /tokenize, /pause, /metrics and others answer anybody (vLLM docs, 'Security')."""
WEIGHTS_MOUNT = "/models"
CACHE_MOUNT = "/cache"
XLA_CACHE = f"{CACHE_MOUNT}/xla"

HOST_SHARE = 0.85
"""Of a TPU host's memory and cores for the server; it has the host to itself but for daemons."""
SHARED_MEMORY_GIB = 16

LEAVE_SECONDS = 15
"""Between leaving the Service's endpoints and SIGTERM, for load balancers to notice (llm-d's
graceful-shutdown component)."""
FINISH_SECONDS = 90
"""What running requests get to end in."""
GRACE_SECONDS = LEAVE_SECONDS + FINISH_SECONDS + 15

KEEP_ALIVE_SECONDS = 620
"""Google's load balancers reuse connections for 600 s; a server that closes earlier resets them."""

METRICS: dict[Intent, str] = {
    "throughput": "vllm:num_requests_waiting",
    "latency": "vllm:kv_cache_usage_perc",
}
"""What to scale on (GKE docs, 'Best practices for autoscaling LLM inference workloads on TPUs'):
the queue where cost counts, the cache where waiting counts."""

MOST_EXPOSED = 20
"""Metrics a cluster hands to autoscalers itself (GKE docs, 'Expose custom metrics for autoscaling',
read 2026-11-30: that many unique ones; whether models share one is not said)."""

TARGETS: dict[Intent, float] = {"throughput": 10, "latency": 0.7}
"""Per replica: waiting requests, and the share of the cache in use. To be tuned by load tests."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Bounds between which replicas follow a gauge of vLLM."""

    min: int
    max: int
    metric: str
    target: float
    """Average per replica."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A way in from outside the cluster: inside the VPC, or with a host name from the internet."""

    host: str | None = None
    certificate_map: str | None = None
    regional_certificate: str | None = None
    """Of a load balancer in the stack's region, the only public kind that takes a pool."""
    security_policy: str | None = None

    @property
    def public(self) -> bool:
        return self.host is not None


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One vLLM server for one model on all chips of one host."""

    model: ModelProfile
    image: str
    weights: str
    """Folder of the staged revision, gs://bucket/folder."""
    slice: Slice
    tensor_parallel: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int | None = None
    utilization: float
    kv_dtype: KvDtype = "bf16"
    loader: Loader = "streamer"
    port: int = PORT
    extra_arguments: tuple[str, ...] = ()
    extra_environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command line after `vllm`."""
        streamed = self.loader == "streamer"
        flags = {
            "served-model-name": self.model.id,
            "host": "0.0.0.0",  # noqa: S104  the pod's network policy decides who reaches it
            "port": self.port,
            "tensor-parallel-size": self.tensor_parallel,
            "max-model-len": self.max_model_len,
            "max-num-seqs": self.max_num_seqs,
            "max-num-batched-tokens": self.max_num_batched_tokens,
            "gpu-memory-utilization": self.utilization,
            "kv-cache-dtype": "fp8" if self.kv_dtype == "fp8" else None,
            "load-format": "runai_streamer" if streamed else None,
            "shutdown-timeout": FINISH_SECONDS,
        }
        given = [f"--{name}={value}" for name, value in flags.items() if value is not None]
        where = self.weights if streamed else WEIGHTS_MOUNT
        return ("serve", where, *given, *self.extra_arguments)

    @property
    def environment(self) -> dict[str, str]:
        return {
            # Everything is in the bucket: a missing file shall fail at once, not go to the hub.
            # With gs:// it works since vLLM 0.20 (PR 39155).
            "HF_HUB_OFFLINE": "1",
            "VLLM_XLA_CACHE_PATH": XLA_CACHE,
            # vLLM's own 600 s would end a start that compiles for longer.
            "VLLM_ENGINE_READY_TIMEOUT_S": str(self.startup_seconds),
            "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(KEEP_ALIVE_SECONDS),
            "VLLM_NO_USAGE_STATS": "1",
            **self.extra_environment,
        }

    @property
    def cache_folder(self) -> str:
        """Where in the cache bucket the programs of exactly this server lie."""
        shape = f"{self.slice.accelerator.name}-{self.slice.shape}"
        return cache_path(self.image, shape, self.weights, self.arguments)

    @property
    def startup_seconds(self) -> int:
        return startup_budget_seconds(self.model)

    @property
    def memory_gib(self) -> int:
        """Memory of the container, shared memory included."""
        host = self.slice.machine.memory_gib
        if host is not None:
            return math.floor(host * HOST_SHARE) - self.fuse_memory_gib
        return math.ceil(self.weights_gib * 1.25) + 2 * SHARED_MEMORY_GIB

    @property
    def cpus(self) -> int:
        cores = self.slice.machine.vcpus
        return 2 * self.slice.machine.chips if cores is None else math.floor(cores * HOST_SHARE)

    @property
    def weights_gib(self) -> float:
        return self.model.weights_gb * 1e9 / GIB

    @property
    def fuse_cache_gib(self) -> int:
        """The file cache in memory from which a mounted bucket is read; 0 when streamed."""
        return 0 if self.loader == "streamer" else math.ceil(self.weights_gib * 1.05)

    @property
    def fuse_memory_gib(self) -> int:
        """Of the mount's sidecar: its default of 256 MiB ends in OOM (gcs-fuse-csi-driver#314)."""
        return 0 if self.loader == "streamer" else self.fuse_cache_gib + 4


FILE_OF_FLAGS = "--config"

OWNED_FLAGS = frozenset(
    """
    --served-model-name --host --port --tensor-parallel-size --max-model-len --max-num-seqs
    --max-num-batched-tokens --gpu-memory-utilization --kv-cache-dtype --load-format
    --shutdown-timeout --model --download-dir --revision --tokenizer --tokenizer-revision --config
    --model-name --code-revision --hf-config-path --config-format
    --pipeline-parallel-size --prefill-context-parallel-size --decode-context-parallel-size
    --data-parallel-size --data-parallel-size-local --data-parallel-rank
    --data-parallel-start-rank --data-parallel-address --data-parallel-rpc-port
    --data-parallel-backend --data-parallel-hybrid-lb --data-parallel-external-lb
    --data-parallel-multi-port-external-lb --data-parallel-supervisor-port
    --nnodes --node-rank --master-addr --master-port --headless --api-server-count --device-ids
    --device-memory-utilization --kv-cache-memory-bytes --num-gpu-blocks-override
    --uds --grpc --grpc-port --root-path
    --ssl-keyfile --ssl-certfile --ssl-ca-certs --ssl-cert-reqs --ssl-ciphers --enable-ssl-refresh
    --help --version --dry-run
    """.split()
)
"""Flags the program sets, or decides by other means: how chips are shared, where the server
listens, what it reads, and that it serves at all."""

SECRET_FLAGS = frozenset({"--hf-token", "--api-key"})
"""Flags whose value would stand in plain text in state and pod spec."""

OWNED_ENVIRONMENT = frozenset(
    """
    HF_HUB_OFFLINE VLLM_XLA_CACHE_PATH VLLM_ENGINE_READY_TIMEOUT_S VLLM_HTTP_TIMEOUT_KEEP_ALIVE
    VLLM_NO_USAGE_STATS VLLM_API_KEY HF_TOKEN HUGGING_FACE_HUB_TOKEN VLLM_PORT
    """.split()
)
"""Environment names the program sets, and those that would carry a secret in plain text."""


def staging_budget_seconds(model: ModelProfile) -> int:
    """How long a model may take from the hub to the bucket: 50 MB/s and ten minutes.

    Deliberately slow: a node of eight cores passes several hundred MB/s, a throttled hub does not.
    """
    return round(600 + model.weights_gb * 1000 / 50)

"""Served models: which, where, for whom, and how many replicas."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from catalog.accelerators import Slice
from catalog.buckets import model_path, split
from catalog.models import ModelProfile, UnknownModelError, find
from catalog.serving import METRICS, TARGETS, Engine, Intent, Loader
from catalog.sizing import DEFAULT_UTILIZATION, Fit, KvDtype, fit
from catalog.source import Source, docs
from catalog.vllm import RETIRED_METRICS, metric_error, release
from config.fields import Count, ResourceName, Section, broken, matching
from config.storage import SecretName

AUTOSCALING = docs("Best practices for autoscaling LLM inference workloads on TPUs")
GATEWAYS = docs("Deploying Gateways")
MODELS = "catalog/models.py"
HUB = Source("Hugging Face Hub docs, 'Download files from the Hub'", release().read)


class Profile(ModelProfile):
    """A model's shape as a stack file gives it, for one the catalogue does not list."""

    model_config = ConfigDict(alias_generator=to_camel)


def _profile(value: Any) -> Any:
    """The catalogue's shape of a model named by its hub id; another shape as it is given."""
    if not isinstance(value, str):
        return value
    try:
        found = find(value)
    except UnknownModelError as error:
        raise broken(
            str(error),
            fix="use a listed id, or give `model: {id: ..., parametersBillion: ...}`",
            source=MODELS,
        ) from None
    return {to_camel(key): each for key, each in found.model_dump().items()}


def _intent(value: Any) -> Any:
    if not isinstance(value, str) or value in METRICS:
        return value
    name = value if value.startswith("vllm:") else f"vllm:{value}"
    known = {metric: intent for intent, metric in METRICS.items()}
    if name in RETIRED_METRICS:
        rule, fix = f"{name} is {RETIRED_METRICS[name]}", "say intent: latency"
    elif name in known:
        rule, fix = f"{name} follows from what you want", f"say intent: {known[name]}"
    elif metric_error(name) is None:
        rule, fix = f"{name} is no metric to scale on", f"say intent: {' or '.join(METRICS)}"
    else:
        rule, fix = "throughput or latency", "say what counts; the metric follows from it"
    raise broken(rule, fix=fix, source=AUTOSCALING)


def _folder(value: str) -> str:
    try:
        split(value)
    except ValueError as error:
        raise broken(
            str(error),
            fix="name the folder that holds config.json and the safetensors files",
            source=docs("Cloud Storage URIs"),
        ) from None
    return value.rstrip("/")


Revision = Annotated[
    str,
    matching(
        r"[0-9a-f]{40}",
        "a revision is a full commit of 40 hexadecimal digits: branches and tags move",
        HUB,
    ),
]


class Replicas(Section):
    """How many servers; between two bounds they follow the load."""

    min: Count = 1
    max: Count = 1

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise broken(
                f"min {self.min} is above max {self.max}",
                fix=f"raise max to {self.min}",
                source=docs("Horizontal Pod autoscaling"),
            )
        return self

    @property
    def scale(self) -> bool:
        return self.min < self.max


class InCluster(Section):
    """A Service for pods: of the model's own namespace, and of those named."""

    kind: Literal["cluster"] = "cluster"
    clients: tuple[ResourceName, ...] = ()


class Internal(Section):
    """A load balancer with an address of the VPC."""

    kind: Literal["internal"]


class Public(Section):
    """A load balancer on the internet: TLS, and a key that callers must show."""

    kind: Literal["public"]
    host: Annotated[
        str,
        matching(
            r"([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}",
            "the DNS name that callers use and the certificate is for",
            GATEWAYS,
        ),
    ]
    certificate_map: ResourceName
    """A certificate map of Certificate Manager that covers the host."""
    security_policy: ResourceName | None = None
    """A Cloud Armor policy, for rate limits and allowed ranges."""


Exposure = Annotated[InCluster | Internal | Public, Field(discriminator="kind")]


class SingleHost(Section):
    """One model served by vLLM on single TPU hosts."""

    mode: Literal["singleHost"]
    pool: ResourceName
    model: Annotated[Profile, BeforeValidator(_profile)]
    revision: Revision | None = None
    """The commit that is staged from the hub."""
    weights: Annotated[str, AfterValidator(_folder)] | None = None
    """A folder with the weights, gs://bucket/folder, when they are staged already."""
    chat: bool = True
    """Whether callers use /v1/chat/completions; base models have no chat template."""
    namespace: ResourceName = "serving"
    intent: Annotated[Intent, BeforeValidator(_intent)] = "throughput"
    target: Annotated[float, Field(gt=0)] | None = None
    """Per replica: requests waiting (throughput) or the share of the cache used (latency)."""
    replicas: Replicas = Replicas()
    exposure: Exposure = InCluster()
    api_key_secret: SecretName | None = None
    """A secret in Secret Manager whose value callers send as bearer token."""
    image: str | None = None
    loader: Loader = "streamer"
    tensor_parallel: Count | None = None
    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    kv_dtype: KvDtype = "bf16"
    utilization: Annotated[float, Field(gt=0, le=1)] = DEFAULT_UTILIZATION
    extra_args: tuple[str, ...] = ()
    extra_env: dict[str, str] = Field(default_factory=dict)

    @property
    def metric(self) -> str:
        return METRICS[self.intent]

    @property
    def metric_target(self) -> float:
        return TARGETS[self.intent] if self.target is None else self.target

    def fit(self, shape: Slice) -> Fit:
        """What is left of a slice once the model is on it."""
        return fit(
            self.model,
            shape,
            tensor_parallel=self.tensor_parallel,
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            kv_dtype=self.kv_dtype,
            utilization=self.utilization,
        )

    def folder(self, weights_bucket: str) -> str:
        """Where the weights lie, or will lie once staged."""
        if self.weights is not None:
            return self.weights
        return f"gs://{weights_bucket}/{model_path(self.model.id, self.revision or '')}"

    def engine(self, shape: Slice, *, weights_bucket: str, image: str) -> Engine:
        """The server this model gets on one host of a pool."""
        found = self.fit(shape)
        return Engine(
            model=self.model,
            image=self.image or image,
            weights=self.folder(weights_bucket),
            slice=shape,
            tensor_parallel=found.tensor_parallel,
            max_model_len=found.max_model_len,
            max_num_seqs=found.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            utilization=self.utilization,
            kv_dtype=self.kv_dtype,
            loader=self.loader,
            extra_arguments=self.extra_args,
            extra_environment=self.extra_env,
        )


ServedModel = SingleHost
"""How a model is served is said by `mode`."""

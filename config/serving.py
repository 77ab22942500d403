"""Served models: which, where, for whom, and how many replicas."""

import re
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from catalog.accelerators import Slice
from catalog.buckets import BUCKET_NAMES, model_path, split, why_illegal
from catalog.compatibility import WHEELS, Version, parse
from catalog.disaggregated import Role, RoleSettings, role_engine
from catalog.images import version_of
from catalog.models import Dtype, ModelProfile, ResidentDtype, UnknownModelError, find
from catalog.partitions import slice_of
from catalog.router import RELEASES as ROUTERS
from catalog.router import RouterRelease
from catalog.router import release as router_release
from catalog.serving import METRICS, MOST_EXPOSED, TARGETS, Engine, Intent, Loader
from catalog.sizing import DEFAULT_UTILIZATION, Fit, KvDtype, fit
from catalog.source import Source, docs
from catalog.vllm import RETIRED_METRICS, metric_error, release
from config.cluster import Cluster
from config.fields import Count, ResourceName, Section, Whole, broken, matching
from config.queueing import Shape
from config.storage import SecretName

AUTOSCALING = docs("Best practices for autoscaling LLM inference workloads on TPUs")
GATEWAYS = docs("Deploying Gateways")
MODELS = "catalog/models.py"
HUB = Source("Hugging Face Hub docs, 'Download files from the Hub'", release().read)


class ModelShape(Section):
    """What sizing needs to know of a model that the catalogue does not list."""

    id: Annotated[str, matching(r"[\w.-]+/[\w.-]+", "a hub id is written organisation/name", HUB)]
    """Repository on the hub."""
    parameters_billion: Annotated[float, Field(gt=0)]
    """All parameters, of every expert of a mixture."""
    dtype: Dtype = "bf16"
    """Of the checkpoint."""
    weights_gb: Annotated[float, Field(gt=0)] | None = None
    """Size of the checkpoint in 10^9 bytes; without it parameters times dtype."""
    resident_dtype: ResidentDtype | None = None
    """Of the weights in HBM; without it fp8 stays fp8, and all else is counted as bf16: MXFP4 is
    widened on a TPU. Say int4 where the server keeps four bits."""
    resident_gb: Annotated[float, Field(gt=0)] | None = None
    """Size in HBM in 10^9 bytes; without it parameters times its dtype."""
    layers: Count
    """All layers."""
    kv_layers: Count | None = None
    """Layers that keep keys and values for every token: of a hybrid model some, else all."""
    state_mib_per_sequence: Annotated[float, Field(ge=0)] = 0
    """What the other layers of a hybrid model keep for one sequence."""
    attention_heads: Count
    """Query heads of a layer."""
    kv_heads: Count
    """Key and value heads of a layer."""
    head_dim: Count
    """Width of a head; with a latent cache, of its rotary part."""
    latent_dim: Count | None = None
    """Width of the compressed cache of multi-head latent attention."""
    max_context: Count
    """Tokens the model was made for."""
    chat_template: bool = True
    """Whether the tokenizer brings one; base models do not."""
    gated: bool = False
    """Whether the hub asks for a token whose owner accepted a licence."""

    @property
    def profile(self) -> ModelProfile:
        """The shape in the catalogue's terms."""
        resident = self.resident_dtype or ("fp8" if self.dtype == "fp8" else "bf16")
        return ModelProfile(
            id=self.id,
            parameters_billion=self.parameters_billion,
            checkpoint_dtype=self.dtype,
            weights_gb=self.weights_gb or self.parameters_billion * BYTES[self.dtype],
            resident_dtype=resident,
            resident_gb=self.resident_gb or self.parameters_billion * BYTES[resident],
            layers=self.layers,
            kv_layers=self.kv_layers or self.layers,
            attention_heads=self.attention_heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            attention="grouped-query" if self.latent_dim is None else "multi-head-latent",
            latent_dim=self.latent_dim,
            state_mib_per_sequence=self.state_mib_per_sequence,
            max_context=self.max_context,
            chat_template=self.chat_template,
            licence="not stated",
            gated=self.gated,
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.attention_heads % self.kv_heads:
            raise broken(
                f"{self.attention_heads} attention heads are no multiple of {self.kv_heads} KV "
                "heads",
                fix="take num_attention_heads and num_key_value_heads from its config.json",
                source=MODELS,
            )
        try:
            _ = self.profile
        except ValidationError as error:
            rule = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise broken(
                re.sub(r"[a-z]+(_[a-z]+)+", lambda name: to_camel(name[0]), rule),
                fix="take layers from its config.json and sizes from its files",
                source=MODELS,
            ) from None
        return self


BYTES = {"bf16": 2.0, "fp8": 1.0, "mxfp4": 0.55, "int4": 0.6}
"""Of one parameter; of four bits there are scales, and some layers left in bf16."""


def _known(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        find(value)
    except UnknownModelError as error:
        raise broken(
            str(error),
            fix="use a listed id, or give its shape: `model: {id: ..., parametersBillion: ...}`",
            source=MODELS,
        ) from None
    return value


def _form(value: Any) -> str:
    return "listed" if isinstance(value, str) else "shape"


Model = Annotated[
    Annotated[str, BeforeValidator(_known), Tag("listed")] | Annotated[ModelShape, Tag("shape")],
    Discriminator(_form),
]
"""The hub id of a model of the catalogue, or the shape of another."""


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
        bucket, _ = split(value)
    except ValueError as error:
        raise broken(
            str(error),
            fix="name the folder that holds config.json and the safetensors files",
            source=docs("Cloud Storage URIs"),
        ) from None
    if rule := why_illegal(bucket):
        fix = "name the bucket of the weights as Cloud Storage knows it"
        raise broken(f"{rule}: {bucket}", fix=fix, source=BUCKET_NAMES)
    return value.rstrip("/")


Revision = Annotated[
    str,
    matching(
        r"[0-9a-f]{40}",
        "a revision is a full commit of 40 hexadecimal digits: branches and tags move",
        HUB,
    ),
]

Release = Annotated[
    str, matching(r"\d+\.\d+\.\d+", "a release is written MAJOR.MINOR.PATCH: 0.32.0, say", WHEELS)
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


HostName = Annotated[
    str,
    matching(
        r"([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}",
        "the DNS name that callers use and the certificate is for",
        GATEWAYS,
    ),
]


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
    host: HostName
    certificate_map: ResourceName
    """A certificate map of Certificate Manager that covers the host."""
    security_policy: ResourceName | None = None
    """A Cloud Armor policy, for rate limits and allowed ranges."""


Exposure = Annotated[InCluster | Internal | Public, Field(discriminator="kind")]


class Served(Section):
    """What every served model says, however it is served."""

    model: Model
    """Hub id of a model of the catalogue, or the shape of another."""
    revision: Revision | None = None
    """The commit that is staged from the hub."""
    weights: Annotated[str, AfterValidator(_folder)] | None = None
    """A folder with the weights, gs://bucket/folder, when they are staged already."""
    chat: bool = True
    """Whether callers use /v1/chat/completions; base models have no chat template."""
    api_key_secret: SecretName | None = None
    """A secret in Secret Manager whose value callers send as bearer token."""
    image: str | None = None
    """vLLM's image, where this model needs another one than `images.modelServer`."""
    tensor_parallel: Count | None = None
    """Devices that share each layer; without it as many as the model's heads allow."""
    max_model_len: Count | None = None
    """Tokens of one request; without it what the slice has room for."""
    max_num_seqs: Count | None = None
    """Requests that run at once; without it what the slice has room for."""
    max_num_batched_tokens: Count | None = None
    """Tokens of one step; without it vLLM's default."""
    kv_dtype: KvDtype = "bf16"
    """Of the cache; fp8 holds up to twice the tokens."""
    utilization: Annotated[float, Field(gt=0, le=1)] = DEFAULT_UTILIZATION
    """Share of HBM for weights and cache; less where compiling ends in RESOURCE_EXHAUSTED."""
    extra_args: tuple[str, ...] = ()
    """Further flags of `vllm serve`, each as --name or --name=value."""
    extra_env: dict[str, str] = Field(default_factory=dict)
    """Further environment of the server; no secrets, they would stand in the pod spec."""

    @property
    def profile(self) -> ModelProfile:
        return find(self.model) if isinstance(self.model, str) else self.model.profile

    def fit(self, shape: Slice) -> Fit:
        """What is left of a slice once the model is on it."""
        return fit(
            self.profile,
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
        return f"gs://{weights_bucket}/{model_path(self.profile.id, self.revision or '')}"

    def engine(self, shape: Slice, *, weights_bucket: str, image: str) -> Engine:
        """The server this model gets on a slice."""
        found = self.fit(shape)
        return Engine(
            model=self.profile,
            image=self.image or image,
            weights=self.folder(weights_bucket),
            slice=shape,
            tensor_parallel=found.tensor_parallel,
            max_model_len=found.max_model_len,
            max_num_seqs=found.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            utilization=self.utilization,
            kv_dtype=self.kv_dtype,
            extra_arguments=self.extra_args,
            extra_environment=self.extra_env,
        )


class SingleHost(Served):
    """One model served by vLLM on single TPU hosts."""

    mode: Literal["singleHost"]
    pool: ResourceName
    """Key of the TPU pool whose hosts it runs on, one replica a host."""
    namespace: ResourceName = "serving"
    """Kubernetes namespace; several models may share one."""
    intent: Annotated[Intent, BeforeValidator(_intent)] = "throughput"
    """What replicas are added for: a queue that waits, or a cache that fills."""
    target: Annotated[float, Field(gt=0)] | None = None
    """Per replica: requests waiting (throughput) or the share of the cache used (latency)."""
    replicas: Replicas = Replicas()
    exposure: Exposure = InCluster()
    """Who reaches it: pods of the cluster, the VPC, or the internet."""
    loader: Loader = "streamer"
    """Weights are streamed from the bucket, or read through a mount of it."""

    @property
    def metric(self) -> str:
        return METRICS[self.intent]

    @property
    def metric_target(self) -> float:
        return TARGETS[self.intent] if self.target is None else self.target

    def engine(self, shape: Slice, *, weights_bucket: str, image: str) -> Engine:
        """The server this model gets on one host of a pool."""
        shared = super().engine(shape, weights_bucket=weights_bucket, image=image)
        return replace(shared, loader=self.loader)


class RegionalPublic(Section):
    """A regional load balancer on the internet: TLS, and a key that callers must show."""

    kind: Literal["public"]
    host: HostName
    certificate: ResourceName
    """A regional certificate of Certificate Manager for the host."""
    security_policy: ResourceName | None = None
    """A regional Cloud Armor policy, for rate limits and allowed ranges."""


MOST_GROUPS = 144 * 16
"""Hosts of a whole block, each a slice (Google Cloud docs, 'TPU7x', read 2026-08)."""


class RoleGroups(Section):
    """The groups of one role: each a slice of its own, and an object of its own."""

    replicas: Annotated[Count, Field(le=MOST_GROUPS)] = 1
    """Groups side by side; no autoscaler changes it, for a group that is scaled away keeps its
    slice until its object is deleted."""
    max_num_seqs: Count | None = None
    """Requests that run at once, where this role's number is another."""
    max_num_batched_tokens: Count | None = None
    """Tokens of one step, where this role's number is another."""
    extra_args: tuple[str, ...] = ()
    """Further flags of this role alone; those that shape the cache belong to both."""
    extra_env: dict[str, str] = Field(default_factory=dict)
    """Further environment of this role alone."""


class Picker(Section):
    """The llm-d router: it picks the server that prefills and the one that decodes."""

    version: str = ROUTERS[0].version
    """Of chart, picker and sidecar together."""
    image: str | None = None
    """The picker's image, for mirrors; without it the one of the version."""
    sidecar_image: str | None = None
    """The routing sidecar's, likewise."""
    failure_mode: Literal["FailOpen", "FailClose"] = "FailClose"
    """When the picker does not answer: FailOpen sends requests to any server, a prefill one
    among them, which nobody has tuned for it."""
    local_prefill_tokens: Annotated[Whole, Field(ge=0)] = 0
    """Prompts with fewer uncached tokens are prefilled where they are decoded; 0 for none."""
    cpus: Count = 4
    memory_gib: Count = 8

    @model_validator(mode="after")
    def _read(self) -> Self:
        known = [each.version for each in ROUTERS]
        if self.version not in known:
            raise broken(
                f"version {self.version}: chart values, picker configuration and sidecar flags are "
                "known for " + " and ".join(known),
                fix=f"use {known[0]}",
                source=ROUTERS[0].source,
            )
        return self

    @property
    def release(self) -> RouterRelease:
        return router_release(self.version)


class Disaggregated(Served):
    """One model whose prompts are read and whose answers are written on slices of their own."""

    mode: Literal["disaggregated"]
    namespace: ResourceName = "llm"
    """A namespace of the queues."""
    release: Release | None = None
    """Of tpu-inference in the image, 0.32.0 say, where the image's tag does not begin with it: in
    some releases answers are wrong, so one that nobody states is refused."""
    slice: Shape = "2x2x1"
    """Of each group, prefill and decode alike; hosts, chips and devices follow from it."""
    prefill: RoleGroups = RoleGroups()
    decode: RoleGroups = RoleGroups()
    spare_slices: Annotated[Whole, Field(ge=0)] = 0
    """Slices kept free: none, or one for every group, and new groups serve before old ones end."""
    answer_seconds: Annotated[Whole, Field(ge=1, le=86400)] = 3600
    """How long the load balancer waits for the end of an answer."""
    exposure: Annotated[Internal | RegionalPublic, Field(discriminator="kind")] = Internal(
        kind="internal"
    )
    """Who reaches the Gateway: the VPC, or the internet."""
    router: Picker = Picker()

    @property
    def groups(self) -> int:
        return self.prefill.replicas + self.decode.replicas

    @property
    def surges(self) -> bool:
        """Whether new groups find slices of their own while all old ones still run."""
        return 0 < self.groups <= self.spare_slices

    def version(self, image: str) -> Version | None:
        """The release in the servers' image, by its tag or as stated."""
        return version_of(self.image or image) or (parse(self.release) if self.release else None)

    def role(self, role: Role) -> RoleGroups:
        return self.prefill if role == "prefill" else self.decode

    def role_engine(self, role: Role, *, weights_bucket: str, image: str) -> Engine:
        """The server of a role: all that both must share comes from one place."""
        own = self.role(role)
        return role_engine(
            self.engine(slice_of(self.slice), weights_bucket=weights_bucket, image=image),
            role,
            RoleSettings(
                max_num_seqs=own.max_num_seqs,
                max_num_batched_tokens=own.max_num_batched_tokens,
                extra_arguments=own.extra_args,
                extra_environment=own.extra_env,
            ),
        )


ServedModel = Annotated[
    Annotated[SingleHost, Tag("singleHost")] | Annotated[Disaggregated, Tag("disaggregated")],
    Field(discriminator="mode"),
]
"""How a model is served is said by `mode`."""


def single_hosts(serving: dict[str, ServedModel]) -> dict[str, SingleHost]:
    """The models on single hosts."""
    return {key: said for key, said in serving.items() if isinstance(said, SingleHost)}


def needs_adapter(serving: dict[str, ServedModel], cluster: Cluster) -> bool:
    """Whether autoscalers read their metrics through an adapter: GKE hands over a few at most."""
    scaled = sum(said.replicas.scale for said in single_hosts(serving).values())
    return scaled > (MOST_EXPOSED if cluster.hands_over_metrics else 0)


def disaggregated(serving: dict[str, ServedModel]) -> dict[str, Disaggregated]:
    """The models on slices of a queue."""
    return {key: said for key, said in serving.items() if isinstance(said, Disaggregated)}

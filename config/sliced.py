"""What follows from what a stack says about models on slices of a queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog import buckets
from catalog.compatibility import Found, Version, judge
from catalog.disaggregated import ENGINE_PORTS, ROLES, Role
from catalog.partitions import slice_of
from catalog.router import POOL_MEMBER_LABEL, ROLE_LABEL
from catalog.serving import Engine, Entry
from config.serving import Disaggregated, RegionalPublic, disaggregated
from config.stack import Stack


@dataclass(frozen=True, kw_only=True)
class SlicedServer:
    """A model on slices: a server for each role, and what is known of its answers."""

    said: Disaggregated
    engines: Mapping[Role, Engine]
    version: Version
    answers: Found
    foreign_bucket: str | None
    """The bucket of weights that are not staged here."""

    @property
    def replicas(self) -> dict[Role, int]:
        return {role: self.said.role(role).replicas for role in ROLES}

    @property
    def picker(self) -> str:
        return self.said.router.image or self.said.router.release.picker

    @property
    def sidecar(self) -> str:
        return self.said.router.sidecar_image or self.said.router.release.sidecar

    @property
    def entry(self) -> Entry:
        exposure = self.said.exposure
        if isinstance(exposure, RegionalPublic):
            return Entry(
                host=exposure.host,
                regional_certificate=exposure.certificate,
                security_policy=exposure.security_policy,
            )
        return Entry()

    @property
    def needs_proof(self) -> bool:
        return self.answers.verdict == "needs proof"

    @property
    def weights(self) -> str:
        return self.engines["decode"].weights

    @property
    def startup_seconds(self) -> int:
        return self.engines["decode"].startup_seconds


def sliced_servers(stack: Stack) -> dict[str, SlicedServer]:
    """The models on slices, by key."""
    bucket = stack.storage.weights(stack.project, stack.name)
    image = stack.images.model_server
    found = {}
    for key, said in disaggregated(stack.serving).items():
        version = said.version(image)
        if version is None:
            msg = f"{key}: the checks refuse an image without a known release"
            raise ValueError(msg)
        found[key] = SlicedServer(
            said=said,
            engines={
                role: said.role_engine(role, weights_bucket=bucket, image=image) for role in ROLES
            },
            version=version,
            answers=judge(said.profile, version),
            foreign_bucket=None if said.weights is None else buckets.split(said.weights)[0],
        )
    return found


def sliced_endpoint(key: str, server: SlicedServer) -> dict[str, Any]:
    """What a reader and `ops verify` need of a model, but for the address of its Gateway."""
    said, of = server.said, slice_of(server.said.slice)
    secret = said.api_key_secret
    return {
        "model": said.profile.id,
        "basePath": "/v1",
        "chat": said.chat,
        **({} if secret is None else {"apiKeySecret": secret}),
        "startupSeconds": server.startup_seconds,
        "needsProof": server.needs_proof,
        "groups": {
            "namespace": said.namespace,
            "gateway": key,
            "pool": key,
            "member": f"{POOL_MEMBER_LABEL}={key}",
            "prefill": said.prefill.replicas,
            "decode": said.decode.replicas,
            "enginePorts": dict(ENGINE_PORTS),
            "slice": of.shape,
            "hosts": of.hosts,
            "devices": of.devices,
            "maxModelLen": server.engines["decode"].max_model_len,
            "localPrefillTokens": said.router.local_prefill_tokens,
        },
        "reach": "python -m ops verify, or any machine of the VPC: an address inside it answers "
        "nobody else",
    }


PROOF = (
    "Nobody has published this model's answers with caches moved between slices: text that is "
    "wrong raises no alert. `python -m ops verify --stack {stack} --accuracy` scores them; after "
    "every change of image or model, before traffic."
)


def alert_advice(key: str, server: SlicedServer, stack: str) -> dict[str, str]:
    """What a reader of an alert on this model shall do, by kind of alert."""
    kubectl = f"kubectl -n {server.said.namespace}"
    pods = f"-l app.kubernetes.io/instance={key}"
    look = (
        f"`{kubectl} get leaderworkersets,pods {pods} -L {ROLE_LABEL}` shows the groups, each a "
        f"LeaderWorkerSet; `{kubectl} get workloads` and `python -m ops slices` which of them wait."
    )
    logs = f"`{kubectl} logs {pods} -c vllm --previous --prefix --tail=50`"
    proof = f" {PROOF.format(stack=stack)}" if server.needs_proof else ""
    advice = {
        "absent": "Prompts are read by one role and answered by the other: without either nobody "
        f"is answered. {look} Pods behind a gate wait for quota or a slice, running ones load "
        f"their model (up to {server.startup_seconds // 60} minutes) or fail: {logs}.",
        "queue": "More is asked than is answered. Nothing here scales by itself: raise "
        "`prefill.replicas` or `decode.replicas`, whichever role's requests wait on the "
        f"dashboard; `python -m ops plan` shows whether the cubes have room. {look}",
        "restarts": f"{logs} says why; one container that restarts takes its whole group along. "
        "RESOURCE_EXHAUSTED: lower `utilization`, `maxNumSeqs` or `maxModelLen`. 403 or 404 from "
        f"the bucket: look at the grants and at the staged revision. {look}",
        "cache-full": "Requests are preempted and computed again. Lower `maxModelLen` or "
        f"`maxNumSeqs`, use `kvDtype: fp8`, or raise `decode.replicas`. {look}",
    }
    return {kind: f"{text}{proof}" for kind, text in advice.items()}

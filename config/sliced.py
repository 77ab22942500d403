"""What follows from what a stack says about models on slices of a queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog import buckets
from catalog.compatibility import Found, Version, judge
from catalog.disaggregated import ENGINE_PORTS, ROLES, Role
from catalog.images import version_of
from catalog.partitions import slice_of
from catalog.router import POOL_MEMBER_LABEL
from catalog.serving import Engine, Entry
from config.serving import Disaggregated, RegionalPublic, disaggregated
from config.stack import Stack


@dataclass(frozen=True, kw_only=True)
class SlicedServer:
    """A model on slices: a server for each role, and what is known of its answers."""

    said: Disaggregated
    engines: Mapping[Role, Engine]
    version: Version | None
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
        version = version_of(said.image or image)
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


NOTE = (
    "Prefill and decode run in groups, each a LeaderWorkerSet: `kubectl -n {namespace} get "
    "leaderworkersets,workloads,pods`, `python -m ops slices`."
)
PROOF = (
    "Nobody has published this model's answers with caches moved between slices: text that is "
    "wrong raises no alert. `python -m ops verify --stack {stack} --accuracy` scores them; after "
    "every change of image or model, before traffic."
)


def alert_note(server: SlicedServer, stack: str) -> str:
    """What a reader of an alert on this model shall know."""
    note = NOTE.format(namespace=server.said.namespace)
    return f"{note} {PROOF.format(stack=stack)}" if server.needs_proof else note

"""The operators' charts, and the sets of versions that were tested together."""

import json
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

from catalog.source import READ, Source

REGISTRY = "oci://registry.k8s.io"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart as its project publishes it; `crds` names the definitions it never upgrades."""

    reference: str
    namespace: str
    crds: tuple[str, ...] = ()


KUEUE = Chart(reference=f"{REGISTRY}/kueue/charts/kueue", namespace="kueue-system")
JOBSET = Chart(
    reference=f"{REGISTRY}/jobset/charts/jobset",
    namespace="jobset-system",
    crds=("jobsets.jobset.x-k8s.io",),
)
LWS = Chart(
    reference=f"{REGISTRY}/lws/charts/lws",
    namespace="lws-system",
    crds=("leaderworkersets.leaderworkerset.x-k8s.io",),
)

PAUSE = (
    "registry.k8s.io/pause:3.10"
    "@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
)
"""Kubernetes' image that does nothing; named by a probe that never starts a pod. Digest from public
manifests that pin it, read 2026-11-30."""

OPERATOR_NAMESPACES = (KUEUE.namespace, JOBSET.namespace, LWS.namespace)


@dataclass(frozen=True, kw_only=True)
class ReleaseSet:
    """Versions of the three operators that somebody ran together."""

    kueue: str
    jobset: str
    lws: str
    oldest_minor: int
    newest_minor: int
    """Minor versions of Kubernetes that upstream tested this Kueue on."""
    longest_lws_name: int
    """Kueue names a Workload after its LeaderWorkerSet; kubernetes-sigs/kueue issue 11409."""
    source: Source

    def __str__(self) -> str:
        return f"{{kueue: {self.kueue}, jobset: {self.jobset}, lws: {self.lws}}}"


RELEASE_SETS = (
    ReleaseSet(
        kueue="0.18.6",
        jobset="0.12.0",
        lws="0.8.0",
        oldest_minor=34,
        newest_minor=36,
        longest_lws_name=51,
        source=Source("kubernetes-sigs/kueue v0.18 go.mod and e2e; llm-d, 'Dynamic slicing'", READ),
    ),
    ReleaseSet(
        kueue="0.17.4",
        jobset="0.11.1",
        lws="0.8.0",
        oldest_minor=33,
        newest_minor=35,
        longest_lws_name=39,
        source=Source("GoogleCloudPlatform/devrel-demos 34d1d8c, ai-ml/dynamic-slicing", READ),
    ),
)
"""The newest first: it is the default. The second is the codelab's."""

LIBRARIES = Source(
    "the pins in Kueue's go.mod: 0.17 is built with JobSet 0.11.1 and LWS 0.8.0, 0.18 with JobSet "
    "0.12.0 and LWS 0.8.0",
    READ,
)


def matched(*, kueue: str, jobset: str, lws: str) -> ReleaseSet | None:
    """The tested set of exactly these versions."""
    return next(
        (
            each
            for each in RELEASE_SETS
            if (each.kueue, each.jobset, each.lws) == (kueue, jobset, lws)
        ),
        None,
    )


DEFINITIONS_READ = date(2026, 11, 30)
"""Day the definitions in catalog/data/crds were taken from the operators' Go modules."""


@cache
def definition(name: str, version: str) -> dict[str, Any]:
    """The spec of a CustomResourceDefinition at a version, without its prose (`tools/crds.py`)."""
    file = resources.files("catalog").joinpath("data", "crds", f"{name}-{version}.json")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found

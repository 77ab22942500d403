"""GKE versions, and the lowest one each feature needs."""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Self

from catalog.source import READ, Source, docs

_FORM = re.compile(r"(\d+)\.(\d+)\.(\d+)-gke\.(\d+)")


@total_ordering
@dataclass(frozen=True)
class GkeVersion:
    """A full GKE version such as `1.36.0-gke.3712000`, ordered as GKE orders it."""

    minor: tuple[int, int]
    patch: int
    build: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError unless `text` is a full version: a prefix cannot be compared with a floor."""
        match = _FORM.fullmatch(text)
        if match is None:
            msg = f"{text!r} is not a full GKE version such as 1.36.0-gke.3712000"
            raise ValueError(msg)
        major, minor, patch, build = map(int, match.groups())
        return cls((major, minor), patch, build)

    def __lt__(self, other: "GkeVersion") -> bool:
        return (self.minor, self.patch, self.build) < (other.minor, other.patch, other.build)

    def __str__(self) -> str:
        return f"{self.minor[0]}.{self.minor[1]}.{self.patch}-gke.{self.build}"


@dataclass(frozen=True)
class Floor:
    """The lowest GKE version that carries a feature."""

    feature: str
    version: GkeVersion
    source: Source


def _floor(feature: str, version: str, source: Source) -> Floor:
    return Floor(feature, GkeVersion.parse(version), source)


SUB_SLICING = _floor(
    "TPU7x sub-slicing",
    "1.36.0-gke.3712000",
    docs("Schedule dynamic slices with Kueue and TAS"),
)
SUPER_SLICING = _floor(
    "TPU7x super-slicing",
    "1.35.2-gke.1842000",
    docs("Schedule dynamic slices with Kueue and TAS"),
)
# cluster-toolkit's TPU7x example asks for 1.34.3-gke.1318000.
TPU7X = _floor("TPU7x nodes", "1.34.0-gke.2201000", docs("About Ironwood (TPU7x) in GKE"))
TPU7X_AUTOPILOT = _floor(
    "TPU7x in Autopilot", "1.34.1-gke.3084001", docs("About Ironwood (TPU7x) in GKE")
)
V6E = _floor(
    "TPU v6e nodes",
    "1.31.2-gke.1115000",
    Source("Ray docs, 'Start Google Cloud GKE Cluster with TPUs for KubeRay'", READ),
)
V5P = _floor("TPU v5p nodes", "1.28.3-gke.1024000", docs("Plan TPUs in GKE", firm=False))
V5E = _floor("TPU v5e nodes", "1.27.2-gke.2100", docs("Plan TPUs in GKE", firm=False))
AUTOSCALING_METRIC = _floor(
    "AutoscalingMetric (HPA on metrics the node agent reads)",
    "1.35.1-gke.1396000",
    docs("Expose custom metrics for horizontal Pod autoscaling"),
)
HPA_PROFILE = _floor(
    "the performance profile of autoscalers",
    "1.31.2-gke.1138000",
    docs("Configure horizontal Pod autoscaling", firm=False),
)
SIDECARS = _floor(
    "a sidecar that starts before its server (restartPolicy of init containers)",
    "1.29.0-gke.0",
    Source("Kubernetes docs, 'Sidecar Containers': beta and on since 1.29", READ),
)
SLEEP = _floor(
    "sleep as a preStop hook",
    "1.30.0-gke.0",
    Source("Kubernetes docs, 'Container Lifecycle Hooks': beta and on since 1.30", READ),
)
SECRET_FILES = _floor(
    "secrets of Secret Manager as files",
    "1.27.14-gke.1042001",
    Source(
        "Google Cloud docs, 'Use Secret Manager add-on with Google Kubernetes Engine'", READ, False
    ),
)
INFERENCE_POOL_V1 = _floor(
    "InferencePool v1 carried by GKE", "1.34.0-gke.1626000", docs("Deploy GKE Inference Gateway")
)

NODE_FLOORS = {"v5e": V5E, "v5p": V5P, "v6e": V6E, "tpu7x": TPU7X}
"""The lowest version for nodes of each accelerator."""

ALL = (
    SUB_SLICING,
    SUPER_SLICING,
    TPU7X,
    TPU7X_AUTOPILOT,
    V6E,
    V5P,
    V5E,
    AUTOSCALING_METRIC,
    HPA_PROFILE,
    SIDECARS,
    SLEEP,
    SECRET_FILES,
    INFERENCE_POOL_V1,
)

"""Container images the program runs, and what makes a reference stay the same."""

import re
from datetime import date

from catalog.source import Source, docs

MODEL_SERVER = "docker.io/vllm/vllm-tpu:v0.32.0"
"""vLLM for TPU. The tag follows the newest packages on PyPI and was not pulled, so no digest is
known here: a stack file adds it."""

STAGING = (
    "docker.io/library/python:3.13.15-slim-trixie"
    "@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b"
)
"""Runs components/staging: Python's standard library is all it needs."""

METRICS_ADAPTER = "gcr.io/gke-release/custom-metrics-stackdriver-adapter:v0.16.11-gke.0"
"""Google's manifest names images older than its own tag, so the image is chosen here."""

SOURCES = {
    MODEL_SERVER: Source("PyPI, vllm-tpu 0.32.0", date(2026, 11, 30), firm=False),
    STAGING: Source("public Dockerfiles pinning python:3.13.15-slim-trixie", date(2026, 9, 28)),
    METRICS_ADAPTER: Source(
        "GoogleCloudPlatform/k8s-stackdriver 9500033, adapter manifests", date(2026, 9, 26)
    ),
}

IMAGE_REFERENCES = docs("Using container image digests in Kubernetes manifests")

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")
_EXACT_TAG = re.compile(r"v?\d+\.\d+\.\d+([.+-].+)?|[0-9a-f]{40}|.*\d{8}.*")


def by_digest(image: str) -> bool:
    """Whether the reference names content, not a label somebody may move."""
    _, at, digest = image.partition("@")
    return bool(at) and bool(_DIGEST.fullmatch(f"@{digest}"))


def tag(image: str) -> str | None:
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or None


def why_loose(image: str) -> str | None:
    """Why a reference may mean another image tomorrow, or None; an exact version is enough."""
    if "@" in image:
        return None if by_digest(image) else "the digest is not sha256 with 64 hexadecimal digits"
    found = tag(image)
    if found is None:
        return "it has no tag, which means latest"
    if not _EXACT_TAG.fullmatch(found):
        return f"the tag {found!r} is no exact version and moves"
    return None


def version_of(image: str) -> tuple[int, int, int] | None:
    """The release a tag begins with: v0.32.0, v0.32 or v0.32-tpu; None for one that says none."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+)|(?=-|$))", tag(image) or "")
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))

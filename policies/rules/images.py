"""Container image references."""

from __future__ import annotations

import re
from typing import Final

DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")
_MOVING_TAG: Final = re.compile(
    r"(latest|main|master|dev|edge|stable|nightly.*|.*-dev|v?\d+|v?\d+\.\d+)"
)


def tag_of(image: str) -> str | None:
    """The tag of a reference; None where there is none."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or None


def has_digest(image: str) -> bool:
    return bool(DIGEST.search(image))


def loose_reference(image: str) -> str | None:
    """Why a reference can change under us, with the fix; None where it cannot."""
    if has_digest(image):
        return None
    tag = tag_of(image)
    if tag is None:
        return "it has no tag, which means latest; add @sha256:..."
    if _MOVING_TAG.fullmatch(tag):
        return f"the tag {tag} moves; use an exact version with @sha256:..."
    return None


def registry_path(image: str) -> str:
    """The reference with its registry spelled out and without tag or digest."""
    name = image.partition("@")[0]
    head, _, rest = name.partition("/")
    if not rest or not ("." in head or ":" in head or head == "localhost"):
        name = f"docker.io/{name}" if rest else f"docker.io/library/{name}"
    base, _, last = name.rpartition("/")
    return f"{base}/{last.partition(':')[0]}"


def release_of(image: str) -> tuple[int, int] | None:
    """Major and minor version of the tag, where it is a version."""
    found = re.match(r"v?(\d+)\.(\d+)", tag_of(image) or "")
    return (int(found[1]), int(found[2])) if found else None

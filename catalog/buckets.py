"""Buckets: their names, and where weights and compiled programs lie in them."""

import hashlib
import re

from catalog.source import docs

BUCKET_NAMES = docs("Bucket naming guidelines")
SOFT_DELETE = docs("Soft delete overview")

SOFT_DELETE_DAYS = (7, 90)
"""Cloud Storage keeps deleted objects for 7 to 90 days, or not at all."""

LONGEST = 63


def weights_bucket(project: str, stack: str) -> str:
    """Bucket names are global, so a stack's own begin with the project's."""
    return f"{project}-{stack}-weights"


def cache_bucket(project: str, stack: str) -> str:
    return f"{project}-{stack}-xla-cache"


def why_illegal(name: str) -> str | None:
    """The rule a bucket name breaks, or None."""
    if not 3 <= len(name) <= LONGEST:
        return f"a bucket's name has 3 to {LONGEST} characters, this {len(name)}"
    if "." in name:
        return "a name with dots is a domain whose owner must prove it to Google"
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*[a-z0-9]", name):
        return (
            "a bucket's name has lower-case letters, digits, hyphens and underscores, and begins "
            "and ends with a letter or digit"
        )
    if name.startswith("goog") or re.search(r"g[o0][o0]gle", name):
        return "a bucket's name neither begins with goog nor contains google or a look-alike"
    return None


def split(path: str) -> tuple[str, str]:
    """`gs://bucket/a/b` as ("bucket", "a/b"); ValueError when `path` is not of that form."""
    match = re.fullmatch(r"gs://([^/]+)/([^/].*?)/?", path)
    if match is None:
        msg = f"{path!r} is not of the form gs://bucket/folder"
        raise ValueError(msg)
    return match.group(1), match.group(2)


def model_path(model: str, revision: str) -> str:
    """Folder of one revision of one model: another revision never overwrites it."""
    return f"models/{model}/{revision}"


def cache_path(image: str, slice_: str, weights: str, arguments: tuple[str, ...]) -> str:
    """Folder of the programs compiled for one image, slice, model and set of arguments.

    XLA keys its entries itself; the folder keeps what can never be hit out of each other's way.
    """
    content = "\n".join((image, weights, *arguments))
    return f"{slice_}/{hashlib.sha256(content.encode()).hexdigest()[:16]}"

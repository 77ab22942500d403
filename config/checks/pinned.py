"""Rules on a reference to an image, wherever a stack file has one."""

from collections.abc import Iterator

from catalog.images import IMAGE_REFERENCES, by_digest, why_loose
from config.problem import Problem


def stays(path: str, image: str, *, protect: bool) -> Iterator[Problem]:
    """What serves names an exact image, and by its digest in a protected stack."""
    loose = why_loose(image)
    if loose or (protect and not by_digest(image)):
        yield Problem(
            path=path,
            value=image,
            rule=loose or "a tag can be moved; in a protected stack an image has its digest",
            fix="add @sha256:..., from: docker buildx imagetools inspect "
            f"{image.partition('@')[0]} --format '{{{{.Manifest.Digest}}}}'",
            source=IMAGE_REFERENCES,
        )


def exact(path: str, image: str) -> Iterator[Problem]:
    """A job runs once: a tag will do, if it is an exact one."""
    if loose := why_loose(image):
        yield Problem(
            path=path,
            value=image,
            rule=loose,
            fix="name an exact version or a digest",
            source=IMAGE_REFERENCES,
        )

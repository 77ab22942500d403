"""Buckets for weights and compiled programs, and the way to the model hub."""

from typing import Annotated

from pydantic import AfterValidator

from catalog.buckets import (
    BUCKET_NAMES,
    SOFT_DELETE,
    SOFT_DELETE_DAYS,
    cache_bucket,
    weights_bucket,
    why_illegal,
)
from catalog.source import docs
from config.fields import Section, Whole, broken, matching


def _bucket(name: str) -> str:
    if rule := why_illegal(name):
        raise broken(rule, fix="choose another name", source=BUCKET_NAMES)
    return name


def _kept(days: int) -> int:
    low, high = SOFT_DELETE_DAYS
    if days and not low <= days <= high:
        raise broken(
            f"deleted objects are kept for {low} to {high} days, or 0 for not at all",
            fix=f"use {low}",
            source=SOFT_DELETE,
        )
    return days


BucketName = Annotated[str, AfterValidator(_bucket)]

SecretName = Annotated[
    str,
    matching(
        r"[A-Za-z0-9_-]{1,255}",
        "the name of a secret in Secret Manager has letters, digits, hyphens and underscores",
        docs("Create a secret"),
    ),
]


class Storage(Section):
    """Two buckets in the stack's region, and who may read the hub."""

    weights_bucket: BucketName | None = None
    """Name of the bucket for weights; without it PROJECT-NAME-weights."""
    cache_bucket: BucketName | None = None
    """Name of the bucket for compiled programs; without it PROJECT-NAME-xla-cache."""
    soft_delete_days: Annotated[Whole, AfterValidator(_kept)] = 7
    """How long deleted objects can be brought back: 7 to 90 days, or 0."""
    hugging_face_secret: SecretName | None = None
    """An existing secret with the hub's token, in place of `tpuserve:huggingFaceToken`."""

    def weights(self, project: str, name: str) -> str:
        return self.weights_bucket or weights_bucket(project, name)

    def cache(self, project: str, name: str) -> str:
        return self.cache_bucket or cache_bucket(project, name)

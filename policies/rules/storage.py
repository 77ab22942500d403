"""Buckets and who may use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules import links
from rules.kinds import BUCKET, BUCKET_BINDING, BUCKET_MEMBER
from rules.model import DROP, Guard, Reference, Resource, Setting, Severity, rule

GRANTS = BUCKET_MEMBER | BUCKET_BINDING
EVERYONE = ("allUsers", "allAuthenticatedUsers")


@rule(
    "STO-01",
    "Buckets cannot be made public.",
    severity=Severity.HIGH,
    on=BUCKET,
    fix="Set publicAccessPrevention to enforced.",
    url=links.STORAGE,
    refs=[links.gcp_cis("5.1"), links.checkov("CKV_GCP_114")],
    guards=[
        Guard("publicAccessPrevention", "inherited"),
        Guard("publicAccessPrevention", DROP),
    ],
)
def public_access_prevented(bucket: Resource) -> Iterator[str]:
    if bucket.text("publicAccessPrevention") != "enforced":
        yield "publicAccessPrevention is not enforced: set it"


@rule(
    "STO-02",
    "Access to a bucket is decided by IAM alone.",
    severity=Severity.MEDIUM,
    on=BUCKET,
    fix="Set uniformBucketLevelAccess to true.",
    url=links.STORAGE,
    refs=[links.gcp_cis("5.2"), links.checkov("CKV_GCP_29"), links.trivy("GCP-0002")],
    guards=[
        Guard("uniformBucketLevelAccess", False),
        Guard("uniformBucketLevelAccess", DROP),
    ],
)
def uniform_access(bucket: Resource) -> Iterator[str]:
    if bucket.flag("uniformBucketLevelAccess") is not True:
        yield "uniformBucketLevelAccess is off: set it to true"


@rule(
    "STO-03",
    "No bucket is granted to everyone.",
    severity=Severity.CRITICAL,
    on=GRANTS,
    fix="Grant the bucket to one principal.",
    url=links.STORAGE,
    refs=[links.checkov("CKV_GCP_28"), links.trivy("GCP-0001")],
    guards=[
        Guard("member", "allUsers", on=BUCKET_MEMBER),
        Guard("member", "allAuthenticatedUsers", on=BUCKET_MEMBER),
        Guard("members", ["allUsers"], on=BUCKET_BINDING),
    ],
)
def not_for_everyone(grant: Resource) -> Iterator[str]:
    for member in [grant.text("member"), *grant.texts("members")]:
        if member in EVERYONE:
            yield f"the bucket is granted to {member}: grant it to one principal"


@rule(
    "STO-04",
    "Deleted objects can be brought back.",
    severity=Severity.LOW,
    on=BUCKET,
    fix="Keep soft delete on (the default), or turn versioning on.",
    url=links.STORAGE,
    refs=[links.checkov("CKV_GCP_78"), links.trivy("GCP-0078")],
    guards=[Guard((), lambda b: {**b, "versioning": {"enabled": False},
                                 "softDeletePolicy": {"retentionDurationSeconds": 0}})],
)  # fmt: skip
def recoverable(bucket: Resource) -> Iterator[str]:
    kept = bucket.number("softDeletePolicy.retentionDurationSeconds")
    if kept == 0 and bucket.flag("versioning.enabled") is not True:
        yield "softDeletePolicy keeps nothing and versioning is off: turn one of them on"


@rule(
    "STO-05",
    "Buckets log their use.",
    severity=Severity.LOW,
    on=BUCKET,
    fix="Set logging.logBucket, or turn on data-access audit logs for Cloud Storage.",
    url=links.STORAGE,
    refs=[links.checkov("CKV_GCP_62"), links.trivy("GCP-0077")],
    guards=[Guard("logging", DROP)],
)
def access_logged(bucket: Resource) -> Iterator[str]:
    if not bucket.has("logging.logBucket"):
        yield "logging.logBucket is missing: name a bucket for access logs"


@rule(
    "STO-06",
    "Buckets are encrypted with a key of the project.",
    severity=Severity.LOW,
    on=BUCKET,
    fix="Set encryption.defaultKmsKeyName.",
    url=links.STORAGE,
    refs=[links.trivy("GCP-0066")],
    guards=[Guard("encryption", DROP)],
)
def own_key(bucket: Resource) -> Iterator[str]:
    if not bucket.has("encryption.defaultKmsKeyName"):
        yield "encryption.defaultKmsKeyName is missing: name a Cloud KMS key"


@rule(
    "STO-08",
    "Destroying the stack does not delete a bucket's objects.",
    severity=Severity.HIGH,
    on=BUCKET,
    fix="Leave forceDestroy false.",
    url=links.STORAGE,
    guards=[Guard("forceDestroy", True)],
)
def no_force_destroy(bucket: Resource) -> Iterator[str]:
    if bucket.flag("forceDestroy") is True:
        yield "forceDestroy is on: set it to false; weights take hours to fetch again"


@rule(
    "STO-09",
    "Bucket grants carry the least role.",
    severity=Severity.MEDIUM,
    on=GRANTS,
    fix="Use storage.objectViewer for readers and storage.objectUser for writers.",
    url=links.IAM,
    refs=[Reference("Trivy", "", "GCP-0007")],
    settings={
        "roles": Setting(
            "array",
            [
                "roles/storage.objectViewer",
                "roles/storage.objectUser",
                "roles/storage.objectCreator",
                "roles/storage.bucketViewer",
                "roles/storage.legacyBucketReader",
            ],
            "roles a bucket may be granted with",
        )
    },
    guards=[
        Guard("role", "roles/storage.admin"),
        Guard("role", "roles/storage.objectAdmin"),
    ],
)
def least_bucket_role(grant: Resource, settings: dict[str, Any]) -> Iterator[str]:
    role = grant.text("role")
    if role is not None and role not in settings["roles"]:
        yield f"role is {role}: use one of {', '.join(settings['roles'])}"


RULES = [
    public_access_prevented,
    uniform_access,
    not_for_everyone,
    recoverable,
    access_logged,
    own_key,
    no_force_destroy,
    least_bucket_role,
]

"""One stack's home: a versioned bucket, a key for its secrets, two identities."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

NINETY_DAYS = "7776000s"
THIRTY_DAYS_SECONDS = 2_592_000
_KEPT_VERSIONS = 100


@dataclass(frozen=True, kw_only=True)
class StackHomeArgs:
    project: str
    location: str
    stack: str
    key_ring: pulumi.Input[str]
    people: Sequence[str]
    preview_roles: Sequence[str]
    apply_roles: Sequence[str]
    protect: bool


class StackHome(pulumi.ComponentResource):
    """What `pulumi -s STACK` needs outside the stack itself.

    The preview identity reads state and decrypts; only the apply identity writes. Each stack has a
    bucket and a key of its own, so that dev's identities cannot touch prod's state.
    """

    bucket: pulumi.Output[str]
    key: pulumi.Output[str]
    preview: gcp.serviceaccount.Account
    apply_: gcp.serviceaccount.Account

    def __init__(
        self, name: str, args: StackHomeArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:bootstrap:StackHome", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        labels = {"managed-by": "pulumi", "stack": args.stack, "env": args.stack}
        guarded = pulumi.ResourceOptions(parent=self, protect=args.protect)

        bucket = gcp.storage.Bucket(
            f"{name}-state",
            name=f"{args.project}-tpuserve-{args.stack}-state",
            project=args.project,
            location=args.location.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            labels=labels,
            versioning=gcp.storage.BucketVersioningArgs(enabled=True),
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(
                retention_duration_seconds=THIRTY_DAYS_SECONDS
            ),
            # Every update writes the state again: old versions are bounded by number, not by age.
            lifecycle_rules=[
                gcp.storage.BucketLifecycleRuleArgs(
                    action=gcp.storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=gcp.storage.BucketLifecycleRuleConditionArgs(
                        num_newer_versions=_KEPT_VERSIONS, with_state="ARCHIVED"
                    ),
                )
            ],
            opts=guarded,
        )
        key = gcp.kms.CryptoKey(
            f"{name}-secrets",
            name=f"tpuserve-{args.stack}",
            key_ring=args.key_ring,
            rotation_period=NINETY_DAYS,
            labels=labels,
            opts=guarded,
        )
        self.preview = gcp.serviceaccount.Account(
            f"{name}-preview",
            account_id=f"tpuserve-preview-{args.stack}",
            project=args.project,
            display_name=f"tpuserve: previews {args.stack}",
            opts=child,
        )
        self.apply_ = gcp.serviceaccount.Account(
            f"{name}-apply",
            account_id=f"tpuserve-apply-{args.stack}",
            project=args.project,
            display_name=f"tpuserve: updates {args.stack}",
            opts=child,
        )
        reads = ("roles/storage.objectViewer", "roles/cloudkms.cryptoKeyDecrypter")
        writes = ("roles/storage.objectUser", "roles/cloudkms.cryptoKeyEncrypterDecrypter")
        for role_name, account, (on_bucket, on_key), on_project in (
            ("preview", self.preview, reads, args.preview_roles),
            ("apply", self.apply_, writes, args.apply_roles),
        ):
            _grant(
                f"{name}-{role_name}",
                account.member,
                _Grants(
                    bucket=bucket, on_bucket=on_bucket, key=key, on_key=on_key, project=args.project
                ),
                child,
            )
            for role in on_project:
                gcp.projects.IAMMember(
                    f"{name}-{role_name}-{_slug(role)}",
                    project=args.project,
                    role=role,
                    member=account.member,
                    opts=child,
                )
        for person in args.people:
            _grant(
                f"{name}-{_slug(person)}",
                person,
                _Grants(
                    bucket=bucket,
                    on_bucket=writes[0],
                    key=key,
                    on_key=writes[1],
                    project=args.project,
                ),
                child,
            )

        self.bucket = bucket.name
        self.key = key.id
        self.register_outputs({"bucket": self.bucket, "key": self.key})


@dataclass(frozen=True, kw_only=True)
class _Grants:
    bucket: gcp.storage.Bucket
    on_bucket: str
    key: gcp.kms.CryptoKey
    on_key: str
    project: str


def _grant(
    name: str, member: pulumi.Input[str], grants: _Grants, child: pulumi.ResourceOptions
) -> None:
    gcp.storage.BucketIAMMember(
        f"{name}-state",
        bucket=grants.bucket.name,
        role=grants.on_bucket,
        member=member,
        opts=child,
    )
    gcp.kms.CryptoKeyIAMMember(
        f"{name}-secrets",
        crypto_key_id=grants.key.id,
        role=grants.on_key,
        member=member,
        opts=child,
    )


def _slug(text: str) -> str:
    """A role or member as part of a resource name: `roles/compute.viewer` is `compute-viewer`."""
    last = text.removeprefix("roles/")
    return "".join(char if char.isalnum() else "-" for char in last).strip("-").lower()

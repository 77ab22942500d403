"""Buckets for weights and compiled programs, and the Jobs that fill the first."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from catalog.models import ModelProfile
from catalog.serving import staging_budget_seconds
from components import pods
from components.secrets import secret_file, secret_volume
from components.workload_identity import principal

NAMESPACE = "model-store"
STAGER = "stager"
"""The account of the staging Jobs: the only one that writes weights or reads the hub's token."""

READ = "roles/storage.objectViewer"
WRITE = "roles/storage.objectUser"
CREATE = "roles/storage.objectCreator"
"""Creates objects and can neither replace nor delete one."""

TOKEN_MOUNT = "/var/run/hugging-face"  # noqa: S105
FINAL = 3
"""Exit code of a refusal by the hub (components/staging): another attempt ends the same way."""
GRACE_SECONDS = 600
"""For a node and an image, beside the copy itself."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A server's Kubernetes service account, and a bucket of others it reads weights from."""

    namespace: str
    account: str
    bucket: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelStoreArgs:
    project: str
    region: str
    weights_bucket: str
    cache_bucket: str
    soft_delete_days: int
    force_destroy: bool
    """Whether destroying the stack deletes buckets that hold objects."""
    labels: Mapping[str, str]
    readers: Mapping[str, Reader]
    after: Sequence[pulumi.Resource] = ()


class ModelStore(pulumi.ComponentResource):
    """The buckets, and who may do what in them."""

    weights: pulumi.Output[str]
    cache: pulumi.Output[str]
    project_number: pulumi.Output[str]
    stager: pulumi.Output[str]
    """The principal that fills the weights bucket."""
    may_stage: Sequence[pulumi.Resource]
    may_read: Mapping[str, Sequence[pulumi.Resource]]
    """Grants by reader; a server waits for its own."""

    def __init__(
        self, name: str, args: ModelStoreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:storage:ModelStore", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.after)))

        weights = _bucket(f"{name}-weights", args.weights_bucket, args, first)
        cache = _bucket(f"{name}-cache", args.cache_bucket, args, first)

        def member(namespace: str, account: str) -> pulumi.Output[str]:
            number = weights.project_number.apply(str)
            return principal(args.project, number, namespace=namespace, account=account)

        def grant(role_name: str, bucket: pulumi.Input[str], role: str, to: Reader) -> _Grant:
            return gcp.storage.BucketIAMMember(
                f"{name}-{role_name}",
                bucket=bucket,
                role=role,
                member=member(to.namespace, to.account),
                opts=first,
            )

        stager = Reader(namespace=NAMESPACE, account=STAGER)
        self.may_stage = [grant("stager", weights.name, WRITE, stager)]
        self.may_read = {
            key: [
                grant(f"{key}-weights", reader.bucket or weights.name, READ, reader),
                grant(f"{key}-cache-read", cache.name, READ, reader),
                grant(f"{key}-cache-create", cache.name, CREATE, reader),
            ]
            for key, reader in args.readers.items()
        }

        self.weights = weights.name
        self.cache = cache.name
        self.project_number = weights.project_number.apply(str)
        self.stager = member(NAMESPACE, STAGER)
        self.register_outputs(
            {"weights": self.weights, "cache": self.cache, "project_number": self.project_number}
        )


_Grant = gcp.storage.BucketIAMMember


def _bucket(
    name: str, physical: str, args: ModelStoreArgs, opts: pulumi.ResourceOptions
) -> gcp.storage.Bucket:
    return gcp.storage.Bucket(
        name,
        name=physical,
        project=args.project,
        # Where the TPUs are: another region's bucket is slow and its traffic is billed. The API
        # answers in capitals.
        location=args.region.upper(),
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(
            retention_duration_seconds=args.soft_delete_days * 86400
        ),
        force_destroy=args.force_destroy,
        labels=dict(args.labels),
        opts=opts,
    )


@dataclass(frozen=True, kw_only=True)
class Staged:
    """One revision of one model to have in the bucket."""

    model: ModelProfile
    revision: str

    @property
    def content(self) -> tuple[str, str]:
        return self.model.id, self.revision


@dataclass(frozen=True, kw_only=True)
class StagingArgs:
    weights_bucket: pulumi.Input[str]
    image: str
    models: Mapping[str, Staged]
    token: str | None
    """Secret Manager path of the hub's token, when there is one."""
    after: Sequence[pulumi.Resource] = ()


class Staging(pulumi.ComponentResource):
    """Jobs that copy weights into the bucket while TPU nodes are still being made."""

    staged: Mapping[str, Sequence[pulumi.Resource]]
    """By model: its Job, which exists once every file of the revision is in the bucket."""

    def __init__(
        self, name: str, args: StagingArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:storage:Staging", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)

        home = pods.namespace(f"{name}-namespace", NAMESPACE, level="restricted", opts=child)
        inside = home.metadata.name
        pods.deny_all(f"{name}-deny-all", inside, child)
        account = pods.account(f"{name}-account", STAGER, inside, child)
        scripts = pods.scripts(f"{name}-scripts", inside, child)
        token = None
        if args.token is not None:
            token = secret_file(f"{name}-token", "hugging-face-token", inside, args.token, child)

        waits = [account, *args.after, *([token] if token else [])]
        options = child.merge(pulumi.ResourceOptions(depends_on=waits))
        jobs: dict[tuple[str, str], pulumi.Resource] = {}
        for key, staged in args.models.items():
            # Served twice, a revision is copied once, under the first key.
            if staged.content not in jobs:
                jobs[staged.content] = k8s.batch.v1.Job(
                    f"{name}-{key}",
                    metadata=_metadata(key, staged, args, inside),
                    spec=_job(key, staged, args, scripts),
                    opts=options.merge(
                        pulumi.ResourceOptions(
                            custom_timeouts=pulumi.CustomTimeouts(create=f"{_patience(staged)}s")
                        )
                    ),
                )
        self.staged = {key: [jobs[staged.content]] for key, staged in args.models.items()}
        self.register_outputs({})


def _patience(staged: Staged) -> int:
    return staging_budget_seconds(staged.model) + GRACE_SECONDS


def _metadata(
    key: str, staged: Staged, args: StagingArgs, namespace: pulumi.Input[str]
) -> k8s.meta.v1.ObjectMetaArgs:
    # A Job never changes: other content is another Job, by name too.
    content = f"{staged.model.id}@{staged.revision} {args.image} {args.token} {pods.SCRIPTS_DIGEST}"
    return k8s.meta.v1.ObjectMetaArgs(
        name=f"stage-{key}-{hashlib.sha256(content.encode()).hexdigest()[:8]}",
        namespace=namespace,
        labels=pods.labels("staging", key),
        annotations={"pulumi.com/timeoutSeconds": str(_patience(staged))},
    )


def _job(
    key: str, staged: Staged, args: StagingArgs, scripts: k8s.core.v1.ConfigMap
) -> k8s.batch.v1.JobSpecArgs:
    core = k8s.core.v1
    environment: dict[str, pulumi.Input[str]] = {
        "BUCKET": args.weights_bucket,
        "MODEL": staged.model.id,
        "REVISION": staged.revision,
    }
    volumes, mounts = [pods.scripts_volume(scripts)], []
    if args.token is not None:
        environment["HUB_TOKEN_FILE"] = f"{TOKEN_MOUNT}/value"
        volumes.append(secret_volume("hub-token", "hugging-face-token"))
        mounts.append(
            core.VolumeMountArgs(name="hub-token", mount_path=TOKEN_MOUNT, read_only=True)
        )
    container = pods.script(
        "stage",
        "model",
        image=args.image,
        environment=environment,
        mounts=mounts,
        cpu="2",
        memory="3Gi",
    )
    return k8s.batch.v1.JobSpecArgs(
        backoff_limit=6,
        active_deadline_seconds=staging_budget_seconds(staged.model),
        pod_failure_policy=k8s.batch.v1.PodFailurePolicyArgs(
            rules=[
                # A drained node is nobody's fault and costs no attempt.
                k8s.batch.v1.PodFailurePolicyRuleArgs(
                    action="Ignore",
                    on_pod_conditions=[
                        k8s.batch.v1.PodFailurePolicyOnPodConditionsPatternArgs(
                            type="DisruptionTarget", status="True"
                        )
                    ],
                ),
                k8s.batch.v1.PodFailurePolicyRuleArgs(
                    action="FailJob",
                    on_exit_codes=k8s.batch.v1.PodFailurePolicyOnExitCodesRequirementArgs(
                        container_name="stage", operator="In", values=[FINAL]
                    ),
                ),
            ]
        ),
        template=core.PodTemplateSpecArgs(
            metadata=k8s.meta.v1.ObjectMetaArgs(labels=pods.labels("staging", key)),
            spec=core.PodSpecArgs(
                service_account_name=STAGER,
                automount_service_account_token=False,
                enable_service_links=False,
                restart_policy="Never",
                security_context=core.PodSecurityContextArgs(
                    run_as_non_root=True,
                    seccomp_profile=core.SeccompProfileArgs(type="RuntimeDefault"),
                ),
                containers=[container],
                volumes=volumes,
            ),
        ),
    )

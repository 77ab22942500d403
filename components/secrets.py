"""Secrets in Secret Manager, and the files through which pods read them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

ACCESSOR = "roles/secretmanager.secretAccessor"
DRIVER = "secrets-store-gke.csi.k8s.io"
"""Of GKE's Secret Manager add-on; the secret becomes a file in memory and no Kubernetes Secret."""


@dataclass(frozen=True, kw_only=True)
class HuggingFaceTokenArgs:
    project: str
    region: str
    secret: str
    """Name in Secret Manager."""
    token: pulumi.Output[str] | None
    """The token, marked secret; None when the secret exists already and is only read."""
    reader: pulumi.Input[str]
    """The principal of the staging Job; nobody else reads the token."""
    protect: bool
    after: Sequence[pulumi.Resource] = ()


class HuggingFaceToken(pulumi.ComponentResource):
    """The hub's token where the staging Job alone can read it."""

    path: str
    """projects/P/secrets/S."""
    ready: Sequence[pulumi.Resource]
    """Exist once the token is in the secret and may be read."""

    def __init__(
        self, name: str, args: HuggingFaceTokenArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:secrets:HuggingFaceToken", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.after)))

        ready: list[pulumi.Resource] = []
        held: pulumi.Input[str] = args.secret
        if args.token is not None:
            secret = gcp.secretmanager.Secret(
                f"{name}-secret",
                project=args.project,
                secret_id=args.secret,
                replication=gcp.secretmanager.SecretReplicationArgs(
                    user_managed=gcp.secretmanager.SecretReplicationUserManagedArgs(
                        replicas=[
                            gcp.secretmanager.SecretReplicationUserManagedReplicaArgs(
                                location=args.region
                            )
                        ]
                    )
                ),
                deletion_protection=args.protect,
                opts=first,
            )
            held = secret.secret_id
            ready.append(
                gcp.secretmanager.SecretVersion(
                    f"{name}-version", secret=secret.id, secret_data=args.token, opts=child
                )
            )
        ready.append(
            gcp.secretmanager.SecretIamMember(
                f"{name}-reader",
                project=args.project,
                secret_id=held,
                role=ACCESSOR,
                member=args.reader,
                opts=first,
            )
        )

        self.path = f"projects/{args.project}/secrets/{args.secret}"
        self.ready = ready
        self.register_outputs({"path": self.path})


def secret_file(
    name: str,
    physical: str,
    namespace: pulumi.Input[str],
    secret: str,
    opts: pulumi.ResourceOptions,
) -> k8s.apiextensions.CustomResource:
    """What the add-on's driver mounts: the newest version of a secret as a file called `value`."""
    return k8s.apiextensions.CustomResource(
        name,
        api_version="secrets-store.csi.x-k8s.io/v1",
        kind="SecretProviderClass",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=physical, namespace=namespace),
        spec={
            "provider": "gke",
            "parameters": {
                "secrets": f'- resourceName: "{secret}/versions/latest"\n  path: "value"\n'
            },
        },
        opts=opts,
    )


def secret_volume(name: str, provider_class: str) -> k8s.core.v1.VolumeArgs:
    return k8s.core.v1.VolumeArgs(
        name=name,
        csi=k8s.core.v1.CSIVolumeSourceArgs(
            driver=DRIVER,
            read_only=True,
            volume_attributes={"secretProviderClass": provider_class},
        ),
    )

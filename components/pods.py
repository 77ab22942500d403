"""What pods of this program have in common: names, least rights, the staging scripts."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

SCRIPTS = {
    path.name: path.read_text()
    for path in sorted(resources.files("components.staging").iterdir(), key=lambda path: path.name)
    if path.name.endswith(".py")
}
"""The package components/staging, as pods get it."""

SCRIPTS_DIGEST = hashlib.sha256("\0".join([*SCRIPTS, *SCRIPTS.values()]).encode()).hexdigest()[:10]
SCRIPTS_MOUNT = "/opt/scripts"

NOBODY = 65532
"""A user id no image gives a meaning to."""

DENY_ALL = "deny-all"


def labels(name: str, instance: str) -> dict[str, str]:
    """Kubernetes' recommended labels; the first two select the pods."""
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/part-of": "tpuserve",
    }


def confined(*, user: int | None = NOBODY) -> k8s.core.v1.SecurityContextArgs:
    """The restricted Pod Security Standard; without a user the image's own, on a writable disk."""
    return k8s.core.v1.SecurityContextArgs(
        allow_privilege_escalation=False,
        capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
        seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
        run_as_non_root=True if user else None,
        run_as_user=user,
        read_only_root_filesystem=True if user else None,
    )


def namespace(
    name: str, physical: str, *, level: str, opts: pulumi.ResourceOptions
) -> k8s.core.v1.Namespace:
    """A namespace that enforces a Pod Security level and warns of the strictest."""
    pod_security = "pod-security.kubernetes.io"
    return k8s.core.v1.Namespace(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=physical,
            labels={
                "app.kubernetes.io/part-of": "tpuserve",
                f"{pod_security}/enforce": level,
                f"{pod_security}/warn": "restricted",
                f"{pod_security}/audit": "restricted",
            },
        ),
        opts=opts,
    )


def deny_all(
    name: str,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
    physical: str = DENY_ALL,
) -> k8s.networking.v1.NetworkPolicy:
    """Nobody reaches a pod of this namespace unless another policy lets them in."""
    return k8s.networking.v1.NetworkPolicy(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=physical, namespace=namespace),
        spec=k8s.networking.v1.NetworkPolicySpecArgs(
            pod_selector=k8s.meta.v1.LabelSelectorArgs(), policy_types=["Ingress"]
        ),
        opts=opts,
    )


def account(
    name: str, physical: str, namespace: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> k8s.core.v1.ServiceAccount:
    """An identity for Google's APIs; no pod of it gets a token for Kubernetes' own."""
    return k8s.core.v1.ServiceAccount(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=physical, namespace=namespace),
        automount_service_account_token=False,
        opts=opts,
    )


def scripts(
    name: str, namespace: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> k8s.core.v1.ConfigMap:
    """The staging package; other content has another name, so old pods keep theirs."""
    return k8s.core.v1.ConfigMap(
        name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=f"staging-{SCRIPTS_DIGEST}", namespace=namespace),
        data={_key(file): text for file, text in SCRIPTS.items()},
        immutable=True,
        opts=opts,
    )


def _key(file: str) -> str:
    # Pulumi's engine takes names that begin with two underscores for its own.
    return file.replace("__", "")


def scripts_files() -> list[dict[str, str]]:
    """Where a volume puts each key of that ConfigMap."""
    return [{"key": _key(file), "path": f"staging/{file}"} for file in SCRIPTS]


def scripts_volume(config_map: k8s.core.v1.ConfigMap) -> k8s.core.v1.VolumeArgs:
    return k8s.core.v1.VolumeArgs(
        name="scripts",
        config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(
            name=config_map.metadata.name,
            items=[
                k8s.core.v1.KeyToPathArgs(key=each["key"], path=each["path"])
                for each in scripts_files()
            ],
        ),
    )


def script(
    name: str,
    command: str,
    *,
    image: str,
    environment: Mapping[str, pulumi.Input[str]],
    mounts: Sequence[k8s.core.v1.VolumeMountArgs],
    cpu: str,
    memory: str,
    disk: str | None = None,
    **more: Any,
) -> k8s.core.v1.ContainerArgs:
    """A container that runs one command of the staging package."""
    kept = {"memory": memory, **({"ephemeral-storage": disk} if disk else {})}
    return k8s.core.v1.ContainerArgs(
        name=name,
        image=image,
        image_pull_policy="IfNotPresent",
        command=["python3", "-B", "-m", "staging", command],
        working_dir=SCRIPTS_MOUNT,
        env=[k8s.core.v1.EnvVarArgs(name=key, value=value) for key, value in environment.items()],
        resources=k8s.core.v1.ResourceRequirementsArgs(requests={"cpu": cpu, **kept}, limits=kept),
        security_context=confined(),
        volume_mounts=[
            k8s.core.v1.VolumeMountArgs(name="scripts", mount_path=SCRIPTS_MOUNT, read_only=True),
            *mounts,
        ],
        **more,
    )


def from_namespaces(
    namespaces: Sequence[str],
) -> list[k8s.networking.v1.NetworkPolicyPeerArgs]:
    """All pods of these namespaces, as callers."""
    return [
        k8s.networking.v1.NetworkPolicyPeerArgs(
            namespace_selector=k8s.meta.v1.LabelSelectorArgs(
                match_labels={"kubernetes.io/metadata.name": each}
            )
        )
        for each in namespaces
    ]


def from_ranges(ranges: Sequence[str]) -> list[k8s.networking.v1.NetworkPolicyPeerArgs]:
    """Addresses, as callers."""
    return [
        k8s.networking.v1.NetworkPolicyPeerArgs(ip_block=k8s.networking.v1.IPBlockArgs(cidr=each))
        for each in ranges
    ]

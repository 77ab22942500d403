"""The pod of one vLLM server: the server, and two containers that move compiled programs."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from catalog.buckets import split
from catalog.serving import (
    CACHE_MOUNT,
    GRACE_SECONDS,
    LEAVE_SECONDS,
    PORT,
    SHARED_MEMORY_GIB,
    WEIGHTS_MOUNT,
    XLA_CACHE,
    Engine,
)
from components import pods
from components.secrets import secret_volume

APP = "vllm"
MODEL_LABEL = "model"
"""AutoscalingMetric selects pods by labels without dots and slashes alone (GKE docs, 'Expose custom
metrics for autoscaling', read 2026-11-30)."""
KEY_MOUNT = "/var/run/api-key"
CACHE_GIB = 7
OWN_DISK_GIB = 1
"""For logs and scratch files of each container. With the cache and the mount's sidecar this is all
that Autopilot allows (catalog/autopilot.py); a pod that takes more than it asked for is evicted."""

PROBE_SECONDS = 10
MODELS = "/v1/models"
HEALTH = "/health"

READ_KEY = f"""\
VLLM_API_KEY="$(tr -d '[:space:]' < {KEY_MOUNT}/value)"
[ -n "$VLLM_API_KEY" ] || {{ echo "the API key in {KEY_MOUNT} is missing or empty" >&2; exit 1; }}
export VLLM_API_KEY
"""
"""The key is read from a file in memory: it stands in no pod spec. Without one vLLM would start and
ask nobody for it; bearer tokens have no white space (RFC 6750)."""
WITH_KEY = f'{READ_KEY}exec vllm "$@"\n'


def ask_with_key(port: int, path: str) -> list[str]:
    """A probe's command that asks the server with its key."""
    code = (
        "import urllib.request as u; "
        f"key = ''.join(open('{KEY_MOUNT}/value').read().split()); "
        f"u.urlopen(u.Request('http://127.0.0.1:{port}{path}', "
        "headers={'Authorization': 'Bearer ' + key}), timeout=4)"
    )
    return ["python3", "-c", code]


TPU = "google.com/tpu"
SPOT = "cloud.google.com/gke-spot"


@dataclass(frozen=True, kw_only=True)
class ServerPod:
    """What a server's pod is made of."""

    engine: Engine
    node_selector: Mapping[str, str]
    scripts: k8s.core.v1.ConfigMap
    script_image: str
    cache_bucket: pulumi.Input[str]
    keyed: bool
    """Whether callers show a key."""


def server_template(name: str, args: ServerPod) -> k8s.core.v1.PodTemplateSpecArgs:
    core = k8s.core.v1
    return core.PodTemplateSpecArgs(
        metadata=k8s.meta.v1.ObjectMetaArgs(
            labels={**pods.labels(APP, name), MODEL_LABEL: name},
            annotations=_fuse_limits(args.engine) or None,
        ),
        spec=core.PodSpecArgs(
            service_account_name=name,
            automount_service_account_token=False,
            # A Service called vllm would set VLLM_PORT to a URL, and vLLM would not start.
            enable_service_links=False,
            node_selector=dict(args.node_selector),
            tolerations=[
                core.TolerationArgs(key=key, operator="Exists", effect="NoSchedule")
                for key in (TPU, *([SPOT] if SPOT in args.node_selector else []))
            ],
            termination_grace_period_seconds=GRACE_SECONDS,
            security_context=core.PodSecurityContextArgs(
                seccomp_profile=core.SeccompProfileArgs(type="RuntimeDefault")
            ),
            init_containers=[_programs("fetch", args), _programs("publish", args)],
            containers=[_server(args)],
            volumes=_volumes(name, args),
        ),
    )


def _server(args: ServerPod) -> k8s.core.v1.ContainerArgs:
    core, engine, keyed = k8s.core.v1, args.engine, args.keyed
    mounts = {"shared-memory": "/dev/shm", "programs": CACHE_MOUNT}  # noqa: S108
    mounts |= {"weights": WEIGHTS_MOUNT} if engine.loader == "fuse" else {}
    mounts |= {"api-key": KEY_MOUNT} if keyed else {}
    chips = str(engine.slice.machine.chips)
    kept = {
        "memory": f"{engine.memory_gib}Gi",
        # Volumes on disk count as the container's.
        "ephemeral-storage": f"{CACHE_GIB + OWN_DISK_GIB}Gi",
        TPU: chips,
    }
    return core.ContainerArgs(
        name=APP,
        image=engine.image,
        image_pull_policy="IfNotPresent",
        command=["sh", "-c", WITH_KEY, APP] if keyed else ["vllm"],
        args=list(engine.arguments),
        env=[core.EnvVarArgs(name=key, value=value) for key, value in engine.environment.items()],
        ports=[core.ContainerPortArgs(name="http", container_port=PORT)],
        resources=core.ResourceRequirementsArgs(
            requests={"cpu": str(engine.cpus), **kept}, limits=kept
        ),
        startup_probe=_probe(MODELS, keyed, failures=-(-engine.startup_seconds // PROBE_SECONDS)),
        readiness_probe=_probe(MODELS, keyed, failures=3),
        # Asks the engine, not only the HTTP server, and stays open when a key is set.
        liveness_probe=_probe(HEALTH, keyed=False, failures=6),
        lifecycle=core.LifecycleArgs(
            pre_stop=core.LifecycleHandlerArgs(sleep=core.SleepActionArgs(seconds=LEAVE_SECONDS))
        ),
        security_context=pods.confined(user=None),
        volume_mounts=[
            core.VolumeMountArgs(
                name=volume, mount_path=path, read_only=volume in ("weights", "api-key") or None
            )
            for volume, path in mounts.items()
        ],
    )


def _probe(path: str, keyed: bool, *, failures: int) -> k8s.core.v1.ProbeArgs:
    core = k8s.core.v1
    asked = core.ExecActionArgs(command=ask_with_key(PORT, path)) if keyed else None
    return core.ProbeArgs(
        exec_=asked,
        http_get=None if keyed else core.HTTPGetActionArgs(path=path, port="http"),
        period_seconds=PROBE_SECONDS,
        timeout_seconds=5,
        failure_threshold=failures,
    )


def _programs(command: str, args: ServerPod) -> k8s.core.v1.ContainerArgs:
    """Compiled programs in before the server starts, or out once it is ready."""
    publish = command == "publish"
    environment: dict[str, pulumi.Input[str]] = {
        "BUCKET": args.cache_bucket,
        "PREFIX": args.engine.cache_folder,
        "FOLDER": XLA_CACHE,
    }
    if publish:
        environment["READY_URL"] = f"http://127.0.0.1:{PORT}{HEALTH}"
    return pods.script(
        command,
        command,
        image=args.script_image,
        environment=environment,
        mounts=[k8s.core.v1.VolumeMountArgs(name="programs", mount_path=CACHE_MOUNT)],
        cpu="250m",
        memory="2Gi",
        disk=f"{OWN_DISK_GIB}Gi",
        # A sidecar: it starts before the server and ends after it.
        restart_policy="Always" if publish else None,
    )


def _volumes(name: str, args: ServerPod) -> list[k8s.core.v1.VolumeArgs]:
    core, engine = k8s.core.v1, args.engine

    def memory(volume: str, gib: int) -> k8s.core.v1.VolumeArgs:
        limit = core.EmptyDirVolumeSourceArgs(medium="Memory", size_limit=f"{gib}Gi")
        return core.VolumeArgs(name=volume, empty_dir=limit)

    volumes = [
        memory("shared-memory", SHARED_MEMORY_GIB),
        core.VolumeArgs(
            name="programs",
            empty_dir=core.EmptyDirVolumeSourceArgs(size_limit=f"{CACHE_GIB}Gi"),
        ),
        pods.scripts_volume(args.scripts),
    ]
    if engine.loader == "fuse":
        bucket, folder = split(engine.weights)
        volumes += [
            # The name by which the driver finds the place of its file cache.
            memory("gke-gcsfuse-cache", engine.fuse_cache_gib),
            core.VolumeArgs(
                name="weights",
                csi=core.CSIVolumeSourceArgs(
                    driver="gcsfuse.csi.storage.gke.io",
                    read_only=True,
                    volume_attributes={
                        "bucketName": bucket,
                        "mountOptions": f"implicit-dirs,only-dir={folder},"
                        "file-cache:max-size-mb:-1,file-cache:enable-parallel-downloads:true",
                    },
                ),
            ),
        ]
    if args.keyed:
        volumes.append(secret_volume("api-key", f"{name}-api-key"))
    return volumes


def _fuse_limits(engine: Engine) -> dict[str, str]:
    """Limits of the mount's sidecar: its defaults end in OOM, and Autopilot refuses none at all."""
    if engine.loader == "streamer":
        return {}
    return {
        "gke-gcsfuse/volumes": "true",
        "gke-gcsfuse/cpu-limit": "8",
        "gke-gcsfuse/memory-limit": f"{engine.fuse_memory_gib}Gi",
        # What it caches is in memory.
        "gke-gcsfuse/ephemeral-storage-limit": f"{OWN_DISK_GIB}Gi",
    }

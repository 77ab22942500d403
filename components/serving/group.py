"""One group of model servers on one slice: what runs in its pods, and the object that asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from catalog.compatibility import Version
from catalog.disaggregated import (
    ADDRESS_ENVIRONMENT,
    ENGINE_PORTS,
    PROCESS_PORT,
    RAY_PORT,
    RELEASE_PORT,
    TRANSFER_PORT,
    Role,
    leader_command,
    worker_command,
)
from catalog.groups import Group, leader_worker_set, renewed_name
from catalog.partitions import TPU
from catalog.quantities import canonical
from catalog.router import ENGINE_LABEL, POOL_MEMBER_LABEL, ROLE_LABEL, RouterRelease
from catalog.router import sidecar_arguments as routing_arguments
from catalog.serving import (
    CACHE_MOUNT,
    GRACE_SECONDS,
    LEAVE_SECONDS,
    PORT,
    SHARED_MEMORY_GIB,
    XLA_CACHE,
    Engine,
)
from catalog.workloads import Flaw, Queue, flaws
from components import pods
from components.hooks import explained
from components.manifest import Manifest, waiting_for
from components.secrets import DRIVER
from components.serving.server_pod import KEY_MOUNT, READ_KEY, ask_with_key

APP = "vllm"
CACHE_GIB = 20
PROBE_SECONDS = 10
MODELS, HEALTH, VERSION = "/v1/models", "/health", "/version"
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  a path
TOKEN_SECONDS = 3600

FORM_SECONDS = 1800
"""For quota, a slice, and an image of many gigabytes."""
DRAIN = "30m"
"""Its end waits for its pods, and for its Slice after them."""

AVAILABLE = "condition=Available"


class FlawedGroupError(ValueError):
    """A group that would never be admitted, with every reason."""

    def __init__(self, name: str, found: Sequence[Flaw]) -> None:
        self.flaws = list(found)
        lines = "\n".join(f"  {each}" for each in found)
        super().__init__(f"group {name} would never run:\n{lines}")


@dataclass(frozen=True, kw_only=True)
class ServerGroupArgs:
    model: str
    """Key of the served model, and name of its pool and account."""
    role: Role
    namespace: str
    queue: Queue
    local_queue: pulumi.Input[str]
    engine: Engine
    version: Version
    """Of the image, when its tag says it."""
    router: RouterRelease
    sidecar: str
    spare: bool
    """Whether slices are free for new groups beside all old ones."""
    keyed: bool
    """Whether callers show a key."""
    cache_bucket: pulumi.Input[str]
    script_image: str
    scripts: pulumi.Input[str]
    """Name of the ConfigMap with the staging package."""
    after: Sequence[pulumi.Resource]


class ServerGroup(pulumi.ComponentResource):
    """A LeaderWorkerSet of one replica: it comes and goes whole, and its slice with it.

    Where slices are spare, another content is another object (docs/adr/0022).
    """

    group: pulumi.Resource

    def __init__(
        self, name: str, args: ServerGroupArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        of = args.engine.slice
        manifest = leader_worker_set(
            Group(
                name=renewed_name(name) if args.spare else name,
                namespace=args.namespace,
                queue=args.queue.name,
                priority=args.queue.serving_priority,
                slice=of,
                labels=labels(args.model, args.role),
                leader_labels={POOL_MEMBER_LABEL: args.model},
                leader=_leader(args),
                worker=_worker(args) if of.multi_host else None,
            )
        )
        found = [each for each in flaws(manifest, args.queue) if each.severity == "error"]
        if found:
            raise FlawedGroupError(name, found)
        super().__init__("tpuserve:serving:ServerGroup", name, None, opts)

        seconds = args.engine.startup_seconds + FORM_SECONDS
        metadata = manifest["metadata"]
        metadata["labels"]["kueue.x-k8s.io/queue-name"] = args.local_queue
        if args.spare:
            metadata["name"] = pulumi.Output.json_dumps(
                [metadata["labels"], manifest["spec"]], sort_keys=True
            ).apply(lambda content: renewed_name(name, content))
        metadata["annotations"] = waiting_for(AVAILABLE, seconds)
        chosen = ",".join(f"{key}={value}" for key, value in labels(args.model, args.role).items())
        self.group = Manifest(
            f"{name}-lws",
            manifest,
            pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                # Kueue and the slice controller look at these once, when the object is made.
                replace_on_changes=[
                    "spec.leaderWorkerTemplate.size",
                    'metadata.labels["kueue.x-k8s.io/queue-name"]',
                    "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations",
                ],
                delete_before_replace=not args.spare,
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{seconds}s", update=f"{seconds}s", delete=DRAIN
                ),
                hooks=explained(
                    f"{name}-answers",
                    f"group {args.namespace}/{name}",
                    f"kubectl -n {args.namespace} get leaderworkersets,pods -l {chosen}; kubectl "
                    f"-n {args.namespace} get workloads; kubectl get slices; python -m ops slices",
                    f"does not answer after {seconds} s: pods behind a gate wait for quota or a "
                    "slice, running ones load their model",
                ),
            ),
        )
        self.register_outputs({})


def labels(model: str, role: Role) -> dict[str, str]:
    """On every pod of a group; what makes one a member of the pool is on leaders alone."""
    return {**pods.labels(APP, model), ROLE_LABEL: role, ENGINE_LABEL: "vllm"}


def _leader(args: ServerGroupArgs) -> dict[str, Any]:
    decode = args.role == "decode"
    init = [_programs("fetch", args), _programs("publish", args)]
    return {
        **_pod(args),
        "initContainers": [*init, *([_routing(args)] if decode else [])],
        "containers": [_server(args)],
        "volumes": _volumes(args, token=decode, key=args.keyed),
    }


def _worker(args: ServerGroupArgs) -> dict[str, Any]:
    """A further host of the slice: it lends its chips to the leader and serves no HTTP."""
    container = {
        **_container(args),
        "command": ["sh", "-c", worker_command(args.version)],
        "ports": _transfer_ports(),
    }
    return {
        **_pod(args),
        "initContainers": [_programs("fetch", args)],
        "containers": [container],
        "volumes": _volumes(args, token=False, key=False),
    }


def _pod(args: ServerGroupArgs) -> dict[str, Any]:
    return {
        "serviceAccountName": args.model,
        "automountServiceAccountToken": False,
        # A Service called vllm would set VLLM_PORT to a URL, and vLLM would not start.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }


def _server(args: ServerGroupArgs) -> dict[str, Any]:
    port = ENGINE_PORTS[args.role]
    failures = -(-args.engine.startup_seconds // PROBE_SECONDS)
    container = _container(args)
    if args.keyed:
        container["volumeMounts"].append(
            {"name": "api-key", "mountPath": KEY_MOUNT, "readOnly": True}
        )
    return {
        **container,
        **_command(args),
        "ports": [{"name": "engine", "containerPort": port}, *_transfer_ports()],
        "startupProbe": _probe(args, MODELS, failures=failures),
        "readinessProbe": _probe(args, MODELS, failures=3),
        # Asks the engine itself, on its own port, and stays open when a key is set.
        "livenessProbe": _probe(args, HEALTH, failures=6, open_=True),
        "lifecycle": {"preStop": {"sleep": {"seconds": LEAVE_SECONDS}}},
    }


def _command(args: ServerGroupArgs) -> dict[str, Any]:
    several, given = args.engine.slice.multi_host, list(args.engine.arguments)
    if not several and not args.keyed:
        return {"command": ["vllm"], "args": given}
    shell = leader_command(args.version) if several else 'set -e\nexec vllm "$@"\n'
    if args.keyed:
        shell = shell.replace("exec vllm", f"{READ_KEY}exec vllm")
    return {"command": ["sh", "-c", shell, APP], "args": given}


def _container(args: ServerGroupArgs) -> dict[str, Any]:
    engine = args.engine
    memory, chips = canonical(f"{engine.memory_gib}Gi"), str(engine.slice.machine.chips)
    mounts = {"shared-memory": "/dev/shm", "programs": CACHE_MOUNT}  # noqa: S108
    environment = [{"name": key, "value": value} for key, value in engine.environment.items()]
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return {
        "name": APP,
        "image": engine.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [*environment, {"name": ADDRESS_ENVIRONMENT, "valueFrom": address}],
        "resources": {
            "requests": {"cpu": str(engine.cpus), "memory": memory, TPU: chips},
            "limits": {"memory": memory, TPU: chips},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts.items()],
    }


def _transfer_ports() -> list[dict[str, Any]]:
    return [
        {"name": "kv-transfer", "containerPort": TRANSFER_PORT},
        {"name": "kv-release", "containerPort": RELEASE_PORT},
        {"name": "ray", "containerPort": RAY_PORT},
        {"name": "tpu-process", "containerPort": PROCESS_PORT},
    ]


def _probe(
    args: ServerGroupArgs, path: str, *, failures: int, open_: bool = False
) -> dict[str, Any]:
    port = ENGINE_PORTS[args.role]
    ask: dict[str, Any] = {"httpGet": {"path": path, "port": port}}
    if args.keyed and not open_:
        ask = {"exec": {"command": ask_with_key(port, path)}}
    return {
        **ask,
        "periodSeconds": PROBE_SECONDS,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _routing(args: ServerGroupArgs) -> dict[str, Any]:
    """The sidecar before a decode server: it has the prompt read elsewhere first."""
    pool = f"{args.namespace}/{args.model}"
    return {
        "name": "routing-proxy",
        "image": args.sidecar,
        "imagePullPolicy": "IfNotPresent",
        # A sidecar outlives the server: answers under way pass through it to their end.
        "restartPolicy": "Always",
        "args": routing_arguments(args.router, engine_port=ENGINE_PORTS["decode"], pool=pool),
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {
            "requests": {"cpu": "2", "memory": "1Gi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": pods.NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # It looks up who is in the pool; no other container of the pod gets a token.
        "volumeMounts": [{"name": "token", "mountPath": TOKEN_MOUNT, "readOnly": True}],
    }


def _programs(command: str, args: ServerGroupArgs) -> dict[str, Any]:
    """Compiled programs in before the server starts, or out once it is ready."""
    publish = command == "publish"
    environment: dict[str, pulumi.Input[str]] = {
        "BUCKET": args.cache_bucket,
        # The folder follows from the arguments, so the roles never share one.
        "PREFIX": args.engine.cache_folder,
        "FOLDER": XLA_CACHE,
    }
    if publish:
        environment["READY_URL"] = f"http://127.0.0.1:{ENGINE_PORTS[args.role]}{HEALTH}"
    return {
        "name": command,
        "image": args.script_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-B", "-m", "staging", command],
        "workingDir": pods.SCRIPTS_MOUNT,
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": {
            "requests": {"cpu": "250m", "memory": "2Gi"},
            "limits": {"memory": "2Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": pods.NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "scripts", "mountPath": pods.SCRIPTS_MOUNT, "readOnly": True},
            {"name": "programs", "mountPath": CACHE_MOUNT},
        ],
        **({"restartPolicy": "Always"} if publish else {}),
    }


def _volumes(args: ServerGroupArgs, *, token: bool, key: bool) -> list[Mapping[str, Any]]:
    volumes: list[Mapping[str, Any]] = [
        {
            "name": "shared-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{SHARED_MEMORY_GIB}Gi"},
        },
        {"name": "programs", "emptyDir": {"sizeLimit": f"{CACHE_GIB}Gi"}},
        {"name": "scripts", "configMap": {"name": args.scripts, "items": pods.scripts_files()}},
    ]
    if token:
        volumes.append({"name": "token", "projected": {"sources": _token_sources()}})
    if key:
        volumes.append(
            {
                "name": "api-key",
                "csi": {
                    "driver": DRIVER,
                    "readOnly": True,
                    "volumeAttributes": {"secretProviderClass": f"{args.model}-api-key"},
                },
            }
        )
    return volumes


def _token_sources() -> list[Mapping[str, Any]]:
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
            }
        },
    ]

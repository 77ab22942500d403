"""A way into the cluster's network: a pod that relays, and a tunnel to it.

An internal Gateway answers machines of its network only, and pods answer their own namespace only.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from typing import Any

from catalog.images import STAGING
from ops.verify.cluster import Cluster
from ops.verify.endpoints import Endpoint, EndpointError, Groups, Service
from ops.verify.port_forward import PortForward

PORT = 8080
LONGEST_SECONDS = 4 * 3600
"""A pod that was left behind ends by itself."""


@contextmanager
def relay(endpoint: Endpoint, groups: Groups) -> Iterator[Callable[[], str]]:
    """An HTTP proxy on this machine whose requests leave from a pod of the model's namespace."""
    cluster = Cluster(endpoint.context)
    name = f"verify-{secrets.token_hex(4)}"
    inside = ["--namespace", groups.namespace]
    cluster.run([*inside, "create", "--filename", "-"], given=json.dumps(pod(name)))
    try:
        wait = [*inside, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=150s"]
        cluster.run(wait)
        service = Service(namespace=groups.namespace, name=name, port=PORT)
        with PortForward(service, endpoint.context, kind="pod") as forward:
            yield forward.url
    finally:
        with suppress(EndpointError):
            cluster.run([*inside, "delete", f"pod/{name}", "--wait=false", "--ignore-not-found"])


def pod(name: str) -> dict[str, Any]:
    """The relaying pod: no rights, no token, no way in but the tunnel."""
    script = resources.files("ops.verify").joinpath("relay_pod.py").read_text("utf-8")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "verify"}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "relay",
                    "image": STAGING,
                    "command": ["python3", "-c", script, str(PORT)],
                    "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "128Mi"},
                        "limits": {"memory": "256Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                        "runAsNonRoot": True,
                        "runAsUser": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }
            ],
        },
    }

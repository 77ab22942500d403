"""What the cluster says of a model's Gateway, pool and pods, read with kubectl."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ops.verify.endpoints import EndpointError, Groups

WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
ROLE = "llm-d.ai/role"
_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod of the pool: where it is, what it does, and whether it may be asked."""

    name: str
    address: str
    role: str | None
    index: str | None
    """Place in its group; "0" leads and serves HTTP."""
    ready: bool


class Cluster:
    """`kubectl get`, in one context. EndpointError when it cannot be asked."""

    def __init__(self, context: str | None = None) -> None:
        self._context = ["--context", context] if context else []

    def gateway(self, groups: Groups) -> Mapping[str, Any]:
        return self._get(groups.namespace, "gateways.gateway.networking.k8s.io", groups.gateway)

    def pool(self, groups: Groups) -> Mapping[str, Any]:
        kind = "inferencepools.inference.networking.k8s.io"
        return self._get(groups.namespace, kind, groups.pool)

    def pods(self, groups: Groups, selector: Mapping[str, str]) -> list[Pod]:
        """Pods by their labels; those that are leaving are no part of a pool any more."""
        chosen = ",".join(f"{key}={value}" for key, value in selector.items())
        listed = self._get(groups.namespace, "pods", "--selector", chosen)
        return [
            _pod(each)
            for each in listed.get("items", [])
            if not (each.get("metadata") or {}).get("deletionTimestamp")
        ]

    def run(self, arguments: Sequence[str], *, given: str | None = None) -> str:
        """Any kubectl command; its output."""
        command = ["kubectl", *self._context, *arguments]
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, check=False, timeout=180
            )
        except FileNotFoundError:
            msg = "kubectl is not on PATH: the groups of a model are seen through it"
            raise EndpointError(msg) from None
        except subprocess.TimeoutExpired:
            msg = f"`{' '.join(command)}` gave no answer in 180 s"
            raise EndpointError(msg) from None
        if done.returncode:
            msg = f"`{' '.join(command)}`: {done.stderr.strip() or done.stdout.strip()}"
            raise EndpointError(msg)
        return done.stdout

    def _get(self, namespace: str, *what: str) -> Mapping[str, Any]:
        text = self.run(["--namespace", namespace, "get", *what, "--output", "json"])
        found = json.loads(text)
        if not isinstance(found, dict):
            msg = f"kubectl get {' '.join(what)} printed no object"
            raise EndpointError(msg)
        return found


def condition(found: Mapping[str, Any], name: str) -> tuple[bool, str]:
    """Whether a condition holds, and what the object says about it."""
    for each in (found.get("status") or {}).get("conditions") or ():
        if each.get("type") == name:
            words = ": ".join(filter(None, (each.get("reason"), each.get("message"))))
            return each.get("status") == "True", words
    return False, "it says nothing yet"


def _pod(found: Mapping[str, Any]) -> Pod:
    metadata, status = found.get("metadata") or {}, found.get("status") or {}
    labels = metadata.get("labels") or {}
    ready, _ = condition(found, "Ready")
    return Pod(
        name=str(metadata.get("name")),
        address=str(status.get("podIP") or ""),
        role=labels.get(ROLE),
        index=labels.get(WORKER_INDEX),
        ready=ready,
    )

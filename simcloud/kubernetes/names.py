"""Keys of objects in a cluster, and the cluster behind a kubeconfig."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simcloud.cloud import DOMAIN, RefusedError, Request
from simcloud.values import plain

OPEN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})

STANDALONE = f"cluster.{DOMAIN}"
"""A cluster that is always there, for programs that make none."""


def server(config: Mapping[str, Any]) -> str:
    """The host name in a provider's kubeconfig, empty if it has none."""
    text = plain(config.get("kubeconfig"))
    found = re.search(r'"?server"?\s*:\s*"?([^"\s,}]+)', text) if isinstance(text, str) else None
    return re.sub(r"^\w+://|[:/].*$", "", found.group(1)) if found else ""


def cluster_of(request: Request) -> str:
    """The key of the cluster the provider's kubeconfig points to."""
    host = server(request.config)
    if not host:
        message = (
            "no kubeconfig: give the kubernetes Provider one; the simulated cloud never reads "
            "~/.kube/config"
        )
        raise RefusedError(message)
    if host == STANDALONE:
        return f"cluster|{host}"
    cluster = request.store.at(host)
    if cluster is None:
        message = (
            "configured Kubernetes cluster is unreachable: no simulated cluster answers at " + host
        )
        raise RefusedError(message)
    return cluster


def key(cluster: str, kind: str, id_: str) -> str:
    return f"k8s|{cluster}|{kind}|{id_}"


def plural(kind: str) -> str:
    """The kind as the API server's messages spell it."""
    name = kind.rpartition("/")[2].lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "ch")) else f"{name}s"

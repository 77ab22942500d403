"""What Google Cloud's API refuses although the provider's plan lets it pass."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any

from simcloud.cloud import Identity, RefusedError, Request
from simcloud.gcp import tpu_pools
from simcloud.store import Record
from simcloud.values import Props, get, tail

SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
RESOURCE_POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
SERVICE = "gcp:projects/service:Service"

# Service of each module (Google Cloud API directory, read 2026-08).
SERVICES = {
    "artifactregistry": "artifactregistry.googleapis.com",
    "certificatemanager": "certificatemanager.googleapis.com",
    "compute": "compute.googleapis.com",
    "container": "container.googleapis.com",
    "filestore": "file.googleapis.com",
    "gkehub": "gkehub.googleapis.com",
    "kms": "cloudkms.googleapis.com",
    "monitoring": "monitoring.googleapis.com",
    "parallelstore": "parallelstore.googleapis.com",
    "secretmanager": "secretmanager.googleapis.com",
    "serviceaccount": "iam.googleapis.com",
}

# Open in every new project (Service Usage docs, "Services enabled by default", read 2026-08).
_OPEN = frozenset({"storage", "projects", "monitoring", "serviceaccount"})

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

# The highest network MTU (VPC docs, "Maximum transmission unit", read 2026-08).
_MAX_MTU = 8896

_PURPOSES = frozenset(
    {
        *("PRIVATE", "REGIONAL_MANAGED_PROXY", "GLOBAL_MANAGED_PROXY", "PRIVATE_SERVICE_CONNECT"),
        *("PEER_MIGRATION", "PRIVATE_NAT", "INTERNAL_HTTPS_LOAD_BALANCER"),
    }
)

_PLACEMENTS = frozenset({"", "COMPACT", "TYPE_UNSPECIFIED"})


def api_enabled(request: Request, values: Props) -> None:
    """In a project whose services the program manages, a service must be on before its objects."""
    module = request.type.split(":")[1].split("/")[0]
    service = SERVICES.get(module)
    if service is None or module in _OPEN or request.type == SERVICE:
        return
    project = values.get("project") or request.config.get("project")
    found = request.store.find(SERVICE, service)
    if any(record.status == "ready" for record in found):
        return
    if found or request.store.count(SERVICE):
        message = (
            f"googleapi: Error 403: {service} has not been used in project {project} before or it "
            f"is disabled, SERVICE_DISABLED. Enable it first: {request.name} must depend on the "
            "service."
        )
        raise RefusedError(message)


def admit(request: Request, identity: Identity, given: Props) -> None:
    """RefusedError with the API's reason if it does not take a new object of these inputs."""
    rule = _RULES.get(request.type)
    if rule and (reasons := list(rule(request, identity.key, given))):
        message = f"googleapi: Error 400: {'; '.join(reasons)}, invalid ({request.name})"
        raise RefusedError(message)


def _network(request: Request, key: str, given: Props) -> Iterator[str]:
    del request, key
    mtu = given.get("mtu")
    if mtu is not None and not 1300 <= int(mtu) <= _MAX_MTU:
        yield f"Invalid value for field 'resource.mtu': '{mtu}'. Must be 1300 to {_MAX_MTU}"


def _subnetwork(request: Request, key: str, given: Props) -> Iterator[str]:
    purpose = given.get("purpose")
    if purpose is not None and purpose not in _PURPOSES:
        yield f"Invalid value for field 'resource.purpose': '{purpose}'"
    mine = []
    for field, cidr in _ranges(given):
        try:
            mine.append(ipaddress.ip_network(cidr))
        except ValueError as error:
            yield f"Invalid value for field 'resource.{field}': {error}"
    for index, first in enumerate(mine):
        for second in mine[:index]:
            if first.overlaps(second):
                yield f"Invalid IPCidrRange: {first} conflicts with {second} of the same subnetwork"
    for other in _neighbours(request, key, given):
        for _, cidr in _ranges(other.props):
            theirs = ipaddress.ip_network(cidr, strict=False)
            for network in mine:
                if network.overlaps(theirs):
                    yield (
                        f"Invalid IPCidrRange: {network} conflicts with existing subnetwork "
                        f"'{other.name}' ({theirs})"
                    )


def _ranges(subnetwork: Props) -> Iterator[tuple[str, str]]:
    if cidr := subnetwork.get("ipCidrRange"):
        yield "ipCidrRange", str(cidr)
    for index, entry in enumerate(subnetwork.get("secondaryIpRanges") or []):
        if cidr := entry.get("ipCidrRange"):
            yield f"secondaryIpRanges[{index}].ipCidrRange", str(cidr)


def _neighbours(request: Request, key: str, given: Props) -> Iterator[Record]:
    for network in request.store.find("gcp:compute/network:Network", tail(given["network"])):
        for record in request.store.referrers(network.key):
            if record.type == SUBNETWORK and record.key != key:
                yield record


def _resource_policy(request: Request, key: str, given: Props) -> Iterator[str]:
    del request, key
    if not _NAME.fullmatch(str(given.get("name", ""))):
        yield f"Invalid value for field 'resource.name': '{given.get('name')}'"
    topology = get(given, "workloadPolicy.acceleratorTopology")
    if topology is not None and not _topology(str(topology)):
        yield f"Invalid value for field 'workloadPolicy.acceleratorTopology': '{topology}'"


def _topology(text: str) -> bool:
    """Two or three edges, each 1, 2 or a multiple of 4 (Cloud TPU docs, "TPU configurations")."""
    edges = text.split("x")
    return len(edges) in (2, 3) and all(
        edge.isdigit() and (int(edge) in (1, 2) or (int(edge) > 0 and int(edge) % 4 == 0))
        for edge in edges
    )


def _cluster(request: Request, key: str, given: Props) -> Iterator[str]:
    del key
    wanted = [
        (field, name)
        for field in ("clusterSecondaryRangeName", "servicesSecondaryRangeName")
        if (name := get(given, f"ipAllocationPolicy.{field}"))
    ]
    subnetworks = request.store.find(SUBNETWORK, tail(given.get("subnetwork", "")))
    for subnetwork in subnetworks[:1]:
        names = {
            entry.get("rangeName") for entry in subnetwork.props.get("secondaryIpRanges") or []
        }
        for field, name in wanted:
            if name not in names:
                yield f"{field}: Pod range '{name}' not found in subnetwork '{subnetwork.name}'"


def _node_pool(request: Request, key: str, given: Props) -> Iterator[str]:
    del key
    machine = str(get(given, "nodeConfig.machineType") or "")
    if machine.startswith(("ct", "tpu")) and machine not in tpu_pools.CHIPS:
        yield f"Invalid machine type '{machine}'"
    placement = get(given, "placementPolicy")
    if placement is not None:
        kind = placement.get("type", "")
        if kind not in _PLACEMENTS:
            yield f"Invalid value at 'node_pool.placement_policy.type': '{kind}'"
    if machine in tpu_pools.CHIPS:
        yield from tpu_pools.refusals(tpu_pools.Pool(given=given, policy=_policy(request, given)))
    for cluster in request.store.find(CLUSTER, tail(given["cluster"]))[:1]:
        if cluster.props.get("enableAutopilot"):
            yield "Node pools cannot be created in an Autopilot cluster"


def _policy(request: Request, pool: Props) -> Props:
    """The workload policy that a node pool names."""
    name = tail(get(pool, "placementPolicy.policyName") or "")
    for policy in request.store.find(RESOURCE_POLICY, name)[:1]:
        return policy.props.get("workloadPolicy") or {}
    return {}


_RULES: dict[str, Callable[[Request, str, Any], Iterator[str]]] = {
    "gcp:compute/network:Network": _network,
    SUBNETWORK: _subnetwork,
    RESOURCE_POLICY: _resource_policy,
    CLUSTER: _cluster,
    NODE_POOL: _node_pool,
}

"""What the provider answers for an object: planned, and as the API would fill it in."""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from simcloud.cloud import DOMAIN, Identity, Request
from simcloud.gcp.places import PLACES, project_of, with_places
from simcloud.gcp.types import Field, Type
from simcloud.values import (
    DEFAULTS,
    UNKNOWN,
    Props,
    get,
    is_secret,
    is_unknown,
    plain,
    secret,
    tail,
    unwrap,
)

CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"

NEWEST_GKE = "1.36.0-gke.3712000"
"""Answered for a cluster that names no full version."""


def bare(value: Any) -> Any:
    """The inputs without the bookkeeping of Check."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if key != DEFAULTS}
    if isinstance(value, list):
        return [bare(item) for item in value]
    return value


# Planned


def planned(type_: Type, request: Request, inputs: Props, state: Props | None) -> Props:
    """The outputs a plan knows: what only the API can say is left out or, in a block, unknown."""
    given = bare(inputs)
    if state is not None:
        carried = {
            key: _carried(type_.fields.get(key), value, state.get(key))
            for key, value in given.items()
        }
        return {**_kept(type_, state, given), **carried, **_labels(type_, given)}
    known = {key: _planned(type_.fields.get(key), value) for key, value in given.items()}
    if type_.deletion_policy:
        known.setdefault("deletionPolicy", "DELETE")
    if type_.project_at_plan and "project" not in known:
        known["project"] = project_of(request.config)
    return {**known, **_labels(type_, given)}


def _planned(entry: Field | None, value: Any) -> Any:
    if entry is None or not entry.fields or is_secret(value):
        return value
    if isinstance(value, list):
        return [_planned_block(entry, item) for item in value]
    return _planned_block(entry, value)


def _planned_block(entry: Field, value: Any) -> Any:
    if not isinstance(value, dict) or is_secret(value):
        return value
    block = {key: _planned(entry.fields.get(key), item) for key, item in value.items()}
    for key, below in entry.fields.items():
        if below.computed and key not in block:
            block[key] = secret(UNKNOWN) if below.secret else UNKNOWN
    return block


def _carried(entry: Field | None, value: Any, old: Any) -> Any:
    """A block of inputs with the values the API computed inside it before: a plan keeps them."""
    if entry is None or not entry.fields or is_secret(value):
        return value
    if isinstance(value, list) and isinstance(old, list):
        pairs = itertools.zip_longest(value, old[: len(value)])
        return [_carried(entry, item, before) for item, before in pairs]
    if not isinstance(value, dict) or not isinstance(old, dict):
        return _planned(entry, value)
    block = {
        key: _carried(entry.fields.get(key), item, old.get(key)) for key, item in value.items()
    }
    computed = {
        key: old[key]
        for key, below in entry.fields.items()
        if below.computed and key not in block and key in old
    }
    return {**computed, **block}


def _kept(type_: Type, state: Props, given: Props) -> Props:
    """The state without inputs that the program no longer gives and the API does not keep."""
    return {
        key: value
        for key, value in state.items()
        if key in given
        or key not in type_.fields
        or type_.fields[key].computed
        or key in ("project", "deletionPolicy")
    }


def _labels(type_: Type, given: Props) -> Props:
    """The labels the provider computes at plan time, secret as in its schema."""
    if "pulumiLabels" not in type_.outputs:
        return {}
    own = unwrap(given.get("labels") or given.get("resourceLabels") or {})
    if is_unknown(own) or not isinstance(own, dict):
        return {}
    labels = secret({**plain(own), "goog-pulumi-provisioned": "true"})
    return {"pulumiLabels": labels, "effectiveLabels": labels}


# As the API answers


def made_up(request: Request, given: Props, serial: int) -> Props:
    """What the cloud makes up for an object: a number, a name, an address."""
    return {
        "n": str(4_000_000_000_000_000_000 + serial),
        "hex": f"{serial:012x}",
        "address": _address(request, plain(given), serial),
    }


def answered(
    type_: Type, request: Request, identity: Identity, inputs: Props, serial: int
) -> Props:
    """The outputs of an object that exists."""
    given = bare(inputs)
    values = {
        **with_places(type_, given, request.config),
        **made_up(request, given, serial),
    }
    computed = {
        key: _filled(type_.computed[key], values)
        if key in type_.computed
        else _invented(key, kind, identity.id)
        for key, kind in type_.outputs.items()
    }
    if type_.url and "selfLink" in type_.outputs:
        computed["selfLink"] = f"https://{type_.url}.{DOMAIN}/v1/{identity.id}"
    whole = {
        key: _completed(type_, key, type_.fields.get(key), item) for key, item in given.items()
    }
    out = {**computed, **_api_values(type_, given, values), **whole, **_labels(type_, given)}
    if request.type in _SPECIAL:
        _SPECIAL[request.type](request, identity, out, serial)
    for key in type_.secret_outputs & out.keys():
        out[key] = secret(out[key])
    return out


_ZERO_OF: Mapping[str, Any] = {
    "str": "",
    "int": 0,
    "float": 0.0,
    "bool": False,
    "list": [],
    "map": {},
}


def _api_values(type_: Type, given: Props, values: Props) -> Props:
    """What the API fills in for inputs nobody gave."""
    filled: Props = {}
    for key, entry in type_.fields.items():
        if key in given:
            continue
        if key in PLACES and key in values:
            filled[key] = values[key]
        elif key in type_.api:
            filled[key] = _filled(type_.api[key], values)
        elif entry.computed and entry.type in _ZERO_OF:
            filled[key] = _ZERO_OF[entry.type]
    if type_.deletion_policy:
        filled.setdefault("deletionPolicy", given.get("deletionPolicy", "DELETE"))
    return filled


def _completed(type_: Type, path: str, entry: Field | None, value: Any) -> Any:
    """A given block with what the API fills in inside it."""
    if entry is None or not entry.fields or is_secret(value):
        return value
    if isinstance(value, list):
        return [_completed(type_, path, entry, item) for item in value]
    if not isinstance(value, dict):
        return value
    block = {
        key: _completed(type_, f"{path}.{key}", entry.fields.get(key), item)
        for key, item in value.items()
    }
    for key, below in entry.fields.items():
        if key not in block and below.computed:
            answer = type_.api.get(f"{path}.{key}", _ZERO_OF.get(below.type))
            if answer is not None:
                block[key] = secret(answer) if below.secret else answer
    return block


def _filled(template: Any, values: Props) -> Any:
    """A template of the table with its {placeholders} filled in."""
    if not isinstance(template, str):
        return template
    return re.sub(r"\{(\w+)\}", lambda match: tail(values.get(match.group(1), "")), template)


def _invented(key: str, kind: str, id_: str) -> Any:
    if kind in ("list", "map", "bool"):
        return _ZERO_OF[kind]
    digest = hashlib.sha256(f"{id_}|{key}".encode()).hexdigest()
    if kind == "int":
        return int(digest[:9], 16)
    if key in ("createTime", "creationTimestamp", "timeCreated", "updated", "updateTime"):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return digest[:12] if key in ("fingerprint", "labelFingerprint", "etag") else ""


def _address(request: Request, given: Props, serial: int) -> str:
    """An internal address from its subnetwork's range, else one reserved for documentation."""
    if given.get("addressType") == "INTERNAL" and given.get("subnetwork"):
        for subnetwork in request.store.find(SUBNETWORK, tail(given["subnetwork"])):
            network = ipaddress.ip_network(subnetwork.props["ipCidrRange"], strict=False)
            return str(network[2 + serial % (network.num_addresses - 4)])
    # TEST-NET-3, RFC 5737.
    return f"203.0.113.{1 + serial % 254}"


def cluster_hosts(cluster: Mapping[str, Any]) -> list[str]:
    """The host names under which a cluster's API answers."""
    dns = get(cluster, "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint")
    private = get(cluster, "privateClusterConfig.privateEndpoint")
    return [str(host) for host in (cluster.get("endpoint"), dns, private) if host]


def _block(out: Props, key: str) -> Props:
    block = unwrap(out.get(key))
    return dict(block) if isinstance(block, dict) else {}


def _cluster(request: Request, identity: Identity, out: Props, serial: int) -> None:
    del request
    location = identity.id.split("/")[3]
    host = f"gke-{serial:08x}"
    version = str(plain(out.get("minMasterVersion")) or "")
    out["endpoint"] = f"{host}.{DOMAIN}"
    out["masterVersion"] = version if "gke" in version else NEWEST_GKE
    out["nodeVersion"] = out.get("nodeVersion") or out["masterVersion"]
    services = get(out, "ipAllocationPolicy.servicesIpv4CidrBlock")
    out["servicesIpv4Cidr"] = services or "34.118.224.0/20"
    # A zone's name ends in a letter, an AI zone's in "ai" and more ("us-central1-ai1a").
    zonal = re.fullmatch(r"[a-z]+-[a-z]+\d+-\w+", location)
    out["nodeLocations"] = out.get("nodeLocations") or ([location] if zonal else [])
    out["masterAuth"] = {
        "clientCertificateConfig": {"issueClientCertificate": False},
        **_block(out, "masterAuth"),
        # base64 of "simulated, no certificate of anything"
        "clusterCaCertificate": "c2ltdWxhdGVkLCBubyBjZXJ0aWZpY2F0ZSBvZiBhbnl0aGluZw==",
        "clientCertificate": "",
        "clientKey": secret(""),
    }
    control = {"ipEndpointsConfig": {"enabled": True}, **_block(out, "controlPlaneEndpointsConfig")}
    control["dnsEndpointConfig"] = {
        "allowExternalTraffic": False,
        **_block(control, "dnsEndpointConfig"),
        "endpoint": f"{host}.{location}.gke.{DOMAIN}",
    }
    out["controlPlaneEndpointsConfig"] = control
    if private := _block(out, "privateClusterConfig"):
        endpoints = {
            "privateEndpoint": f"{host}.private.{DOMAIN}",
            "publicEndpoint": out["endpoint"],
        }
        out["privateClusterConfig"] = {**private, **endpoints}


def _node_pool(request: Request, identity: Identity, out: Props, serial: int) -> None:
    clusters = request.store.find(CLUSTER, tail(plain(out.get("cluster"))))
    if clusters:
        out["version"] = out.get("version") or clusters[0].props.get("masterVersion", "")
    out["location"] = identity.id.split("/")[3]
    count = plain(out.get("nodeCount")) or plain(out.get("initialNodeCount")) or 0
    out["nodeCount"] = count
    out["initialNodeCount"] = plain(out.get("initialNodeCount")) or count
    zone = (unwrap(out.get("nodeLocations")) or [out["location"]])[0]
    group = f"projects/{out.get('project', '')}/zones/{zone}/instanceGroupManagers/{serial:x}"
    out["instanceGroupUrls"] = [f"https://compute.{DOMAIN}/v1/{group}"]
    out["managedInstanceGroupUrls"] = [f"https://compute.{DOMAIN}/v1/{group}"]
    placement = _block(out, "placementPolicy")
    if placement.get("policyName"):
        # The API stores a workload policy's name with an empty type (vLLM's CI for tpu7x, 2026-08).
        out["placementPolicy"] = {**placement, "type": ""}


def _subnetwork(request: Request, identity: Identity, out: Props, serial: int) -> None:
    del request, identity, serial
    if cidr := plain(out.get("ipCidrRange")):
        out["gatewayAddress"] = str(ipaddress.ip_network(str(cidr), strict=False)[1])


def _secret_version(request: Request, identity: Identity, out: Props, serial: int) -> None:
    del request, serial
    out["version"], out["name"] = tail(identity.id), identity.id


_SPECIAL: Mapping[str, Callable[[Request, Identity, Props, int], None]] = {
    CLUSTER: _cluster,
    NODE_POOL: _node_pool,
    SUBNETWORK: _subnetwork,
    "gcp:secretmanager/secretVersion:SecretVersion": _secret_version,
}

"""Project and location of an object, from its inputs or its provider's settings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from simcloud.cloud import RefusedError
from simcloud.gcp.types import Type
from simcloud.values import Props, plain

PLACES = frozenset({"project", "region", "zone", "location"})


def project_of(config: Mapping[str, Any]) -> str:
    project = config.get("project")
    if not project:
        message = (
            "project: required field is not set: name it on the resource or as gcp:project of the "
            "stack or provider"
        )
        raise RefusedError(message)
    return str(project)


def project_number(project: str) -> str:
    return str(10**11 + int(hashlib.sha256(project.encode()).hexdigest()[:9], 16))


def with_places(type_: Type, given: Props, config: Mapping[str, Any]) -> Props:
    """The inputs with every place the object's id or inputs need filled in."""
    values = dict(plain(given))
    wanted = set(re.findall(r"\{(\w+)\}", type_.id)) | (type_.fields.keys() & PLACES)
    # A node pool that names its cluster by id lies where the cluster lies.
    located = re.search(r"projects/([^/]+)/locations/([^/]+)/", str(values.get("cluster", "")))
    if "project" in wanted and not values.get("project"):
        values["project"] = located.group(1) if located else project_of(config)
    zone = values.get("zone") or config.get("zone")
    region = config.get("region") or (str(zone).rpartition("-")[0] if zone else None)
    choices = {
        "region": region,
        "zone": zone,
        "location": (located.group(2) if located else None)
        or type_.api.get("location")
        or config.get("zone")
        or region,
    }
    for key in sorted(wanted & choices.keys()):
        if not values.get(key):
            if not choices[key]:
                message = (
                    f"Cannot determine {key}: set in this resource, or set provider-level 'region' "
                    "or 'zone'."
                )
                raise RefusedError(message)
            values[key] = choices[key]
    values["projectNumber"] = project_number(str(values.get("project") or config.get("project")))
    return values

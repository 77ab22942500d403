"""What a kubelet cannot mount: keys that a ConfigMap does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simcloud.cloud import Identity, RefusedError, Request
from simcloud.kubernetes.names import key
from simcloud.values import Props, get, unwrap


def mountable(request: Request, identity: Identity, given: Props) -> None:
    """RefusedError where the pods would wait for ever at a key that is not there.

    The real API server takes the object, and the update waits in vain. A ConfigMap that is not
    there at all is passed over: a kubelet waits until it comes.
    """
    namespace = get(given, "metadata.namespace") or ""
    for volume in _volumes(given):
        for source in (volume, *(get(volume, "projected.sources") or ())):
            asked = source.get("configMap") or {}
            id_ = f"{namespace}/{asked.get('name')}"
            found = request.store.get(key(identity.scope, "/ConfigMap", id_))
            if found is None or asked.get("optional"):
                continue
            there = {**(found.props.get("data") or {}), **(found.props.get("binaryData") or {})}
            for item in asked.get("items") or ():
                if item["key"] not in there:
                    raise RefusedError(
                        f'MountVolume.SetUp failed for volume "{volume["name"]}": references '
                        f"non-existent config key: {item['key']}. ConfigMap {id_} has "
                        f"{', '.join(sorted(there))}; no pod of {identity.name} would start"
                    )


def _volumes(given: Any) -> Iterator[Props]:
    """Volumes of every pod spec in an object."""
    given = unwrap(given)
    if isinstance(given, list):
        for each in given:
            yield from _volumes(each)
    elif isinstance(given, dict):
        # In a definition of a kind both words are fields of a schema.
        if isinstance(given.get("containers"), list):
            yield from given.get("volumes") or ()
        for each in given.values():
            yield from _volumes(each)

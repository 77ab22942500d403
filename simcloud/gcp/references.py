"""Which objects the inputs of an object name, and who keeps whom from deletion."""

from __future__ import annotations

from collections.abc import Iterator

from simcloud.cloud import RefusedError, Request, unstamp
from simcloud.gcp.types import Reference, Type, type_of
from simcloud.store import Record, Store
from simcloud.values import Props, tail, unwrap

# Every new project has a network of this name (VPC docs, "Default network", read 2026-08).
_ALWAYS_THERE = frozenset({"default"})


def targets(request: Request, type_: Type, given: Props) -> list[str]:
    """The keys of what the inputs refer to; a name the cloud does not know is refused."""
    keys = []
    for reference in type_.references:
        for value in _strings(given, reference.path):
            if found := _resolve(request.store, reference, value):
                keys.append(found)
            elif reference.holds and tail(value) not in _ALWAYS_THERE:
                message = (
                    f"googleapi: Error 404: The resource '{unstamp(value)}' was not found, "
                    f"notFound ({reference.path} of {request.name})"
                )
                raise RefusedError(message)
    return keys


def users(store: Store, record: Record) -> list[Record]:
    """The objects that keep this one from deletion."""
    return [
        other
        for other in store.referrers(record.key)
        if _holds(other, record.type) and not _lives_inside(other, record)
    ]


def inhabitants(store: Store, record: Record) -> list[Record]:
    """The objects that go when this one goes, such as the node pools of a cluster."""
    return [other for other in store.referrers(record.key) if _lives_inside(other, record)]


def _strings(value: object, path: str) -> Iterator[str]:
    """Every non-empty string at a path, through lists."""
    head, _, rest = path.partition(".")
    value = unwrap(value)
    if isinstance(value, list):
        for item in value:
            yield from _strings(item, path)
    elif isinstance(value, dict) and head in value:
        below = value[head]
        if rest:
            yield from _strings(below, rest)
        else:
            for item in below if isinstance(below, list) else [below]:
                if isinstance(item, str) and item:
                    yield item


def _resolve(store: Store, reference: Reference, value: str) -> str | None:
    path = unstamp(value)
    # A service account is named by its e-mail address, found by the part before the @.
    name = tail(path).split("@", 1)[0]
    for type_ in reference.to:
        found = store.find(type_, name)
        exact = [record for record in found if path.endswith(record.id) or record.id.endswith(path)]
        if found:
            return (exact or found)[0].key
        if record := store.get(path):
            return record.key
    return None


def _holds(record: Record, target: str) -> bool:
    type_ = type_of(record.type)
    return type_ is None or any(ref.holds and target in ref.to for ref in type_.references)


def _lives_inside(record: Record, parent: Record) -> bool:
    type_ = type_of(record.type)
    if type_ is None or not type_.inside:
        return False
    return any(ref.path == type_.inside and parent.type in ref.to for ref in type_.references)

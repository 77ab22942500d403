"""Property values as the engine sends them: plain data, secrets and unknowns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the protocol's tag, no secret
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# One sentinel a kind of value: string, bool, number, array, asset, archive, object
# (pulumi sdk/go/common/resource/plugin/rpc.go, v3.274.1).
UNKNOWNS = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)

Props = dict[str, Any]

DEFAULTS = "__defaults"
"""The key under which Check lists, in every object, the fields it filled in."""

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")


def is_secret(value: object) -> bool:
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def secret(value: Any) -> Any:
    """The value marked secret, once."""
    return value if is_secret(value) else {SIGNATURE: SECRET, "value": value}


def unwrap(value: Any) -> Any:
    """The value itself, without its outermost secret mark."""
    return value["value"] if is_secret(value) else value


def plain(value: Any) -> Any:
    """The value without any secret mark."""
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return plain(value["value"])
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def is_unknown(value: object) -> bool:
    return isinstance(value, str) and value in UNKNOWNS


def has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return is_unknown(value)


def has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return is_secret(value) or any(has_secret(item) for item in value.values())
    return isinstance(value, list) and any(has_secret(item) for item in value)


def like(old: Any, new: Any) -> Any:
    """`new` with the secret marks that `old` has at the same places."""
    if is_secret(old):
        return secret(plain(new))
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: like(old.get(key), item) for key, item in new.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [like(before, after) for before, after in zip(old, new, strict=True)]
    return new


def tail(value: object) -> str:
    """The last part of an id, a self link or a bare name: what references are compared by."""
    return str(value).rstrip("/").rsplit("/", 1)[-1]


def child(path: str, key: str) -> str:
    """The property path of a key below `path`, as the engine writes it."""
    if _IDENTIFIER.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f'{path}["{key}"]'


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf that differs: its property path and "add", "delete" or "update"."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            below = child(path, key)
            if key not in old:
                yield below, "add"
            elif key not in new:
                yield below, "delete"
            else:
                yield from differences(old[key], new[key], below)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            below = f"{path}[{index}]"
            if index >= len(old):
                yield below, "add"
            elif index >= len(new):
                yield below, "delete"
            else:
                yield from differences(old[index], new[index], below)
    elif old != new:
        yield path, "update"


def get(value: Any, path: str) -> Any:
    """The value at a property path without list indices, None where nothing is there."""
    for key in path.split("."):
        value = unwrap(value)
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return unwrap(value)


def pattern(path: str) -> str:
    """A property path as the tables write it: without list indices and with quoted keys dotted."""
    return re.sub(r'\["([^"]*)"\]', r".\1", re.sub(r"\[\d+\]", "", path))


def under(path: str, root: str) -> bool:
    """Whether `path` is `root` or lies below it."""
    return path == root or path.startswith((f"{root}.", f"{root}["))


def nearest(word: str, known: Iterable[str]) -> str:
    """\" Did you mean 'x'?\" for a misspelt word, nothing when no known word is near."""
    lowered = {item.lower(): item for item in known}
    match = get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f" Did you mean '{lowered[match[0]]}'?" if match else ""

"""Property paths and values as the engine writes them, made printable."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  the engine's mark, no secret

# The engine's stand-ins for values that a preview cannot know
# (pulumi sdk v3.274.1, go/common/resource/plugin/rpc.go).
UNKNOWN = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)

HIDDEN = "[secret]"
LATER = "(known after apply)"
MISSING = object()

_SEGMENT = re.compile(r'\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|\.?([^.\[\]]+)')
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COLOR_TAG = re.compile(r"<\{%[^%]*%\}>")
_LONGEST = 120


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One property that differs; `before` or `after` is None where there is nothing."""

    path: str
    before: str | None
    after: str | None
    forces_replacement: bool = False


def is_secret(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET_SIGNATURE


def is_unknown(value: Any) -> bool:
    return isinstance(value, str) and value in UNKNOWN


def segments(path: str) -> list[str | int]:
    """`a.b[0]["c.d"]` as `["a", "b", 0, "c.d"]`."""
    found: list[str | int] = []
    for index, quoted, name in _SEGMENT.findall(path):
        if index:
            found.append(int(index))
        else:
            found.append(quoted.replace('\\"', '"') if quoted else name)
    return found


def get(tree: Any, path: str) -> Any:
    """The value at a property path, or MISSING; a secret or unknown ancestor answers itself."""
    for part in segments(path):
        if is_secret(tree) or is_unknown(tree):
            return tree
        if isinstance(part, int):
            if not isinstance(tree, list) or part >= len(tree):
                return MISSING
            tree = tree[part]
        elif isinstance(tree, Mapping) and part in tree:
            tree = tree[part]
        else:
            return MISSING
    return tree


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every leaf that differs between two trees, as (path, before, after)."""
    if before == after:
        return
    if _is_tree(before) and _is_tree(after):
        for key in [*before, *(key for key in after if key not in before)]:
            if not key.startswith("__"):
                yield from differences(
                    before.get(key, MISSING), after.get(key, MISSING), join(path, key)
                )
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from differences(
                before[index] if index < len(before) else MISSING,
                after[index] if index < len(after) else MISSING,
                f"{path}[{index}]",
            )
    elif before is MISSING and _is_tree(after) and after:
        yield from differences({}, after, path)
    elif after is MISSING and _is_tree(before) and before:
        yield from differences(before, {}, path)
    else:
        yield path, before, after


def _is_tree(value: Any) -> bool:
    return isinstance(value, Mapping) and not is_secret(value)


def join(path: str, key: str) -> str:
    if re.fullmatch(r"[A-Za-z_$][\w$-]*", key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key)}]"


def printable(value: Any) -> str | None:
    """One line for a value; None where there is none."""
    if value is MISSING:
        return None
    if is_secret(value):
        return HIDDEN
    if is_unknown(value):
        return LATER
    if isinstance(value, str):
        return cut(json.dumps(clean(value), ensure_ascii=False)[1:-1].replace('\\"', '"'))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return cut(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: Any) -> Any:
    if is_secret(value):
        return HIDDEN
    if is_unknown(value):
        return LATER
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def clean(text: str) -> str:
    """Text without terminal colours and the engine's colour tags."""
    return _COLOR_TAG.sub("", _ANSI.sub("", text))


def cut(text: str, longest: int = _LONGEST) -> str:
    """Long text shortened, saying by how much."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… (+{len(text) - longest} characters)"

"""Check as the real provider's bridge does it: mistakes first, then names, defaults, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simcloud.cloud import Checked
from simcloud.gcp.types import Conflict, Field, Type, tf_path
from simcloud.values import (
    DEFAULTS,
    Props,
    child,
    get,
    is_secret,
    is_unknown,
    nearest,
    pattern,
    plain,
    secret,
    unwrap,
)


def check(type_: Type, name: str, news: Props, olds: Props, seed: bytes) -> Checked:
    """The inputs with name, defaults and secrets filled in, and every mistake at once."""
    failures = [
        f"{reason} Examine values at '{name}.{path}'." for path, reason in _mistakes(type_, news)
    ]
    inputs = _with_defaults(type_, type_.fields, unwrap(news), "")
    _autonamed(type_, name, inputs, plain(olds), seed)
    return Checked(inputs=inputs, failures=failures)


def _mistakes(type_: Type, news: Props) -> Iterator[tuple[str, str]]:
    yield from _fields(type_, type_.fields, news, "")
    given = plain(news)
    for conflict in type_.conflicts:
        yield from _conflict(type_, conflict, given)


def _fields(
    type_: Type, fields: Mapping[str, Field], given: Any, path: str
) -> Iterator[tuple[str, str]]:
    given = unwrap(given)
    for key in given:
        if key != DEFAULTS and key not in fields:
            yield (
                child(path, key),
                f"Invalid or unknown key: {type_.token} has no input '{child(pattern(path), key)}'."
                + nearest(key, fields),
            )
    for key, entry in fields.items():
        below = child(path, key)
        value = unwrap(given.get(key))
        if value is None:
            if entry.required and not _named(type_, below):
                yield (
                    below,
                    f'Missing required argument. The argument "{entry.tf}" is required, '
                    "but no definition was found..",
                )
        elif not is_unknown(value):
            yield from _value(type_, entry, value, below)


def _named(type_: Type, path: str) -> bool:
    return type_.autoname is not None and type_.autoname.field == path


_EXPECTED = {"object": dict, "map": dict, "list": list}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _value(type_: Type, entry: Field, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if not _fits(entry.type, value):
        yield path, f"expected {tf_path(type_, path)} to be {_spoken(entry)}, got {_kind(value)}."
        return
    if entry.type == "object":
        yield from _fields(type_, entry.fields, value, path)
    elif entry.type == "list":
        for index, item in enumerate(value):
            at, inner = f"{path}[{index}]", unwrap(item)
            if is_unknown(inner) or inner is None:
                continue
            if entry.of == "object" and isinstance(inner, dict):
                yield from _fields(type_, entry.fields, inner, at)
            elif entry.of == "object" or not _fits(entry.of or "str", inner):
                yield at, f"expected {tf_path(type_, at)} to be {entry.of}, got {_kind(inner)}."
            else:
                yield from _leaf(type_, entry, inner, at)
    else:
        yield from _leaf(type_, entry, value, path)


def _fits(kind: str, value: Any) -> bool:
    # The bridge turns numbers and booleans into strings and back where they parse.
    if kind in _EXPECTED:
        return isinstance(value, _EXPECTED[kind])
    if kind == "bool":
        return isinstance(value, bool) or value in ("true", "false")
    if kind in ("int", "float"):
        if isinstance(value, bool):
            return False
        if isinstance(value, int | float):
            return kind == "float" or float(value).is_integer()
        return isinstance(value, str) and bool(_NUMBER.fullmatch(value))
    return isinstance(value, str | int | float | bool)


def _spoken(entry: Field) -> str:
    words = {
        "str": "a string",
        "int": "a whole number",
        "bool": "true or false",
        "float": "a number",
    }
    return words.get(entry.type, f"a {entry.type}")


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else repr(value)


def _leaf(type_: Type, entry: Field, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if entry.enum and str(value) not in entry.enum:
        allowed = " ".join(f'"{item}"' for item in entry.enum)
        yield path, f"expected {tf_path(type_, path)} to be one of [{allowed}], got {value}."
    validator = type_.validators.get(pattern(path))
    if validator and (reason := validator(value, tf_path(type_, path))):
        yield path, f"{reason}."


def _conflict(type_: Type, conflict: Conflict, given: Props) -> Iterator[tuple[str, str]]:
    present = get(given, conflict.path) is not None
    own = tf_path(type_, conflict.path)
    if conflict.kind == "conflictsWith" and present:
        # The provider tells the first partner only.
        against = next((p for p in conflict.partners if get(given, p) is not None), None)
        if against is not None:
            yield (
                conflict.path,
                f'Conflicting configuration arguments. "{own}": '
                f"conflicts with {tf_path(type_, against)}.",
            )
    elif conflict.kind == "requiredWith" and present:
        missing = [tf_path(type_, p) for p in conflict.partners if get(given, p) is None]
        if missing:
            yield (
                conflict.path,
                f'Missing required argument. "{own}": all of `{",".join((own, *missing))}` '
                "must be specified.",
            )
    elif conflict.kind == "exactlyOneOf":
        parent = conflict.path.rpartition(".")[0]
        if parent and get(given, parent) is None:
            return
        chosen = [p for p in conflict.partners if get(given, p) is not None]
        names = ",".join(tf_path(type_, p) for p in conflict.partners)
        if not chosen and conflict.path == conflict.partners[0]:
            yield (
                conflict.path,
                f'Invalid combination of arguments. "{own}": one of `{names}` must be specified.',
            )
        elif len(chosen) > 1 and present:
            yield (
                conflict.path,
                f'Invalid combination of arguments. "{own}": only one of `{names}` can be '
                f"specified, but `{','.join(tf_path(type_, p) for p in chosen)}` were specified.",
            )


def _with_defaults(type_: Type, fields: Mapping[str, Field], given: Props, path: str) -> Props:
    filled: Props = {}
    for key, value in given.items():
        entry = fields.get(key)
        filled[key] = _converted(type_, entry, value, child(path, key)) if entry else value
    names = []
    for key, entry in fields.items():
        if entry.default is not None and key not in given and _free(type_, path, key, given):
            filled[key] = entry.default
            names.append(key)
    filled[DEFAULTS] = sorted(names)
    return filled


def _free(type_: Type, path: str, key: str, given: Props) -> bool:
    """No default where the program chose an alternative of the field."""
    own = pattern(child(path, key))
    for conflict in type_.conflicts:
        if conflict.path == own and conflict.kind in ("conflictsWith", "exactlyOneOf"):
            siblings = [p.rpartition(".")[2] for p in conflict.partners if p != own]
            if any(sibling in given for sibling in siblings):
                return False
    return True


def _converted(type_: Type, entry: Field, value: Any, path: str) -> Any:
    marked, inner = entry.secret or is_secret(value), unwrap(value)
    if entry.type == "object" and isinstance(inner, dict):
        inner = _with_defaults(type_, entry.fields, inner, path)
    elif entry.type == "list" and entry.of == "object" and isinstance(inner, list):
        inner = [
            _with_defaults(type_, entry.fields, item, path)
            if isinstance(item, dict) and not is_secret(item)
            else item
            for item in inner
        ]
    return secret(inner) if marked else inner


def _autonamed(type_: Type, name: str, inputs: Props, olds: Props, seed: bytes) -> None:
    rule = type_.autoname
    if rule is None or rule.field in inputs or "namePrefix" in inputs:
        return
    if rule.field in olds.get(DEFAULTS, ()) and rule.field in olds:
        inputs[rule.field] = olds[rule.field]
    else:
        digits = seed.hex()[:7] or "0000000"
        prefix = name.lower() if rule.lower else name
        inputs[rule.field] = f"{prefix[: rule.length - 8]}-{digits}"
    inputs[DEFAULTS] = sorted({*inputs[DEFAULTS], rule.field})

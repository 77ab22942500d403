"""Pydantic's errors in the words of a stack file."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from config.fields import Unread, UnreadError
from config.problem import Problem, nearest

DOCS = "see the field in docs/config.md"

_GONE = object()


def usable(annotation: Any, raw: Any, error: ValidationError) -> Any:
    """What can be used of data with errors, None if nothing can.

    Unknown keys and wrong entries of maps are left out; a wrong field of a section is Unread.
    """
    kept = copy.deepcopy(raw)
    for each in error.errors(include_url=False):
        parts, _ = _walk(annotation, each["loc"])
        while parts and parts[-1].kind == "item":
            parts.pop()
        if not parts:
            return None
        if each["type"] == "extra_forbidden" or parts[-1].kind == "entry":
            _set(kept, parts, _GONE)
        else:
            _set(kept, parts, Unread)
    return kept


def _set(raw: Any, parts: list["Part"], value: object) -> None:
    """Change what lies at a location, unless an error above it already did."""
    for part in parts[:-1]:
        try:
            raw = raw[part.key]
        except (KeyError, IndexError, TypeError):
            return
    if raw is Unread:
        return
    if value is _GONE:
        raw.pop(parts[-1].key, None)
    else:
        raw[parts[-1].key] = value


def problems(path: str, annotation: Any, error: ValidationError) -> Iterator[Problem]:
    """One problem per error of a section that lies at `path` and has this type."""
    for each in error.errors(include_url=False):
        parts, model = _walk(annotation, each["loc"])
        if isinstance(each.get("ctx", {}).get("error"), UnreadError):
            continue
        full = path + "".join(
            f"[{part.key}]" if part.kind == "item" else f".{part.key}" for part in parts
        )
        yield _problem(full, model, each)


def alias(info: FieldInfo, name: str) -> str:
    """The key a field has in a stack file."""
    return info.alias or name


def _problem(path: str, model: type[BaseModel] | None, error: ErrorDetails) -> Problem:
    context = error.get("ctx", {})
    value = _short(error["input"])
    match error["type"]:
        case "rule":
            return Problem(path=path, value=value, **context)
        case "extra_forbidden" if model is not None:
            known = [alias(info, name) for name, info in model.model_fields.items()]
            fix = nearest(str(error["loc"][-1]), known)
            # The value is not shown: a misplaced secret would be.
            return Problem(path=path, value=None, rule="no such field exists", fix=fix)
        case "missing":
            return Problem(path=path, value=None, rule="is required", fix="add it")
        case "literal_error":
            rule = f"is one of {context['expected']}"
            return Problem(path=path, value=value, rule=rule, fix="choose one")
        case "union_tag_invalid":
            given = error["input"] if isinstance(error["input"], Mapping) else {}
            field = next((key for key, each in given.items() if each == context["tag"]), None)
            rule = f"{f'its {field} ' if field else ''}is one of {context['expected_tags']}"
            return Problem(path=path, value=context["tag"], rule=rule, fix="choose one")
        case "union_tag_not_found":
            kind = str(context["discriminator"]).strip("'")
            rule = f"says its {kind}"
            return Problem(path=path, value=value, rule=rule, fix=f"add `{kind}:`")
        case "model_type" | "model_attributes_type" if model is not None:
            fields = ", ".join(alias(info, name) for name, info in model.model_fields.items())
            fix = f"write `field: value` lines below it; fields: {fields}"
            return Problem(path=path, value=value, rule="is a mapping of fields", fix=fix)
        case "dict_type":
            fix = "write `name: value` lines below it, or {} for none"
            return Problem(path=path, value=value, rule="is a mapping by name", fix=fix)
        case kind:
            rule = error["msg"][0].lower() + error["msg"][1:]
            advice = "; ".join(filter(None, (_fix(kind, context), DOCS)))
            return Problem(path=path, value=value, rule=rule, fix=advice)


def _fix(kind: str, context: Mapping[str, Any]) -> str | None:
    """What to write instead, where the kind of error says it."""
    match kind:
        case "int_type" | "int_parsing" | "int_from_float":
            return "write a whole number, such as 2"
        case "float_type" | "float_parsing":
            return "write a number, such as 0.9"
        case "bool_type" | "bool_parsing":
            return "write true or false"
        case "string_type":
            return 'write it as text; in quotes where it looks like a number: "22"'
        case "tuple_type" | "list_type":
            return "write it as a list: [first, second]"
        case "greater_than_equal":
            return f"use {context['ge']} or more"
        case "less_than_equal":
            return f"use {context['le']} or less"
        case "too_short":
            return f"name at least {context['min_length']}"
        case _ if kind.startswith("date"):
            return "write a day as 2026-12-31"
        case _:
            return None


def _short(value: Any) -> Any:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Part:
    """One step into a section: a field of a model, an entry of a map, an item of a list."""

    key: int | str
    kind: Literal["field", "entry", "item"]


def _walk(
    annotation: Any, location: tuple[int | str, ...]
) -> tuple[list[Part], type[BaseModel] | None]:
    """Follow a location: the steps a reader sees, without union tags, and the last model met."""
    parts: list[Part] = []
    model: type[BaseModel] | None = None
    here = _bare(annotation)
    for part in location:
        if part == "[key]":
            continue
        members = _members(here)
        if part in members:
            here = _bare(members[str(part)])
            continue
        if isinstance(here, type) and issubclass(here, BaseModel):
            model = here
            here = _bare(_field(here, str(part)))
            parts.append(Part(part, "field"))
        elif get_origin(here) is dict:
            here = _bare(get_args(here)[1])
            parts.append(Part(part, "entry"))
        else:
            here = _bare(next(iter(get_args(here)), None))
            parts.append(Part(part, "item"))
    if isinstance(here, type) and issubclass(here, BaseModel):
        model = here
    return parts, model


def _bare(annotation: Any) -> Any:
    """A type without what is said about it, and without the None it may be instead."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        some = [each for each in get_args(annotation) if each is not NoneType]
        return _bare(some[0]) if len(some) == 1 else annotation
    return annotation


def _field(model: type[BaseModel], key: str) -> Any:
    found = (
        info.annotation for name, info in model.model_fields.items() if alias(info, name) == key
    )
    return next(found, None)


def _members(annotation: Any) -> dict[str, Any]:
    """The members of a tagged union by tag."""
    if get_origin(annotation) not in (Union, UnionType):
        return {}
    members = {}
    for member in get_args(annotation):
        bare = _bare(member)
        tags = [each.tag for each in get_args(member)[1:] if isinstance(each, Tag)]
        if isinstance(bare, type) and issubclass(bare, BaseModel) and not tags:
            kind = bare.model_fields.get("kind")
            tags = list(get_args(kind.annotation)) if kind and _literal(kind) else []
        members.update(dict.fromkeys(tags, bare))
    return members


def _literal(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is Literal

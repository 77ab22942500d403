"""Pydantic's errors in the words of a stack file."""

import copy
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from config.problem import Problem, nearest

DOCS = "see the field in docs/config.md"


def without_unknown(annotation: Any, raw: Any, error: ValidationError) -> Any:
    """The same data less its unknown keys, so that the rest can still be checked."""
    kept = copy.deepcopy(raw)
    for each in error.errors(include_url=False):
        if each["type"] == "extra_forbidden":
            parts, _ = _walk(annotation, each["loc"])
            holder = kept
            for part in parts[:-1]:
                holder = holder[part]
            del holder[parts[-1]]
    return kept


def problems(path: str, annotation: Any, error: ValidationError) -> Iterator[Problem]:
    """One problem per error of a section that lies at `path` and has this type."""
    for each in error.errors(include_url=False):
        parts, model = _walk(annotation, each["loc"])
        full = path + "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts
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
        case "literal_error" | "union_tag_invalid":
            expected = context.get("expected") or context["expected_tags"]
            return Problem(path=path, value=value, rule=f"is one of {expected}", fix="choose one")
        case "union_tag_not_found":
            kind = str(context["discriminator"]).strip("'")
            rule = f"says its {kind}"
            return Problem(path=path, value=value, rule=rule, fix=f"add `{kind}:`")
        case _:
            rule = error["msg"][0].lower() + error["msg"][1:]
            return Problem(path=path, value=value, rule=rule, fix=DOCS)


def _short(value: Any) -> Any:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _walk(
    annotation: Any, location: tuple[int | str, ...]
) -> tuple[list[int | str], type[BaseModel] | None]:
    """Follow a location: the keys a reader sees, without union tags, and the last model met."""
    parts: list[int | str] = []
    model: type[BaseModel] | None = None
    here = _bare(annotation)
    for part in location:
        if part == "[key]":
            continue
        members = _members(here)
        if part in members:
            here = _bare(members[str(part)])
            continue
        parts.append(part)
        if isinstance(here, type) and issubclass(here, BaseModel):
            model = here
            here = _bare(_field(here, str(part)))
        elif get_origin(here) is dict:
            here = _bare(get_args(here)[1])
        elif get_origin(here) in (tuple, list):
            here = _bare(get_args(here)[0])
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

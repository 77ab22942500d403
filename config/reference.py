"""The configuration reference, `docs/config.md`, written from the schema itself."""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from config.stack import NAMESPACE, PROJECT_KEY, Stack

PAGE = Path(__file__).parents[1] / "docs" / "config.md"

HEAD = f"""# What a stack file may say

Written from the schema by `python -m config.reference`; `make test` fails when it is stale.
Check a file with `python -m ops doctor -s STACK`, see what follows from it with
`python -m ops plan -s STACK`. Keys of the first table stand under `config:` in
`Pulumi.STACK.yaml`, each with the prefix `{NAMESPACE}:`.
"""


def render() -> str:
    """The page: a table per model, in the order a reader meets them."""
    return "\n".join([HEAD, *(_section(model) for model in _models(Stack, []))])


def _models(model: type[BaseModel], seen: list[type[BaseModel]]) -> list[type[BaseModel]]:
    if model not in seen:
        seen.append(model)
        for info in model.model_fields.values():
            for each in _inner(info.annotation):
                _models(each, seen)
    return seen


def _inner(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for each in get_args(annotation):
            yield from _inner(each)


def _section(model: type[BaseModel]) -> str:
    rows = [
        f"| `{_key(model, name, info)}` | {_type(info.annotation)} | {_default(info)} "
        f"| {_text(info.description)} |"
        for name, info in model.model_fields.items()
    ]
    head = f"## {model.__name__}\n\n{_text(model.__doc__)}\n"
    return "\n".join([head, "| key | type | default | meaning |", "|---|---|---|---|", *rows, ""])


def _key(model: type[BaseModel], name: str, info: FieldInfo) -> str:
    return PROJECT_KEY if (model, name) == (Stack, "project") else info.alias or name


def _type(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin is Literal:
        return ", ".join(f"`{each!r}`" if each == "" else f"`{each}`" for each in inner)
    if origin in (Union, UnionType):
        return " or ".join(_type(each) for each in inner if each is not NoneType)
    if origin is dict:
        return f"map of {_type(inner[1])}"
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    names = {"str": "text", "int": "number", "bool": "true or false", "IPv4Network": "range"}
    name = getattr(annotation, "__name__", str(annotation))
    return names.get(name, name.lower())


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "its own defaults"
    if value is None or value in ({}, (), ""):
        return "none"
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{text.lower() if isinstance(value, bool) else text}`"


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render())

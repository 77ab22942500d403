"""What the API server would refuse: unknown fields, wrong types, missing ones.

Custom kinds by the definitions in tests/data/k8s-schemas (Kueue 0.17.0, JobSet 0.12.0, LWS 0.8.0,
Gateway API 1.6.3, inference extension 1.5.0), built-in ones by kubernetes-validate's schemas.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate

FOLDER = Path(__file__).parents[1] / "data" / "k8s-schemas"
KUBERNETES = "1.36"

METADATA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "maxLength": 253},
        "namespace": {"type": "string", "maxLength": 63},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
}


class NoSchemaError(LookupError):
    """Nobody publishes this kind's schema in a package."""


def mistakes(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Everything wrong with one object, each with its path."""
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    kind = str(manifest["kind"])
    if ("." in group and not group.endswith(".k8s.io")) or _file(group, kind).exists():
        yield from _custom(group, version, kind, manifest)
    else:
        yield from _builtin(manifest)


def _custom(group: str, version: str, kind: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    if not _file(group, kind).exists():
        raise NoSchemaError(f"{group}/{kind}")
    versions = json.loads(_file(group, kind).read_text())["versions"]
    if version not in versions:
        yield f"apiVersion: {version} is not served; {', '.join(versions)} are"
        return
    for error in _validator(group, kind, version).iter_errors(manifest):
        yield f"{'.'.join(map(str, error.absolute_path))}: {error.message}"


@functools.cache
def _validator(group: str, kind: str, version: str) -> jsonschema.Draft7Validator:
    schema = json.loads(_file(group, kind).read_text())["versions"][version]["schema"]
    strict = _strict(schema)
    strict["properties"] = {**strict["properties"], "metadata": METADATA}
    return jsonschema.Draft7Validator(strict)


def _file(group: str, kind: str) -> Path:
    return FOLDER / f"{group}_{kind}.json"


def _strict(schema: Any) -> Any:
    """A structural schema as JSON Schema in which unknown fields are errors."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {
        key: {name: _strict(below) for name, below in value.items()}
        if key == "properties"
        # Branches narrow values down; the fields stand beside them.
        else value
        if key in ("anyOf", "oneOf", "allOf", "not")
        else _strict(value)
        for key, value in schema.items()
        if key not in ("default", "pattern")
    }
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if "properties" in made and "additionalProperties" not in made and not open_ended:
        made["additionalProperties"] = False
    return made


def _builtin(manifest: Mapping[str, Any]) -> Iterator[str]:
    try:
        kubernetes_validate.validate(dict(manifest), KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{'.'.join(map(str, error.path))}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError as error:
        raise NoSchemaError(str(error)) from None

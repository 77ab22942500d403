"""The kinds of the cluster's API, by table: fields, scope, immutability, who installs them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from simcloud.values import Props, child, get, is_unknown, nearest, pattern, unwrap

TABLES = Path(__file__).parents[1] / "tables"

RELEASE = "kubernetes:helm.sh/v3:Release"


@cache
def _rules() -> dict[str, Any]:
    return tomllib.loads((TABLES / "kubernetes.toml").read_text())


@cache
def _fields() -> dict[str, Any]:
    """The fields of built-in kinds and of the custom kinds whose definitions we have."""
    merged: dict[str, Any] = {}
    for file in ("kubernetes-fields.json", "crd-fields.json"):
        for part, entries in json.loads((TABLES / file).read_text()).items():
            if part != "source":
                merged.setdefault(part, {}).update(entries)
    return merged


def is_builtin(api_version: str) -> bool:
    """Whether a group is part of the API server itself."""
    return (api_version.rpartition("/")[0] or "core") in _rules()["builtin"]["groups"]


def is_patch(type_: str) -> bool:
    """Whether a type changes an object that somebody else made, such as ConfigMapPatch."""
    _, module, name = type_.split(":")
    return name.endswith("Patch") and is_builtin(module)


def group_kind(api_version: str, kind: str) -> str:
    """kueue.x-k8s.io/ClusterQueue, /Namespace: what names a kind whatever its version."""
    group = api_version.rpartition("/")[0]
    return f"{'' if group == 'core' else group}/{kind}"


def kind_of(type_: str) -> str:
    """The group and kind behind a type token."""
    _, module, name = type_.split(":")
    return group_kind(module, name.removesuffix("Patch") if is_patch(type_) else name)


def is_cluster_scoped(kind: str) -> bool:
    """Whether objects of a group and kind have no namespace."""
    scope = _fields()["scopes"].get(kind)
    return scope == "Cluster" if scope else kind in _rules()["cluster_scoped"]["kinds"]


def immutable(given: Props, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields whose change replaces an object, beside its name and namespace."""
    kind = str(given.get("kind", ""))
    if not is_builtin(str(given.get("apiVersion", ""))):
        return ()
    # Provider options that make the data of these kinds mutable; an immutable object stays so.
    option = {"ConfigMap": "enableConfigMapMutable", "Secret": "enableSecretMutable"}.get(kind)
    if option and str(config.get(option)).lower() == "true" and not given.get("immutable"):
        return ()
    return tuple(_rules()["immutable"].get(kind, ()))


def chart(name: str) -> Mapping[str, Any]:
    """What is known of a chart: `crds` it brings, whether it `keeps` them, the usual `version`."""
    found: dict[str, Any] = _rules()["chart"].get(name, {})
    return found


def chart_of(release: Mapping[str, Any]) -> str:
    """A release's chart by its own name, without repository and archive suffix."""
    name = str(unwrap(release.get("chart", ""))).rstrip("/").rsplit("/", 1)[-1]
    return re.sub(r"-\d[\w.+-]*\.tgz$", "", name)


def installed_by_gke(cluster: Props) -> frozenset[str]:
    """The custom kinds GKE itself installs, by the features a cluster has switched on."""
    kinds: set[str] = set()
    for feature in _rules()["feature"]:
        value = get(cluster, feature["field"])
        if (feature.get("default") if value is None else value) == feature["value"]:
            kinds.update(feature["kinds"])
    return frozenset(kinds)


def installable_by_gke() -> set[str]:
    """The names of the custom kinds of all features."""
    return {kind.rpartition("/")[2] for each in _rules()["feature"] for kind in each["kinds"]}


def mistakes(type_: str, given: Props) -> Iterator[tuple[str, str]]:
    """Path and reason of each unknown, missing or ill-shaped field of a kind the tables have."""
    token = type_.removeprefix("kubernetes:")
    kinds = _fields()["kinds"]
    if token in kinds:
        yield from _object(token, kinds[token], given, "", strict=not is_patch(type_))
    elif kind_of(type_) in _fields()["scopes"]:
        version = token.partition(":")[0]
        served = [known for known in kinds if kind_of(f"kubernetes:{known}") == kind_of(type_)]
        versions = " or ".join(known.partition(":")[0] for known in served)
        yield "apiVersion", f"{version} has no {token.partition(':')[2]}; served in {versions}."


def is_known(type_: str) -> bool:
    """Whether the table has the type, or it is a custom one."""
    token = type_.removeprefix("kubernetes:")
    return not is_builtin(token.partition(":")[0]) or token in _fields()["kinds"]


def known_types() -> list[str]:
    return [f"kubernetes:{token}" for token in _fields()["kinds"]]


def _object(
    kind: str, name: str, given: Any, path: str, *, strict: bool
) -> Iterator[tuple[str, str]]:
    given = unwrap(given)
    if not isinstance(given, dict):
        if not is_unknown(given) and given is not None:
            yield path, f"{kind} expects an object at '{path}'."
        return
    fields = _fields()["objects"][name]
    for key, value in given.items():
        below = child(path, key)
        if key not in fields:
            field = child(pattern(path), key)
            hint = nearest(key, fields)
            yield below, f"Invalid or unknown key: {kind} has no field '{field}'.{hint}"
        elif shape := fields[key]:
            yield from _shape(kind, shape, value, below, strict=strict)
    if strict:
        for key in _fields()["required"].get(name, ()):
            if given.get(key) is None:
                yield child(path, key), f"missing required field '{child(pattern(path), key)}'."


def _shape(
    kind: str, shape: str, value: Any, path: str, *, strict: bool
) -> Iterator[tuple[str, str]]:
    value = unwrap(value)
    if is_unknown(value) or value is None:
        return
    if shape.startswith("="):
        allowed = shape[1:].split("|")
        if value not in allowed:
            hint = nearest(str(value), allowed)
            known = ", ".join(allowed)
            yield path, f"{kind} takes one of {known} at '{pattern(path)}', got {value!r}.{hint}"
    elif shape.startswith("[]"):
        if not isinstance(value, list):
            yield path, f"{kind} expects a list at '{pattern(path)}'."
        elif shape != "[]":
            for index, item in enumerate(value):
                yield from _shape(kind, shape[2:], item, f"{path}[{index}]", strict=strict)
    elif shape.startswith("{}"):
        for key, item in value.items() if isinstance(value, dict) else ():
            yield from _shape(kind, shape[2:], item, child(path, key), strict=strict)
    elif shape:
        yield from _object(kind, shape, value, path, strict=strict)

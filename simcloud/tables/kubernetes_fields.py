"""Writes kubernetes-fields.json: the input fields of the API server's own kinds.

Read from the sources of the installed pulumi_kubernetes:
`python simcloud/tables/kubernetes_fields.py`
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The stable groups a program of ours may use; alpha and beta versions stay out.
MODULES = (
    *("admissionregistration/v1", "apiextensions/v1", "apiregistration/v1", "apps/v1"),
    *("autoscaling/v1", "autoscaling/v2", "batch/v1", "coordination/v1", "core/v1"),
    *("discovery/v1", "helm/v3", "meta/v1", "networking/v1", "node/v1", "policy/v1", "rbac/v1"),
    *("scheduling/v1", "storage/v1"),
)
# Where the SDK's folder is not the group of the type token.
GROUPS = {
    "admissionregistration": "admissionregistration.k8s.io",
    "apiextensions": "apiextensions.k8s.io",
    "apiregistration": "apiregistration.k8s.io",
    "coordination": "coordination.k8s.io",
    "discovery": "discovery.k8s.io",
    "helm": "helm.sh",
    "networking": "networking.k8s.io",
    "node": "node.k8s.io",
    "rbac": "rbac.authorization.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "storage": "storage.k8s.io",
}

TARGET = Path(__file__).parent / "kubernetes-fields.json"


def table(root: Path) -> dict[str, Any]:
    """`kinds`: token -> object, `objects`: name -> {field: shape}, `required`: name -> fields.

    A shape is "" for a scalar or anything, an object's name, "[]..." for a list of it and "{}..."
    for a map of it.
    """
    kinds: dict[str, str] = {}
    objects: dict[str, dict[str, str]] = {}
    required: dict[str, list[str]] = {}
    for module in MODULES:
        group, version = module.split("/")
        folder = root / group / version
        for file in sorted(folder.glob("*.py")):
            for class_ in ast.parse(file.read_text()).body:
                if isinstance(class_, ast.ClassDef) and class_.name.endswith("Args"):
                    name = f"{module}:{class_.name.removesuffix('Args')}"
                    fields, needed = _fields(class_, module)
                    objects[name] = fields
                    if needed:
                        required[name] = needed
                    if file.name != "_inputs.py":
                        token = f"{GROUPS.get(group, group)}/{version}:{file.stem}"
                        kinds[token] = name
    return {"kinds": kinds, "objects": _reachable(kinds, objects), "required": required}


def _fields(class_: ast.ClassDef, module: str) -> tuple[dict[str, str], list[str]]:
    names = {
        getter.name: _camel(getter)
        for getter in class_.body
        if isinstance(getter, ast.FunctionDef) and _is_getter(getter)
    }
    init = next(
        item
        for item in class_.body
        if isinstance(item, ast.FunctionDef) and item.name == "__init__"
    )
    fields, needed = {}, []
    for argument, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True):
        assert argument.annotation is not None  # noqa: S101 - generated code annotates everything
        name = names[argument.arg]
        fields[name] = _shape(ast.unparse(argument.annotation), module)
        if default is None:
            needed.append(name)
    return fields, needed


def _is_getter(function: ast.FunctionDef) -> bool:
    return any("getter" in ast.unparse(item) for item in function.decorator_list)


def _camel(getter: ast.FunctionDef) -> str:
    for decorator in getter.decorator_list:
        if isinstance(decorator, ast.Call):
            for keyword in decorator.keywords:
                if keyword.arg == "name":
                    return str(ast.literal_eval(keyword.value))
    return getter.name


def _shape(annotation: str, module: str) -> str:
    text = annotation.replace("pulumi.Input[", "").replace("Optional[", "")
    prefix = "[]" if text.startswith("Sequence[") else "{}" if text.startswith("Mapping[") else ""
    quoted = text.split("'")
    if len(quoted) < 3 or not quoted[1].endswith("Args"):
        return prefix if prefix == "[]" else ""
    name = quoted[1].removesuffix("Args")
    if "." not in name:
        return f"{prefix}{module}:{name}"
    group, version, class_ = name.lstrip("_").split(".")
    return f"{prefix}{group}/{version}:{class_}"


def _reachable(kinds: dict[str, str], objects: dict[str, Any]) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def visit(name: str) -> Iterator[str]:
        if name in objects and name not in seen:
            seen[name] = objects[name]
            for shape in objects[name].values():
                yield from visit(shape.lstrip("[]{}"))

    for name in kinds.values():
        list(visit(name))
    return seen


def main() -> None:
    spec = importlib.util.find_spec("pulumi_kubernetes")
    assert spec is not None and spec.submodule_search_locations  # noqa: S101, PT018
    version = importlib.metadata.version("pulumi_kubernetes")
    written = {
        "source": f"pulumi_kubernetes {version}, its input classes",
        **table(Path(spec.submodule_search_locations[0])),
    }
    TARGET.write_text(json.dumps(written, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{TARGET.name}: {len(written['kinds'])} kinds, {TARGET.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

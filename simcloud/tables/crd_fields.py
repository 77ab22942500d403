"""Writes crd-fields.json: the fields of the custom kinds our programs use.

`python simcloud/tables/crd_fields.py FOLDER`, where FOLDER holds one JSON file a kind, named
`<group>_<Kind>.json`: `{"from": "kueue 0.17.0", "scope": ..., "versions": {"v1beta1": {"served":
true, "schema": <openAPIV3Schema>}}}`. Same form as kubernetes-fields.json; blocks that are the same
in several places are written once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "crd-fields.json"


class Table:
    """Objects by number, equal ones under one number."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, str]] = {}
        self.required: dict[str, list[str]] = {}
        self._numbers: dict[str, str] = {}

    def add(self, schema: dict[str, Any]) -> str:
        fields = {key: self.shape(item) for key, item in schema["properties"].items()}
        needed = sorted(schema.get("required", ()))
        content = json.dumps([fields, needed], sort_keys=True)
        if content not in self._numbers:
            name = self._numbers[content] = f"crd:{len(self._numbers)}"
            self.objects[name] = fields
            if needed:
                self.required[name] = needed
        return self._numbers[content]

    def shape(self, schema: dict[str, Any]) -> str:
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return ""
        if "items" in schema:
            return f"[]{self.shape(schema['items'])}"
        if "properties" in schema:
            return self.add(schema)
        inner = schema.get("additionalProperties")
        if isinstance(inner, dict) and (shape := self.shape(inner)):
            return "{}" + shape
        if schema.get("type") == "string" and "enum" in schema:
            return "=" + "|".join(schema["enum"])
        return ""


def table(folder: Path) -> dict[str, Any]:
    made, kinds, scopes, sources = Table(), {}, {}, set()
    for file in sorted(folder.glob("*.json")):
        group, _, kind = file.stem.rpartition("_")
        definition = json.loads(file.read_text())
        sources.add(definition["from"])
        scopes[f"{group}/{kind}"] = definition["scope"]
        for version, entry in definition["versions"].items():
            if entry["served"]:
                kinds[f"{group}/{version}:{kind}"] = name = made.add(entry["schema"])
                made.objects[name]["metadata"] = "meta/v1:ObjectMeta"
    return {
        "source": "CRDs of " + ", ".join(sorted(sources)),
        "kinds": kinds,
        "scopes": scopes,
        "objects": made.objects,
        "required": made.required,
    }


def main() -> None:
    written = table(Path(sys.argv[1]))
    TARGET.write_text(json.dumps(written, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{TARGET.name}: {len(written['kinds'])} kinds, {TARGET.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

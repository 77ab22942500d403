"""Take the operators' resource definitions from their Go modules: `python -m tools.crds`.

Helm never upgrades what a chart keeps in crds/, so the program owns these definitions. Needs Go and
the module proxy; run it when catalog/releases.py gains a version.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from catalog.releases import JOBSET, LWS, RELEASE_SETS, Chart

FOLDER = Path(__file__).parents[1] / "catalog" / "data" / "crds"
PROSE = frozenset({"description", "externalDocs", "title", "example"})


def main() -> None:
    for chart, module, versions in (
        (JOBSET, "sigs.k8s.io/jobset", {each.jobset for each in RELEASE_SETS}),
        (LWS, "sigs.k8s.io/lws", {each.lws for each in RELEASE_SETS}),
    ):
        for version in sorted(versions):
            _take(chart, download(module, version), version)


def download(module: str, version: str) -> Path:
    """The folder of a module in Go's cache."""
    answer = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@v{version}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(json.loads(answer.stdout)["Dir"])


def _take(chart: Chart, module: Path, version: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = chart.reference.rsplit("/", 1)[1]
    for file in (module / "charts" / name / "crds").glob("*.yaml"):
        document = yaml.safe_load(file.read_text())
        if document["metadata"]["name"] in chart.crds:
            path = FOLDER / f"{document['metadata']['name']}-{version}.json"
            path.write_text(json.dumps(without_prose(document["spec"]), separators=(",", ":")))
            print(path.relative_to(FOLDER.parents[2]))


def without_prose(spec: dict[str, Any]) -> dict[str, Any]:
    """A definition without what only people read; a field that is called description stays."""
    versions = [
        {
            **version,
            "schema": {"openAPIV3Schema": _schema(version["schema"]["openAPIV3Schema"])},
        }
        for version in spec["versions"]
    ]
    return {**spec, "versions": versions}


def _schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _schema(below) for name, below in value.items()}
        if key == "properties"
        else value
        if key in ("default", "enum", "x-kubernetes-validations")
        else _schema(value)
        for key, value in schema.items()
        if key not in PROSE
    }


if __name__ == "__main__":
    main()

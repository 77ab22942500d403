"""The program with its Google half simulated and its in-cluster half on a real cluster.

KUBECONFIG names the cluster; tests/README.md says what it must have. Two switches serve one that
has the charts as Go modules alone and a stand-in for the slice controller:
TPUSERVE_CHARTS=modules and TPUSERVE_SLICE_WEBHOOK=none. Where the registry of the router's chart
cannot be reached, TPUSERVE_ROUTER_CHART names a folder with it and its dependency.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
import yaml

from catalog import releases
from catalog.source import Source
from components import operators, slice_controller
from simcloud.engine import Sim
from simcloud.provider_process import ProviderProcess
from tests.support.files import ROOT
from tests.support.lab import FILE
from tools import crds

MODULES = {"kueue": "0.17.0", "jobset": "0.11.1", "lws": "0.8.0"}


class _GoogleOnly(ProviderProcess):
    """The simulated cloud without its cluster: the engine starts the real provider for that."""

    def start(self) -> None:
        super().start()
        self.ports = self.ports.split(",")[0]


@contextmanager
def half(
    root: Path,
    config: Mapping[str, Any],
    patch: pytest.MonkeyPatch,
    server: str | None = None,
    *,
    file: Path = FILE,
) -> Iterator[Sim]:
    """A stack, the slicing lab unless said, on the cluster of KUBECONFIG, reached at `server`."""
    kubeconfig = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    if server is not None:
        kubeconfig["clusters"][0]["cluster"]["server"] = server

    def provider(name: str, cluster: Any) -> k8s.Provider:
        return k8s.Provider(
            name,
            kubeconfig=pulumi.Output.secret(json.dumps(kubeconfig)),
            cluster_identifier=cluster.cluster_id,
        )

    patch.setattr("simcloud.engine.ProviderProcess", _GoogleOnly)
    patch.setattr("assembly.foundation.cluster_provider", provider)
    if os.environ.get("TPUSERVE_CHARTS") == "modules":
        _charts_from_modules(patch)
    if chart := os.environ.get("TPUSERVE_ROUTER_CHART"):
        patch.setattr("components.serving.router.CHART", chart)
    if os.environ.get("TPUSERVE_SLICE_WEBHOOK") == "none":
        patch.setattr(slice_controller, "HOOKS", ())
    with Sim(
        root,
        stack=file.stem.removeprefix("Pulumi."),
        config_file=file,
        config=config,
        program=ROOT / "__main__.py",
        scale=0,
    ) as sim:
        yield sim


def _charts_from_modules(patch: pytest.MonkeyPatch) -> None:
    """Folders in Go's cache in place of addresses, and the set of versions they have."""
    found = releases.ReleaseSet(
        **MODULES,
        oldest_minor=33,
        newest_minor=36,
        longest_lws_name=39,
        source=Source("Go modules", date(2026, 11, 30)),
    )
    for name, chart in (("KUEUE", releases.KUEUE), ("JOBSET", releases.JOBSET),
                        ("LWS", releases.LWS)):  # fmt: skip
        key = name.lower()
        folder = crds.download(f"sigs.k8s.io/{key}", MODULES[key]) / "charts" / key
        patch.setattr(operators, name, replace(chart, reference=str(folder)))
    patch.setattr("config.queueing.Releases.set", property(lambda _: found))


def kubectl(*arguments: str) -> Any:
    """What kubectl answers, as JSON."""
    ran = subprocess.run(
        ["kubectl", *arguments, "-o", "json"], check=True, capture_output=True, text=True
    )
    return json.loads(ran.stdout)

"""The codelab's two workloads, with the numbers they really have."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.smoke import SCRIPT
from tests.support.files import stack_config
from tests.support.lab import lab_config
from tests.support.recorder import Graph, Registered, record
from tests.support.variants import changed


@pytest.fixture(scope="module")
def graph() -> Graph:
    return record(lab_config())


def _job(jobset: Registered) -> dict[str, Any]:
    (job,) = jobset.inputs["spec"]["replicatedJobs"]
    found: dict[str, Any] = job
    return found


def _environment(jobset: Registered) -> dict[str, str]:
    pod = _job(jobset)["template"]["spec"]["template"]["spec"]
    return {each["name"]: each["value"] for each in pod["containers"][0]["env"]}


SUB, SUPER = "smoke-sub-slices-jobset", "smoke-super-slice-jobset"


def test_six_sub_slices_have_two_pods_each_and_the_super_slice_thirty_two(graph: Graph) -> None:
    shapes = {}
    for name in (SUB, SUPER):
        job = _job(graph.one("JobSet", name))
        spec = job["template"]["spec"]
        shapes[name] = (job["replicas"], spec["parallelism"], spec["completions"])
    assert shapes == {SUB: (6, 2, 2), SUPER: (1, 32, 32)}


def test_a_chip_is_two_devices(graph: Graph) -> None:
    """The codelab's text promises 8 and 128 devices; TPU7x shows JAX two for each chip."""
    expected = {}
    for name in (SUB, SUPER):
        found = _environment(graph.one("JobSet", name))
        expected[name] = (
            found["EXPECTED_DEVICES"],
            found["EXPECTED_LOCAL_DEVICES"],
            found["EXPECTED_PROCESSES"],
        )
    assert expected == {SUB: ("16", "8", "2"), SUPER: ("256", "8", "32")}
    lines = {key: each["line"] for key, each in graph.stack_outputs["smoke"].items()}
    assert lines["sub-slices"]["devices"] == 16
    assert lines["super-slice"]["devices"] == 256


def test_the_second_comes_after_the_first_with_a_higher_priority(graph: Graph) -> None:
    first, second = (graph.one("JobSet", name) for name in (SUB, SUPER))
    assert graph.depends(second, first)
    label = "kueue.x-k8s.io/priority-class"
    labels = [each.inputs["metadata"]["labels"][label] for each in (first, second)]
    assert labels == ["low", "medium"]


def test_the_update_waits_until_a_job_has_its_slices(graph: Graph) -> None:
    for name in (SUB, SUPER):
        assert graph.one("JobSet", name).inputs["metadata"]["annotations"] == {
            "pulumi.com/waitFor": "jsonpath={.spec.suspend}=false",
            "pulumi.com/timeoutSeconds": "600",
        }


def test_production_has_none() -> None:
    graph = record(stack_config("prod"))
    assert [each.name for each in graph.of("JobSet") if each.name.startswith("smoke")] == []


def test_it_is_off_unless_asked_for() -> None:
    graph = record(changed(lab_config(), {"tpuserve:queueing.smoke": None}))
    assert [each.type for each in graph.resources if "SliceSmoke" in each.type] == []
    assert "smoke" not in graph.stack_outputs


FAKE_JAX = """
import types
def devices():
    places = {coordinates}
    return [types.SimpleNamespace(coords=each) if each else object() for each in places]
def device_count(): return {devices}
def local_device_count(): return 8
def process_count(): return 2
def process_index(): return 1
def jit(f): return f
distributed = types.SimpleNamespace(initialize=lambda: print("joined", flush=True))
"""
FAKE_NUMPY = """
bfloat16 = float
class _Array:
    def __matmul__(self, other): return self
    def __truediv__(self, other): return self
    def block_until_ready(self): return self
def ones(shape, dtype): return _Array()
"""


def cuboid(*sides: int) -> list[tuple[int, ...]]:
    """Places of the chips of a slice, as JAX tells them: each for its two devices."""
    return [place for place in itertools.product(*map(range, sides)) for _ in range(2)]


@pytest.mark.parametrize(
    ("devices", "coordinates", "topology", "code"),
    [
        (16, cuboid(2, 2, 2), "2x2x2", 0),
        (8, cuboid(2, 2, 2), "2x2x2", 1),
        (16, cuboid(2, 2, 1), "2x2x1", 1),
        (16, cuboid(4, 2, 1), "4x2x1", 1),
        (16, [None] * 16, "unknown: devices without coordinates", 0),
    ],
)
def test_the_script_prints_one_line_and_ends(  # noqa: PLR0917  a row of the table
    tmp_path: Path,
    graph: Graph,
    devices: int,
    coordinates: list[Any],
    topology: str,
    code: int,
) -> None:
    package = tmp_path / "jax"
    package.mkdir()
    (package / "__init__.py").write_text(FAKE_JAX.format(devices=devices, coordinates=coordinates))
    (package / "numpy.py").write_text(FAKE_NUMPY)
    environment = {
        **_environment(graph.one("JobSet", SUB)),
        "COMPUTE_SECONDS": "0.01",
        "PYTHONPATH": str(tmp_path),
    }
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    joined, line = ran.stdout.splitlines()
    assert joined == "joined"
    assert json.loads(line) == {
        "check": "tpuserve-slice",
        "topology": topology,
        "devices": devices,
        "local_devices": 8,
        "processes": 2,
        "process": 1,
        "ok": code == 0,
    }
    assert ran.returncode == code

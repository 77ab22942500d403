"""The router's chart with the values the program gives it: rendered by Helm, then validated.

The chart is pulled from its registry, or taken from a folder: TPUSERVE_ROUTER_CHART names the chart
`llm-d-router-gateway` of a checkout of llm-d/llm-d-router at the pinned version.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from catalog.router import CHART, CONFIG_FILE, RELEASES
from tests.support.files import stack_config
from tests.support.recorder import record
from tests.support.schemas import mistakes

HELM = shutil.which("helm") or str(Path.home() / ".cache" / "tpuserve-bench" / "bin" / "helm")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("chart")
    release = record(stack_config("prod"), stack="prod").one("Release", "qwen-router").inputs
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(release["values"]))
    chart = os.environ.get("TPUSERVE_ROUTER_CHART")
    source = [chart] if chart else [CHART, "--version", RELEASES[0].version]
    if not Path(HELM).exists():
        pytest.skip("no helm")
    done = subprocess.run(
        [HELM, "template", release["name"], *source, "-n", "llm", "-f", str(values)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode and chart is None and "dial tcp" in done.stderr:
        pytest.skip("the chart's registry cannot be reached")
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def one(rendered: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in rendered if each["kind"] == kind]
    return found


def test_every_object_is_one_the_api_server_would_take(rendered: list[dict[str, Any]]) -> None:
    assert [wrong for each in rendered for wrong in mistakes(each)] == []


def test_routes_and_policies_are_the_programs_alone(rendered: list[dict[str, Any]]) -> None:
    kinds = {each["kind"] for each in rendered}
    assert kinds & {"HTTPRoute", "HealthCheckPolicy", "GCPBackendPolicy", "Secret"} == set()


def test_pool_and_picker_name_each_other(rendered: list[dict[str, Any]]) -> None:
    spec = one(rendered, "InferencePool")["spec"]
    service = one(rendered, "Service")
    assert spec["endpointPickerRef"]["name"] == service["metadata"]["name"]
    assert spec["endpointPickerRef"]["port"]["number"] == service["spec"]["ports"][0]["port"]
    assert spec["endpointPickerRef"]["failureMode"] == "FailClose"
    assert spec["selector"]["matchLabels"] == {"llm-d.ai/pool": "qwen"}
    assert spec["targetPorts"] == [{"number": 8000}]


def test_one_picker_reads_our_configuration(rendered: list[dict[str, Any]]) -> None:
    deployment = one(rendered, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == RELEASES[0].picker
    assert f"/config/{CONFIG_FILE}" in container["args"]
    config = yaml.safe_load(one(rendered, "ConfigMap")["data"][CONFIG_FILE])
    assert config["apiVersion"] == RELEASES[0].config_api


def test_the_network_policy_finds_the_picker(rendered: list[dict[str, Any]]) -> None:
    labels = one(rendered, "Deployment")["spec"]["template"]["metadata"]["labels"]
    graph = record(stack_config("prod"), stack="prod")
    wanted = graph.one("NetworkPolicy", "qwen-router-callers").inputs["spec"]["podSelector"]
    assert wanted["matchLabels"].items() <= labels.items()

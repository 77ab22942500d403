"""The operators' charts with the values the stack gives them: rendered by Helm, then validated.

Charts come from the projects' Go modules. The module proxy has no Kueue after 0.17.0, so that is
the one rendered; its values have the same names in 0.18.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.lab import lab_config
from tests.support.recorder import Graph, record
from tests.support.schemas import mistakes
from tests.support.variants import changed
from tools import crds, helm

CHARTS = {
    "kueue": ("sigs.k8s.io/kueue", "0.17.0", "kueue-system"),
    "jobset": ("sigs.k8s.io/jobset", "0.12.0", "jobset-system"),
    "lws": ("sigs.k8s.io/lws", "0.8.0", "lws-system"),
}
CODELAB = {"kueue": "0.17.4", "jobset": "0.11.1", "lws": "0.8.0"}
SETS = {
    "newest": {key: version for key, (_, version, _) in CHARTS.items()},
    # As above: of Kueue 0.17 the modules have 0.17.0.
    "codelab": {**CODELAB, "kueue": "0.17.0"},
}
FREE = {"nodeSelector", "resources", "podSecurityContext", "topologySpreadConstraints"}
"""Values a chart copies as they are."""

GROUPS = {"", "apps", "batch", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io"}
"""API groups of what runs here; others of Kueue's webhooks are for kinds nobody installed."""

Manifest = dict[str, Any]


@pytest.fixture(scope="module", params=SETS)
def chosen(request: pytest.FixtureRequest) -> str:
    """The release set of the stack file."""
    return str(request.param)


@pytest.fixture(scope="module")
def graph(chosen: str) -> Graph:
    releases = {"tpuserve:queueing.releases": CODELAB}
    return record(changed(lab_config(), releases if chosen == "codelab" else {}))


@pytest.fixture(scope="module", params=CHARTS)
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def chart(chosen: str, key: str) -> Path:
    module, version = CHARTS[key][0], SETS[chosen][key]
    try:
        folder = crds.download(module, version)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no chart of {key} {version}: the Go module proxy gave {error}")
    return folder / "charts" / key


@pytest.fixture(scope="module")
def rendered(
    key: str, chart: Path, graph: Graph, tmp_path_factory: pytest.TempPathFactory
) -> list[Manifest]:
    found = helm.find()
    if found is None:
        pytest.skip("no Helm: `python -m tools.helm` fetches one")
    release = graph.one("Release", f"operators-{key}").inputs
    folder = tmp_path_factory.mktemp(key)
    values = folder / "values.json"
    values.write_text(json.dumps(release["values"]))
    command = [str(found), "template", key, str(chart), "-n", CHARTS[key][2], "-f", str(values)]
    ran = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={
            name: str(folder) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME",
                                           "HELM_DATA_HOME")
        },
    )  # fmt: skip
    return [each for each in yaml.safe_load_all(ran.stdout) if each]


def _of(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]


def test_every_rendered_object_is_valid(rendered: list[Manifest]) -> None:
    wrong = [
        f"{each['kind']} {each['metadata']['name']}: {mistake}"
        for each in rendered
        for mistake in mistakes(_without_empty(each))
    ]
    assert len(rendered) > 5
    assert wrong == []


def _without_empty(value: Any) -> Any:
    """Without nulls: charts leave `nodeSelector:` and the like, and the server drops them."""
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_empty(each) for key, each in value.items() if each is not None}


def test_every_value_is_one_the_chart_has(key: str, chart: Path, graph: Graph) -> None:
    """Helm takes a misspelt value and does nothing with it."""
    known = yaml.safe_load((chart / "values.yaml").read_text())

    def strange(given: Any, there: Any, path: str) -> list[str]:
        if not isinstance(given, dict):
            return []
        return [
            found
            for name, value in given.items()
            for found in (
                [f"{path}{name}"]
                if not isinstance(there, dict) or name not in there
                else []
                if name in FREE
                else strange(value, there[name], f"{path}{name}.")
            )
        ]

    values = graph.one("Release", f"operators-{key}").inputs["values"]
    assert values
    assert strange(values, known, "") == []


def test_managers_run_where_and_as_they_should(key: str, rendered: list[Manifest]) -> None:
    (deployment,) = _of(rendered, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"cloud.google.com/gke-nodepool": "system"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    replicas, budgets = deployment["spec"]["replicas"], _of(rendered, "PodDisruptionBudget")
    # LWS is ready before its webhook answers, so the gate must know whom it asked.
    assert (replicas, len(budgets)) == ((1, 0) if key == "lws" else (2, 1))


@pytest.mark.parametrize("key", ["kueue"], indirect=True)
class TestKueue:
    def test_its_configuration_is_the_one_we_wrote(
        self, rendered: list[Manifest], graph: Graph
    ) -> None:
        (found,) = [
            yaml.safe_load(each["data"]["controller_manager_config.yaml"])
            for each in _of(rendered, "ConfigMap")
        ]
        values = graph.one("Release", "operators-kueue").inputs["values"]
        ours = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
        certificates = found.pop("internalCertManagement")
        assert certificates["webhookSecretName"] == "kueue-webhook-server-cert"
        assert found == ours

    def test_its_webhooks_for_jobs_see_our_namespaces_alone(self, rendered: list[Manifest]) -> None:
        ours = {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["lab"]}
            ]
        }
        open_to_all = [
            hook["name"]
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
            for each in _of(rendered, kind)
            for hook in each["webhooks"]
            if hook["failurePolicy"] == "Fail"
            and hook["rules"][0]["apiGroups"][0] in GROUPS
            and hook.get("namespaceSelector") != ours
        ]
        assert _of(rendered, "MutatingWebhookConfiguration")
        assert open_to_all == []


@pytest.mark.parametrize("key", ["jobset", "lws"], indirect=True)
def test_definitions_we_ship_are_those_of_the_chart(chart: Path, graph: Graph) -> None:
    """Kueue's chart upgrades its own."""
    ours = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]
        for each in graph.of("CustomResourceDefinition")
    }
    for file in (chart / "crds").glob("*.yaml"):
        document = yaml.safe_load(file.read_text())
        name = document["metadata"]["name"]
        assert json.loads(
            json.dumps(ours[name]).replace("x_kubernetes_", "x-kubernetes-")
            .replace("list_type", "list-type").replace("list_map_keys", "list-map-keys")
            .replace("map_type", "map-type").replace("int_or_string", "int-or-string")
        ) == crds.without_prose(document["spec"])  # fmt: skip

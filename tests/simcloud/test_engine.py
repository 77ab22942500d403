"""The real Pulumi engine on the simulated cloud."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from pulumi import automation as auto

from simcloud.engine import OperationFailed, Sim, SimError
from simcloud.events import to_json
from tests.simcloud.harness import Step, declare
from tests.simcloud.matrix_program import BASE, program
from tests.simcloud.test_plan_matrix import MATRIX, label, measured, place, planned

pytestmark = pytest.mark.engine

PLACE = {"gcp:project": "my-project", "gcp:region": "us-central1"}
NETWORK = "gcp:compute/network:Network"
POOL = "gcp:container/nodePool:NodePool"
SECRET_TEXT = "hunter2-in-clear"


def two_networks() -> None:
    first = pulumi.CustomResource(NETWORK, "first", {"name": "first", "mtu": 1460})
    pulumi.CustomResource(
        NETWORK, "second", {"name": "second"}, pulumi.ResourceOptions(depends_on=[first])
    )


def changes(summary: Any) -> dict[str, int]:
    return {getattr(op, "value", op): count for op, count in (summary or {}).items()}


def names(sim: Sim) -> list[str]:
    return sorted(record.name for record in sim.cloud.resources())


def files_with(root: Path, text: str) -> list[str]:
    found = [path for path in root.rglob("*") if path.is_file()]
    assert found
    return [str(path) for path in found if text.encode() in path.read_bytes()]


# A whole stack


def whole_stack() -> None:
    # Only here: the SDKs take seconds to import.
    import pulumi_gcp as gcp  # noqa: PLC0415
    import pulumi_kubernetes as k8s  # noqa: PLC0415

    network = gcp.compute.Network("fabric", name="fabric", auto_create_subnetworks=False, mtu=8896)
    nodes = gcp.compute.Subnetwork(
        "nodes", name="nodes", network=network.id, ip_cidr_range="10.0.0.0/16"
    )
    cluster = gcp.container.Cluster(
        "tpu",
        name="tpu",
        location="us-central1",
        network=network.id,
        subnetwork=nodes.id,
        initial_node_count=1,
        deletion_protection=False,
    )
    pools = [
        gcp.container.NodePool(
            f"cube-{index}",
            name=f"cube-{index}",
            cluster=cluster.id,
            node_count=16,
            node_config=gcp.container.NodePoolNodeConfigArgs(machine_type="tpu7x-standard-4t"),
        )
        for index in range(4)
    ]
    server = cluster.endpoint.apply(lambda endpoint: f"https://{endpoint}")
    authority = cluster.master_auth.cluster_ca_certificate
    entry = {"name": "tpu", "cluster": {"server": server, "certificate-authority-data": authority}}
    kubeconfig = pulumi.Output.json_dumps({"clusters": [entry]})
    provider = k8s.Provider("tpu", kubeconfig=kubeconfig, cluster_identifier=cluster.id)
    inside = pulumi.ResourceOptions(provider=provider)
    namespace = k8s.core.v1.Namespace("llm", metadata={"name": "llm"}, opts=inside)
    kueue = k8s.helm.v3.Release(
        "kueue",
        name="kueue",
        namespace="kueue-system",
        create_namespace=True,
        chart="oci://registry.k8s.io/kueue/charts/kueue",
        version="0.17.0",
        opts=pulumi.ResourceOptions(provider=provider, depends_on=[pools[0]]),
    )
    k8s.apiextensions.CustomResource(
        "queue",
        api_version="kueue.x-k8s.io/v1beta2",
        kind="ClusterQueue",
        metadata={"name": "tpu"},
        spec={"resourceGroups": []},
        opts=pulumi.ResourceOptions(provider=provider, depends_on=[kueue]),
    )
    k8s.core.v1.Secret(
        "token",
        metadata={"name": "token", "namespace": namespace.metadata.name},
        string_data={"token": pulumi.Output.secret(SECRET_TEXT)},
        opts=inside,
    )
    # mypy and the import rules know pulumi.export as the main program's alone.
    pulumi.export("endpoint", cluster.endpoint)  # noqa: TID251


def test_the_life_of_a_whole_stack(tmp_path: Path) -> None:
    with Sim(tmp_path, stack="dev", config=PLACE, program=whole_stack) as sim:
        first = changes(sim.preview().change_summary)
        assert first == {"create": 13}
        assert names(sim) == []
        made = sim.up()
        assert changes(made.summary.resource_changes) == {"create": 13}
        assert made.outputs["endpoint"].value.endswith(".simulated.invalid")
        assert changes(sim.preview().change_summary) == {"same": 13}
        assert changes(sim.refresh().summary.resource_changes) == {"same": 13}
        assert changes(sim.preview().change_summary) == {"same": 13}

        ids = [item["id"] for item in sim.export()["resources"] if item.get("id")]
        real = [id_ for id_ in ids if not id_.startswith("simulated/")]
        # The engine makes the ids of providers itself.
        assert len(ids) - len(real) == 11
        assert all(len(id_) == 36 for id_ in real)
        assert files_with(tmp_path, SECRET_TEXT) == []

        by_name = {call.name: call for call in sim.cloud.log() if call.method == "Create"}
        pools = [by_name[f"cube-{index}"] for index in range(4)]
        assert all(by_name["tpu"].ended <= pool.started for pool in pools)
        assert max(pool.started for pool in pools) < min(pool.ended for pool in pools)
        assert by_name["kueue"].ended <= by_name["queue"].started
        assert by_name["tpu"].minutes == 7

        assert changes(sim.destroy().summary.resource_changes) == {"delete": 13}
        assert names(sim) == []


# The measured plans once more, through the engine


CASCADES = ["CIDR=10.0.0.0/17", "POLNAME=cube-renamed", "PTYPE=TYPE_UNSPECIFIED,ROC=1"]
MISTAKES = ["DIST=BLOCK", "EFFECT=NoSchedule"]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sim, dict[str, str]]]:
    settings = dict(BASE)
    run = declare(lambda: program(settings))
    root = tmp_path_factory.mktemp("matrix")
    with Sim(root, stack="dev", config=PLACE, program=run, scale=0) as sim:
        sim.up()
        yield sim, settings


@pytest.mark.parametrize("wanted", [*CASCADES, *MISTAKES])
def test_the_engine_plans_what_was_measured(
    matrix: tuple[Sim, dict[str, str]], wanted: str
) -> None:
    sim, settings = matrix
    row = next(row for row in MATRIX["changes"] + MATRIX["mistakes"] if label(row) == wanted)
    settings.update(BASE)
    settings.update(row["set"])
    steps: list[Step] = []

    def observe(event: auto.events.EngineEvent) -> None:
        if (found := event.resource_pre_event) is None:
            return
        metadata, op = found.metadata, found.metadata.op.value
        key = f"{metadata.type} {metadata.urn.rpartition('::')[2]}"
        detail = {path: diff.diff_kind.value for path, diff in _items(metadata)}
        if op in ("update", "replace"):
            steps.append((op, key, detail))
        elif op == "create-replacement" and not detail:
            # What goes with an object deleted first has its reason here and no detailed diff. The
            # measuring provider had no automatic names and so deleted nothing first.
            cascaded = next(step for step in steps if step[1] == key)
            cascaded[2].update(dict.fromkeys(metadata.keys or (), "update"))

    if row["ok"]:
        sim.preview(on_event=observe)
        assert planned(steps) == measured(row)
    else:
        with pytest.raises(OperationFailed) as failed:
            sim.preview()
        told = {place(text) for text in failed.value.diagnostics if "Examine values" in text}
        assert told == {place(text) for text in row["errors"]}


def _items(metadata: Any) -> Any:
    return (metadata.detailed_diff or {}).items()


# Failures


def test_a_fault_stops_the_update_and_the_next_one_finishes(tmp_path: Path) -> None:
    env = {"SIM_FAULTS": "create Network@second=quota"}
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0, env=env) as sim:
        with pytest.raises(OperationFailed, match=r"second: .*quotaExceeded") as failed:
            sim.up()
        assert failed.value.operation == "up"
        assert names(sim) == ["first"]
        assert changes(sim.up().summary.resource_changes) == {"same": 2, "create": 1}
        assert names(sim) == ["first", "second"]


def test_a_killed_engine_leaves_its_lock_and_what_it_had_asked_for(tmp_path: Path) -> None:
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        sim.cloud.set_faults("create Network@second=crash")
        with pytest.raises(OperationFailed, match="the engine was killed"):
            sim.up()
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        with pytest.raises(OperationFailed, match="locked by 1 lock"):
            sim.up()
        sim.cancel()
        assert names(sim) == ["first", "second"]
        assert len(sim.export()["pending_operations"]) == 1
        # The request had reached the cloud: as there, its object is in the way of another.
        with pytest.raises(OperationFailed, match=r"second.*already exists"):
            sim.up()
        sim.cloud.lose(NETWORK, "second")
        sim.up()
        assert names(sim) == ["first", "second"]


def test_an_engine_killed_before_its_request_resumes(tmp_path: Path) -> None:
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        sim.cloud.set_faults("create Network@second=crash-before")
        with pytest.raises(OperationFailed, match="the engine was killed"):
            sim.up()
        sim.cancel()
        assert names(sim) == ["first"]
        assert changes(sim.up().summary.resource_changes) == {"same": 2, "create": 1}
        assert changes(sim.preview(expect_no_changes=True).change_summary) == {"same": 3}


def test_a_provider_that_ends_is_started_again(tmp_path: Path) -> None:
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        sim.cloud.set_faults("create Network@second=provider-crash")
        with pytest.raises(OperationFailed):
            sim.up()
        sim.up()
        assert names(sim) == ["first", "second"]


def test_a_partial_creation_is_kept_and_repaired(tmp_path: Path) -> None:
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        sim.cloud.set_faults("create Network@second=partial")
        with pytest.raises(OperationFailed, match="did not become ready"):
            sim.up()
        kept = [item for item in sim.export()["resources"] if item.get("initErrors")]
        assert [item["urn"].rpartition("::")[2] for item in kept] == ["second"]
        assert changes(sim.up().summary.resource_changes) == {"same": 2, "update": 1}


def test_drift_and_loss_are_seen_by_a_refresh(tmp_path: Path) -> None:
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        sim.up()
        sim.cloud.drift(NETWORK, "first", "mtu", 8896)
        sim.cloud.lose(NETWORK, "second")
        counts = changes(sim.refresh().summary.resource_changes)
        assert (counts["update"], counts["delete"]) == (1, 1)
        assert changes(sim.up().summary.resource_changes) == {"same": 1, "update": 1, "create": 1}
        assert sim.cloud.find(NETWORK, "first").props["mtu"] == 1460


def test_a_program_error_is_one_exception_with_its_text(tmp_path: Path) -> None:
    def broken() -> None:
        pulumi.CustomResource(NETWORK, "fabric", {"mtuu": 1460})

    with (
        Sim(tmp_path, stack="dev", config=PLACE, program=broken) as sim,
        pytest.raises(OperationFailed, match="Did you mean 'mtu'") as failed,
    ):
        sim.preview()
    assert failed.value.__cause__ is None


# Nothing real


class _Elsewhere(Sim):
    """The providers attached to an engine whose state is not in the scratch folder."""

    @property
    def backend(self) -> str:
        return f"file://{self.root.parent}/real"


def test_an_engine_on_another_backend_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    with _Elsewhere(
        tmp_path / "sim", stack="dev", config=PLACE, program=two_networks, scale=0
    ) as sim:
        with pytest.raises(OperationFailed, match="only serves stacks of its scratch backend"):
            sim.up()
        assert names(sim) == []
    assert list((tmp_path / "real").rglob("dev.json"))


def test_the_command_line_is_bound_to_the_scratch_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sim(tmp_path, stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        monkeypatch.setitem(
            sim.stack.workspace.env_vars,
            "PULUMI_BACKEND_URL",
            "gs://real-state",
        )
        with pytest.raises(SimError, match="refused: the engine would run on gs://real-state"):
            sim.up()


def test_the_callers_pulumi_settings_do_not_reach_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{elsewhere}")
    monkeypatch.setenv("PULUMI_STACK", "another")
    with Sim(tmp_path / "sim", stack="dev", config=PLACE, program=two_networks, scale=0) as sim:
        sim.up()
        assert names(sim) == ["first", "second"]
    assert list(elsewhere.iterdir()) == []
    assert os.environ["PULUMI_BACKEND_URL"] == f"file://{elsewhere}"
    assert "PULUMI_DEBUG_PROVIDERS" not in os.environ


def test_settings_of_the_engine_are_not_accepted(tmp_path: Path) -> None:
    with pytest.raises(SimError, match="PULUMI_BACKEND_URL would reach the engine"):
        Sim(tmp_path, stack="dev", env={"PULUMI_BACKEND_URL": "gs://real"})


# Configuration


def test_a_stack_file_is_copied_with_its_nested_values(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.prod.yaml"
    content = {
        "secretsprovider": "gcpkms://projects/real/keys",
        "encryptedkey": "abc",
        "config": {
            **PLACE,
            "tpuserve:network": {"nodes": "10.0.0.0/18", "mtu": 8896},
            "tpuserve:token": {"secure": "v1:ciphertext:of-the-real-key"},
        },
    }
    file.write_text(yaml.safe_dump(content))
    seen: list[Any] = []

    def read() -> None:
        config = pulumi.Config()  # noqa: TID251
        network = config.require_object("network")
        seen.append(network)
        pulumi.CustomResource(NETWORK, "fabric", {"name": "fabric", "mtu": network["mtu"]})
        pulumi.export("token", config.require_secret("token"))  # noqa: TID251

    with Sim(tmp_path / "sim", stack="prod", config_file=file, program=read, scale=0) as sim:
        sim.up()
        assert seen[0] == {"nodes": "10.0.0.0/18", "mtu": 8896}
        assert sim.outputs()["token"].secret is True
        copied = yaml.safe_load((tmp_path / "sim" / "project" / "Pulumi.prod.yaml").read_text())
        assert "secretsprovider" not in copied
        assert copied["config"]["tpuserve:token"]["secure"] != "v1:ciphertext:of-the-real-key"
        sim.set_config({"network": {"nodes": "10.0.0.0/18", "mtu": 1460}})
        assert changes(sim.preview().change_summary) == {"same": 1, "update": 1}
        secret = auto.ConfigValue(SECRET_TEXT, secret=True)
        sim.set_config({"token": secret, "network": {"mtu": 8896}})
        sim.up()
        assert sim.outputs()["token"].value == SECRET_TEXT
        assert files_with(tmp_path / "sim", SECRET_TEXT) == []
    assert yaml.safe_load(file.read_text()) == content


def test_a_missing_stack_file_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "Pulumi.none.yaml"
    with (
        pytest.raises(SimError, match=r"no stack file .*Pulumi\.none\.yaml"),
        Sim(tmp_path, stack="none", config_file=missing),
    ):
        pass


# Policies, events, files


def test_a_policy_pack_and_the_events_of_a_preview(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.write_text(
        f"#!{sys.executable} -u\n"
        "from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy\n"
        "def check(args, report):\n"
        "    if args.props.get('mtu') == 1460:\n"
        "        report('use jumbo frames')\n"
        "PolicyPack('p', [ResourceValidationPolicy('mtu', 'mtu', check,"
        " EnforcementLevel.MANDATORY)])\n"
    )
    pack.chmod(pack.stat().st_mode | stat.S_IXUSR)
    events: list[auto.events.EngineEvent] = []
    with (
        Sim(tmp_path / "sim", stack="dev", config=PLACE, program=two_networks) as sim,
        pytest.raises(OperationFailed, match=r"first: policy mtu: .*use jumbo frames"),
    ):
        sim.preview(policy_packs=[pack], on_event=events.append)
    lines = [to_json(event) for event in events]
    assert len(lines) > 5
    again = [auto.events.EngineEvent.from_json(json.loads(line)) for line in lines]
    assert [to_json(event) for event in again] == lines


def test_a_program_file_finds_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("NAME = 'from-file'\n")
    main = tmp_path / "__main__.py"
    main.write_text(
        "import pulumi\nfrom beside_it import NAME\n"
        f"pulumi.CustomResource('{NETWORK}', NAME, {{'name': NAME}})\n"
    )
    with Sim(tmp_path / "sim", stack="dev", config=PLACE, program=main, scale=0) as sim:
        sim.up()
        assert names(sim) == ["from-file"]
    assert str(tmp_path) not in sys.path

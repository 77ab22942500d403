"""The real engine on the simulated cloud, its events reported and judged."""

import gc
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from ops.gate import app as gate_app
from ops.report import app as report_app
from simcloud.engine import OperationFailed, Sim
from simcloud.events import to_json
from tests.ops.previews import COMMIT
from tests.support.engine import simulated
from tests.support.files import ROOT, stack_config

# An engine that stops early leaves the event loop of the SDK open (pulumi 3.272.0,
# automation/_server.py); _preview collects it at once, where this filter holds.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

PACK = """#!{python} -u
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy, Severity

POOL = "gcp:container/nodePool:NodePool"


def no_third_cube(args, report):
    if args.resource_type == POOL and args.name == "cubes-002":
        report("a third cube was not agreed on. Fix: keep cubes at 2.")


def networks_have_a_description(args, report):
    if args.resource_type == "gcp:compute/network:Network" and not args.props.get("description"):
        report("no description")


def pools_know_their_cluster(args, report):
    if args.resource_type == POOL and args.props["cluster"] == "nowhere":
        report("cluster is nowhere")


PolicyPack("test", [
    ResourceValidationPolicy(
        "pool-count", "At most two cubes.", no_third_cube, EnforcementLevel.MANDATORY,
        severity=Severity.HIGH,
    ),
    ResourceValidationPolicy(
        "network-description", "Networks are described.", networks_have_a_description,
        EnforcementLevel.ADVISORY,
    ),
    ResourceValidationPolicy(
        "pool-cluster", "Pools name a cluster.", pools_know_their_cluster,
        EnforcementLevel.MANDATORY,
    ),
])
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pack") / "run"
    path.write_text(PACK.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory, pack: Path) -> Path:
    """The first preview of prod, before anything exists."""
    folder = tmp_path_factory.mktemp("fresh") / "prod"
    with simulated(tmp_path_factory.mktemp("nothing"), "bare-prod") as sim:
        _preview(sim, folder, pack)
    return folder


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with simulated(tmp_path_factory.mktemp("cloud"), "bare-prod") as sim:
        sim.up()
        yield sim


@pytest.fixture(scope="module")
def unprotected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with simulated(tmp_path_factory.mktemp("open"), "bare-prod", {"protect": False}) as sim:
        sim.up()
        yield sim


def _preview(
    sim: Sim, folder: Path, pack: Path | None, config: Mapping[str, Any] | None = None
) -> Path:
    """A preview as the workflow leaves it; the changed sections are put back."""
    folder.mkdir(parents=True)
    lines: list[str] = []
    shipped = stack_config("prod")
    sim.set_config(config or {})
    try:
        sim.preview(
            policy_packs=[pack] if pack else [], on_event=lambda event: lines.append(to_json(event))
        )
        code = 0
    except OperationFailed as error:
        (folder / "output.txt").write_text(error.output)
        code = 1
        gc.collect()
    finally:
        sim.set_config({key: shipped.get(f"tpuserve:{key}") for key in config or {}})
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "exit-code").write_text(str(code))
    return folder


def _cubes(**fields: Any) -> dict[str, Any]:
    return {"cubes": {**stack_config("prod")["tpuserve:tpuPools"]["cubes"], **fields}}


def _report(folder: Path) -> tuple[str, dict[str, Any]]:
    comment, summary = folder / "comment.md", folder / "report.json"
    result = CliRunner().invoke(
        report_app,
        ["render", str(folder), "--markdown", str(comment), "--json", str(summary)],
    )
    assert result.exit_code == 0, result.output
    (stack,) = json.loads(summary.read_text())["stacks"]
    return comment.read_text(), stack


def _gate(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(gate_app, [str(folder), "--commit", COMMIT, *arguments])


def test_a_first_preview_says_what_could_not_be_decided(fresh: Path) -> None:
    comment, stack = _report(fresh)
    pools = [each for each in stack["changes"] if each["kind"] == "gcp:container:NodePool"]
    assert len(pools) >= 3
    assert stack["policies"]["undecided"] == len(pools)
    assert f"Policies, not decided before apply: {len(pools)}" in comment
    findings = json.loads(_gate(fresh, "--json").output)["prod"]
    (undecided,) = [each for each in findings if each["gate"] == "G6"]
    assert undecided["level"] == "advisory"
    assert "pool-cluster" in undecided["text"]


def test_a_first_preview_is_priced_and_needs_a_word_for_the_money(fresh: Path) -> None:
    _, stack = _report(fresh)
    # Two cubes of 64 chips at 12 USD an hour, the catalogue's list price of a TPU7x chip.
    assert stack["cost"]["changePerHour"] == 1536
    result = _gate(fresh)
    assert result.exit_code == 1
    assert "allow G7 spend-1121280-usd-a-month-more stack:prod" in result.output


def test_an_advisory_finding_is_told_and_stops_nothing(
    sim: Sim, pack: Path, tmp_path: Path
) -> None:
    folder = _preview(sim, tmp_path / "prod", pack)
    comment, stack = _report(folder)
    assert (folder / "exit-code").read_text() == "0"
    assert stack["verdict"] == "no changes"
    assert stack["policies"]["advisory"] == 1
    assert "network-description" in comment
    assert _gate(folder).exit_code == 0


def test_a_mandatory_violation_fails_the_run_and_still_makes_a_comment(
    sim: Sim, pack: Path, tmp_path: Path
) -> None:
    folder = _preview(sim, tmp_path / "prod", pack, {"tpuPools": _cubes(cubes=3)})
    assert (folder / "exit-code").read_text() == "1"
    comment, stack = _report(folder)
    assert stack["verdict"] == "blocked"
    assert comment.splitlines()[1].startswith("**prod: blocked by 1 policy and 1 gate**")
    assert "a third cube was not agreed on. Fix: keep cubes at 2." in comment


def test_a_program_that_fails_still_makes_a_comment_with_the_reason(
    sim: Sim, pack: Path, tmp_path: Path
) -> None:
    broken = {"tpuPools": _cubes(cubes=0)}
    folder = _preview(sim, tmp_path / "prod", pack, broken)
    comment, stack = _report(folder)
    assert stack["verdict"] == "failed"
    assert comment.splitlines()[1].startswith("**prod: failed**")
    assert "tpuPools" in comment
    assert _gate(folder).exit_code == 2


def _other_control_plane() -> dict[str, Any]:
    network = {**stack_config("prod")["tpuserve:network"], "controlPlane": "172.16.3.0/28"}
    return {"network": network}


def test_a_protected_cluster_is_not_even_planned_for_replacement(
    sim: Sim, pack: Path, tmp_path: Path
) -> None:
    folder = _preview(sim, tmp_path / "prod", pack, _other_control_plane())
    comment, stack = _report(folder)
    assert stack["verdict"] == "failed"
    assert "marked for protection" in comment


def test_taking_the_protection_off_is_stopped_by_the_gate(
    sim: Sim, pack: Path, tmp_path: Path
) -> None:
    folder = _preview(sim, tmp_path / "prod", pack, {"protect": False})
    findings = json.loads(_gate(folder, "--json").output)["prod"]
    assert {each["gate"] for each in findings if each["refuses"]} == {"G2", "G3"}
    (unprotected,) = [each for each in findings if each["gate"] == "G2"]
    assert unprotected["subject"] == "stack:prod"


def test_replacing_an_unprotected_cluster_of_prod_is_stopped_by_the_gate(
    unprotected: Sim, tmp_path: Path
) -> None:
    folder = _preview(unprotected, tmp_path / "prod", None, _other_control_plane())
    comment, stack = _report(folder)
    assert stack["verdict"] == "blocked"
    assert stack["risks"]["outage"] == 1
    result = _gate(folder)
    assert result.exit_code == 1
    cluster = "$gcp:container/cluster:Cluster::tpuserve-prod-cluster"
    assert f"{cluster} at {COMMIT}" in result.output
    assert "privateClusterConfig" in comment


def test_a_label_lets_exactly_one_replacement_through(unprotected: Sim, tmp_path: Path) -> None:
    block = {"kind": "reservation", "name": "my-reservation", "block": "my-block-0002"}
    folder = _preview(unprotected, tmp_path / "prod", None, {"tpuPools": _cubes(capacity=block)})
    refused = json.loads(_gate(folder, "--json").output)["prod"]
    pools = [each for each in refused if each["gate"] == "G1"]
    assert {each["subject"].rsplit("::", 1)[1] for each in pools} == {"cubes-000", "cubes-001"}
    first = ["--allow", pools[0]["label"]]
    again = json.loads(_gate(folder, *first, "--json").output)["prod"]
    assert [each["subject"] for each in again if each["overridden"]] == [pools[0]["subject"]]
    everything = [word for each in refused for word in ("--allow", str(each["label"]))]
    assert _gate(folder, *everything).exit_code == 0


def test_a_pool_more_is_priced_and_disturbs_nobody(sim: Sim, tmp_path: Path) -> None:
    folder = _preview(sim, tmp_path / "prod", None, {"tpuPools": _cubes(cubes=3)})
    _, stack = _report(folder)
    assert stack["risks"] == {"safe": 1}
    assert stack["cost"]["changePerHour"] == 768


def test_the_command_line_ends_with_an_error_and_leaves_a_log(tmp_path: Path, pack: Path) -> None:
    document = yaml.safe_load((ROOT / "Pulumi.prod.yaml").read_text())
    document["config"]["tpuserve:tpuPools"]["cubes"]["cubes"] = 3
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(yaml.safe_dump(document))
    folder = tmp_path / "prod"
    folder.mkdir()
    options = ["--policy-pack", pack, "--event-log", folder / "events.jsonl"]
    place = ["--stack", file, "--root", tmp_path / "sim"]
    run = subprocess.run(
        [sys.executable, "-m", "simcloud", "preview", *place, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    comment, stack = _report(folder)
    assert stack["policies"]["mandatory"] == 1
    assert "blocked by 1 policy" in comment.splitlines()[1]

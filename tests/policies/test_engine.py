"""The pack started by the real engine: as an executable, over a preview, an update and a state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.automation import events

from pack import PROFILE_VARIABLE
from simcloud import pulumi_cli
from simcloud.engine import OperationFailed, Sim
from tests.policies import world
from tests.policies.world import Record

pytestmark = pytest.mark.engine

PACK = Path(__file__).parents[2] / "policies"
RUN = PACK / "run"


@dataclass(frozen=True)
class Told:
    """One line of the pack in the engine's event stream."""

    rule: str
    level: str
    name: str
    text: str


class Ears:
    """Keeps what the policies say during an operation."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def __call__(self, event: events.EngineEvent) -> None:
        if said := event.policy_event:
            name = (said.resource_urn or "").rpartition("::")[2]
            self.told.append(Told(said.policy_name, said.enforcement_level, name, said.message))

    def rules(self, level: str) -> set[str]:
        return {each.rule for each in self.told if each.level == level}


def program(*, automatic_subnets: bool) -> Callable[[], None]:
    import pulumi_gcp as gcp  # noqa: PLC0415 - takes a second, and only this tier needs it

    def declare() -> None:
        account = gcp.serviceaccount.Account("nodes", account_id="gke-nodes")
        gcp.compute.Network(
            "net", name="net", auto_create_subnetworks=automatic_subnets, mtu=8896,
            opts=pulumi.ResourceOptions(protect=False),
        )  # fmt: skip
        gcp.projects.IAMMember(
            "logs", project="demo", role="roles/logging.logWriter",
            member=account.email.apply(lambda email: f"serviceAccount:{email}"),
        )  # fmt: skip
        gcp.storage.Bucket(
            "cache", name="cache", location="US-CENTRAL1", public_access_prevention="enforced",
            uniform_bucket_level_access=True,
        )  # fmt: skip

    return declare


@pytest.fixture
def sim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    monkeypatch.setenv(PROFILE_VARIABLE, "dev")
    opened: list[Sim] = []

    def start(declare: Callable[[], None]) -> Sim:
        config = {"gcp:project": "demo"}
        made = Sim(tmp_path, stack="dev", config=config, program=declare, scale=0.001)
        opened.append(made)
        return made.__enter__()

    yield start
    for each in opened:
        each.__exit__()


def test_a_mandatory_finding_fails_the_preview_and_says_what_to_change(sim: Any) -> None:
    ears = Ears()
    with pytest.raises(OperationFailed, match="autoCreateSubnetworks is on") as caught:
        sim(program(automatic_subnets=True)).preview(policy_packs=[RUN], on_event=ears)
    assert ears.rules("mandatory") == {"NET-01"}
    assert "The network makes no subnets by itself." in caught.value.output


def test_an_advisory_finding_is_told_and_stops_nothing(sim: Any) -> None:
    ears = Ears()
    result = sim(program(automatic_subnets=False)).preview(policy_packs=[RUN], on_event=ears)
    assert result.change_summary
    assert ears.rules("mandatory") == set()
    assert "TPU-18" in ears.rules("advisory")


def test_what_is_unknown_at_first_is_one_message_and_decided_after_the_update(sim: Any) -> None:
    stack = sim(program(automatic_subnets=False))
    first, update, second = Ears(), Ears(), Ears()
    stack.preview(policy_packs=[RUN], on_event=first)
    (summary,) = [each for each in first.told if each.rule == "PACK-01"]
    assert "IAM-03 logs (member)" in summary.text
    stack.up(policy_packs=[RUN], on_event=update)
    assert "PACK-01" not in update.rules("advisory")
    stack.preview(policy_packs=[RUN], on_event=second)
    assert "PACK-01" not in second.rules("advisory")


def _state(records: list[Record]) -> dict[str, Any]:
    """A deployment as `pulumi stack export` writes it."""
    root = "urn:pulumi:test::tpuserve::pulumi:pulumi:Stack::tpuserve-test"
    provider = "urn:pulumi:test::tpuserve::pulumi:providers:gcp::p"
    inputs = {"version": "10.2.0"}
    resources: list[Record] = [
        {"urn": root, "custom": False, "type": "pulumi:pulumi:Stack"},
        {"urn": provider, "custom": True, "id": "id", "type": "pulumi:providers:gcp",
         "inputs": inputs, "outputs": inputs},
    ]  # fmt: skip
    for record in records:
        resources.append(
            {"urn": record["urn"], "custom": True, "id": record["name"], "type": record["type"],
             "inputs": record["inputs"], "outputs": record["inputs"], "parent": root,
             "provider": f"{provider}::id",
             "protect": bool(record["options"].get("protect"))}
        )  # fmt: skip
    manifest = {"time": "2026-11-30T00:00:00Z", "magic": "", "version": ""}
    return {"version": 3, "deployment": {"manifest": manifest, "resources": resources}}


class TestState:
    """`pulumi policy analyze` judges what exists, with no program, provider or login."""

    def analyze(
        self, folder: Path, records: list[Record], *options: str, pack: Path = RUN, **env: str
    ) -> subprocess.CompletedProcess[str]:
        state = folder / "state.json"
        state.write_text(json.dumps(_state(records)))
        command = [pulumi_cli.find(), "policy", "analyze", "--file", state, "--policy-pack", pack]
        ours = ("PULUMI_", "TPUSERVE_")
        settings = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        settings |= {
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        return subprocess.run(
            [*map(str, command), *options, "--color", "never"],
            env=settings | env, text=True, capture_output=True, check=False,
        )  # fmt: skip

    google = staticmethod(lambda: [r for r in world.prod() if r["type"].startswith("gcp:")])

    def test_a_sound_state_passes_under_the_strictest_profile(self, tmp_path: Path) -> None:
        answer = self.analyze(tmp_path, self.google())
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert "mandatory" not in answer.stdout

    def test_a_violation_fails_and_names_rule_and_resource(self, tmp_path: Path) -> None:
        records = self.google()
        records[0]["inputs"]["autoCreateSubnetworks"] = True
        answer = self.analyze(tmp_path, records)
        assert answer.returncode == 1
        assert "[mandatory] [severity: high]  NET-01  (gcp:compute:Network: net)" in answer.stdout

    def test_a_config_file_wins_over_the_profile(self, tmp_path: Path) -> None:
        records = self.google()
        records[0]["inputs"]["autoCreateSubnetworks"] = True
        config = tmp_path / "levels.json"
        config.write_text(json.dumps({"NET-01": "advisory"}))
        answer = self.analyze(tmp_path, records, "--policy-pack-config", str(config))
        assert answer.returncode == 0
        assert "[advisory] [severity: high]  NET-01" in answer.stdout

    def test_a_profile_file_serves_as_config_file(self, tmp_path: Path) -> None:
        records = [world.cluster(privateClusterConfig={})]
        profiles = PACK / "profiles"
        strict = self.analyze(tmp_path, records, "--policy-pack-config", f"{profiles}/prod.json",
                              TPUSERVE_POLICY_PROFILE="dev")  # fmt: skip
        loose = self.analyze(tmp_path, records, "--policy-pack-config", f"{profiles}/dev.json")
        assert "[mandatory] [severity: high]  GKE-01" in strict.stdout
        assert "[advisory] [severity: high]  GKE-01" in loose.stdout

    def test_a_profile_that_is_not_there_stops_the_pack_with_its_reason(
        self, tmp_path: Path
    ) -> None:
        answer = self.analyze(tmp_path, self.google(), TPUSERVE_POLICY_PROFILE="nope")
        assert answer.returncode != 0
        assert "no policy profile 'nope': use dev, staging, prod" in answer.stderr

    @pytest.mark.skipif(
        shutil.which("pulumi-language-python") is not None, reason="the language host is here"
    )
    def test_the_folder_form_needs_the_language_host(self, tmp_path: Path) -> None:
        answer = self.analyze(tmp_path, self.google(), pack=PACK)
        assert answer.returncode != 0
        assert "pulumi-language-python" in answer.stderr


class TestRun:
    """policies/run finds a Python by itself."""

    def run(self, where: Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(where)], env={"PATH": "/usr/bin:/bin"} | env, text=True,
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip

    def test_without_any_python_it_says_how_to_make_one(self, tmp_path: Path) -> None:
        copy = tmp_path / "policies" / "run"
        copy.parent.mkdir()
        shutil.copy2(RUN, copy)
        answer = self.run(copy, PATH=f"{tmp_path}:/usr/bin:/bin")
        assert answer.returncode == 1
        assert f"pip install -r {copy.parent}/requirements.txt" in answer.stderr

    def test_the_python_named_by_the_user_comes_first(self, tmp_path: Path) -> None:
        fake = tmp_path / "python"
        fake.write_text('#!/bin/sh\ncase "$1" in -c) exit 0 ;; *) echo "chosen $*" ;; esac\n')
        fake.chmod(0o755)
        answer = self.run(RUN, TPUSERVE_POLICY_PYTHON=str(fake))
        assert answer.stdout == f"chosen -u {PACK}\n"

"""The home of state, secrets and identities, on the simulated cloud."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from simcloud.engine import OperationFailed, Sim
from tests.support.files import ROOT

FOLDER = ROOT / "bootstrap"
BUCKET = "gcp:storage/bucket:Bucket"
KEY = "gcp:kms/cryptoKey:CryptoKey"
HOME: dict[str, Any] = {
    "location": "us-central1",
    "stacks": ["dev", "prod"],
    "people": ["group:ml@example.com"],
}
GITHUB = {"repository": 123456789, "owner": 1234567}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The bootstrap's own modules, which are no package: Pulumi runs the folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("settings", "federation", "stack_home"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import federation  # noqa: PLC0415
    import settings  # noqa: PLC0415

    return SimpleNamespace(federation=federation, settings=settings)


def _home(root: Path, **changes: Any) -> Sim:
    return Sim(
        root,
        stack="home",
        project="tpuserve-bootstrap",
        program=FOLDER / "__main__.py",
        config={"gcp:project": "my-project", "home": {**HOME, **changes}},
        scale=0.001,
    )


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    with _home(tmp_path_factory.mktemp("home")) as sim:
        sim.up()
        yield sim


@pytest.mark.engine
def test_a_second_preview_finds_nothing_to_do(sim: Sim) -> None:
    sim.preview(expect_no_changes=True)


@pytest.mark.engine
def test_each_stack_has_a_versioned_private_bucket_and_a_rotating_key(sim: Sim) -> None:
    buckets = {each.name: each.props for each in sim.cloud.resources(BUCKET)}
    assert set(buckets) == {"my-project-tpuserve-dev-state", "my-project-tpuserve-prod-state"}
    for bucket in buckets.values():
        assert bucket["versioning"] == {"enabled": True}
        assert bucket["publicAccessPrevention"] == "enforced"
        assert bucket["uniformBucketLevelAccess"] is True
        assert not bucket.get("forceDestroy")
    keys = sim.cloud.resources(KEY)
    assert {each.name for each in keys} == {"tpuserve-dev", "tpuserve-prod"}
    assert {each.props["rotationPeriod"] for each in keys} == {"7776000s"}


@pytest.mark.engine
def test_previews_read_and_only_updates_write(sim: Sim) -> None:
    grants = {
        (each.props["member"].partition("@")[0], each.props["role"])
        for kind in (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",
        )
        for each in sim.cloud.resources(kind)
    }
    for stack in ("dev", "prod"):
        preview = f"serviceAccount:tpuserve-preview-{stack}"
        assert {role for member, role in grants if member == preview} == {
            "roles/storage.objectViewer",
            "roles/cloudkms.cryptoKeyDecrypter",
        }
        update = f"serviceAccount:tpuserve-apply-{stack}"
        assert {role for member, role in grants if member == update} == {
            "roles/storage.objectUser",
            "roles/cloudkms.cryptoKeyEncrypterDecrypter",
        }


@pytest.mark.engine
def test_no_identity_reaches_the_state_of_another_stack(sim: Sim) -> None:
    crossing = [
        (each.props["member"], each.props["bucket"])
        for each in sim.cloud.resources("gcp:storage/bucketIAMMember:BucketIAMMember")
        for stack, other in (("dev", "prod"), ("prod", "dev"))
        if f"-{stack}@" in each.props["member"] and f"-{other}-" in each.props["bucket"]
    ]
    assert crossing == []


@pytest.mark.engine
def test_no_identity_holds_a_primitive_role(sim: Sim) -> None:
    roles = {each.props["role"] for each in sim.cloud.resources("gcp:projects/iAMMember:IAMMember")}
    assert roles
    assert roles & {"roles/owner", "roles/editor", "roles/viewer"} == set()


@pytest.mark.engine
def test_the_outputs_are_what_has_to_be_pasted(sim: Sim) -> None:
    stacks = sim.outputs()["stacks"].value
    prod = stacks["prod"]
    assert prod["backend"] == "gs://my-project-tpuserve-prod-state"
    assert re.fullmatch(r"gcpkms://.*/cryptoKeys/tpuserve-prod", prod["secretsProvider"])
    assert set(prod["environments"]) == {"preview-prod", "prod"}


@pytest.mark.engine
def test_state_and_keys_are_not_destroyed_by_a_slip(sim: Sim) -> None:
    with pytest.raises(OperationFailed, match="protect"):
        sim.destroy()
    assert len(sim.cloud.resources(BUCKET)) == 2


@pytest.mark.engine
def test_github_takes_each_identity_by_its_environment(tmp_path: Path) -> None:
    with _home(tmp_path, github=GITHUB) as sim:
        sim.up()
        sim.preview(expect_no_changes=True)
        users = {
            each.props["member"].rpartition("/")[2]: each.props["serviceAccountId"]
            for each in sim.cloud.resources("gcp:serviceaccount/iAMMember:IAMMember")
        }
        assert {
            environment: account.rpartition("/")[2].partition("@")[0]
            for environment, account in users.items()
        } == {
            "preview-dev": "tpuserve-preview-dev",
            "dev": "tpuserve-apply-dev",
            "preview-prod": "tpuserve-preview-prod",
            "prod": "tpuserve-apply-prod",
        }


class _Text(str):
    """A CEL string: only what the condition calls."""

    __slots__ = ()

    def startsWith(self, prefix: str) -> bool:  # noqa: N802  the name in CEL
        return self.startswith(prefix)


def _trusts(condition: str, **claims: str) -> bool:
    """The condition as CEL evaluates it; a claim that is not there is an error, which refuses."""
    assertion = SimpleNamespace(**{key: _Text(value) for key, value in claims.items()})
    python = condition.replace("&&", "and").replace("||", "or")
    try:
        return bool(eval(python, {"__builtins__": {}}, {"assertion": assertion}))  # noqa: S307
    except AttributeError:
        return False


TOKEN = {
    "repository_id": "123456789",
    "repository_owner_id": "1234567",
    "environment": "prod",
    "ref": "refs/heads/main",
}


@pytest.mark.parametrize(
    ("claims", "trusted"),
    [
        ({}, True),
        ({"environment": "preview-prod", "ref": "refs/pull/7/merge"}, True),
        ({"environment": "prod", "ref": "refs/pull/7/merge"}, False),
        ({"environment": "prod", "ref": "refs/heads/feature"}, False),
        ({"environment": "prod", "ref": "refs/heads/main2"}, False),
        ({"repository_id": "987654321"}, False),
        ({"repository_owner_id": "1"}, False),
        ({"environment": None}, False),
    ],
)
def test_only_this_repository_and_for_updates_only_its_branch_is_trusted(
    modules: SimpleNamespace, claims: dict[str, Any], trusted: bool
) -> None:
    condition = modules.federation.condition(123456789, 1234567, "main")
    token = {key: value for key, value in {**TOKEN, **claims}.items() if value is not None}
    assert _trusts(condition, **token) is trusted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"github": {"repository": 0, "owner": 1}}, "github.repository"),
        ({"github": {**GITHUB, "branch": "x' || true || '"}}, "github.branch"),
        ({"stacks": []}, "stacks"),
        ({"stacks": ["dev", "dev"]}, "twice"),
        ({"stacks": ["a-name-that-is-too-long"]}, "stacks"),
        ({"people": ["allUsers"]}, "people"),
        ({"locaton": "us-central1"}, "locaton"),
    ],
)
def test_a_mistake_in_the_stack_file_is_refused_by_name(
    modules: SimpleNamespace, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        modules.settings.Home.model_validate({**HOME, **changes})


def test_the_shipped_file_asks_for_the_numbers_of_the_repository(modules: SimpleNamespace) -> None:
    shipped = yaml.safe_load((FOLDER / "Pulumi.home.yaml").read_text())["config"]
    with pytest.raises(ValidationError, match="greater than 0"):
        modules.settings.Home.model_validate(shipped["tpuserve-bootstrap:home"])
    filled = {**shipped["tpuserve-bootstrap:home"], "github": GITHUB}
    assert modules.settings.Home.model_validate(filled).stacks == ("dev", "prod")

"""The simulated cloud serves its scratch backend and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simcloud.clock import Clock
from simcloud.cloud import RefusedError
from simcloud.gcp import Gcp
from simcloud.guard import Guard
from simcloud.provider import Service
from simcloud.store import Store
from tests.simcloud.harness import CallError, Provider

NETWORK = "gcp:compute/network:Network"
URN = "urn:pulumi:prod::tpuserve::gcp:compute/network:Network::fabric"


def lock(backend: Path, stack: str, pid: int) -> Path:
    folder = backend / ".pulumi" / "locks" / "organization" / "tpuserve" / stack
    folder.mkdir(parents=True)
    path = folder / "0.json"
    path.write_text(json.dumps({"pid": pid, "username": "", "hostname": ""}))
    return path


def test_a_stack_that_holds_no_lock_here_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"tpuserve/prod holds no lock.*PULUMI_DEBUG_PROVIDERS"):
        Guard(tmp_path).admit(URN, "peer")


def test_the_lock_of_another_stack_does_not_count(tmp_path: Path) -> None:
    lock(tmp_path, "dev", 1)
    with pytest.raises(RefusedError, match="tpuserve/prod holds no lock"):
        Guard(tmp_path).admit(URN, "peer")


def test_a_connection_is_admitted_once(tmp_path: Path) -> None:
    path = lock(tmp_path, "prod", 1)
    guard = Guard(tmp_path)
    guard.admit(URN, "peer")
    path.unlink()
    guard.admit(URN, "peer")
    with pytest.raises(RefusedError, match="holds no lock"):
        guard.admit(URN, "another")


def test_the_engines_are_those_that_hold_the_locks(tmp_path: Path) -> None:
    assert Guard(tmp_path).engines() == []
    lock(tmp_path, "prod", 4_000_000)
    assert Guard(tmp_path).engines() == [4_000_000]


def test_nothing_is_created_changed_or_deleted_without_a_lock(tmp_path: Path) -> None:
    service = Service(Gcp(), Store(tmp_path / "cloud"), Clock(scale=0), Guard(tmp_path / "state"))
    gcp = Provider(service, {"project": "my-project"})
    inputs, failures = gcp.check(NETWORK, "fabric", {"name": "fabric"})
    assert failures == []
    gcp.preview(NETWORK, "fabric", inputs)
    with pytest.raises(CallError, match="only serves stacks of its scratch backend"):
        gcp.create(NETWORK, "fabric", {"name": "fabric"})
    assert service.store.count() == 0

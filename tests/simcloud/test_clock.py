"""Simulated minutes: every figure has a source, and waiting follows the scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcloud.clock import Clock, duration, scale_from_env, table
from tests.simcloud.harness import CallError, providers


def test_every_duration_has_a_source_and_is_marked_where_assumed() -> None:
    entries = table()
    assert len(entries) > 20
    assert [key for key, entry in entries.items() if len(entry.source) < 10] == []
    # Public figures exist for these; everything else says that it is assumed.
    known = {
        "gcp:compute/network:Network",
        "gcp:container/cluster:Cluster",
        "gcp:container/nodePool:NodePool",
        "helm:kueue",
        "tpu:*",
    }
    assert {key for key, entry in entries.items() if not entry.assumed} == known


@pytest.mark.parametrize(
    ("key", "minutes"),
    [
        ("gcp:container/cluster:Cluster", 7),
        ("gcp:container/nodePool:NodePool", 2),
        ("tpu:gcp:container/nodePool:NodePool", 6),
        ("helm:kueue", 1.5),
        ("helm:some-router", 1),
        ("kind:Gateway", 4),
        ("kind:Job", 8),
        ("tpu:LeaderWorkerSet", 7),
        ("tpu:JobSet", 0),
        ("kind:ConfigMap", 0),
    ],
)
def test_the_model_is_the_published_one(key: str, minutes: float) -> None:
    assert duration(key).create == minutes


def test_a_vpc_with_its_subnetwork_takes_a_minute() -> None:
    kinds = ("gcp:compute/network:Network", "gcp:compute/subnetwork:Subnetwork")
    assert sum(duration(key).create for key in kinds) == pytest.approx(1)


def test_waiting_ends_when_the_scaled_minutes_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("simcloud.clock.time.sleep", slept.append)
    monkeypatch.setattr("simcloud.clock.time.monotonic", lambda: 100.2)
    clock = Clock(scale=0.05)
    clock.wait(7, since=100.0)
    clock.wait(1, since=100.0)
    assert slept == [pytest.approx(0.15)]


@pytest.mark.parametrize("text", ["-1", "fast"])
def test_a_wrong_scale_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SIM_SCALE", text)
    with pytest.raises(ValueError, match=f"SIM_SCALE='{text}'.*a number of 0 or more"):
        scale_from_env()


def test_creations_updates_and_deletions_take_their_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("simcloud.clock.time.sleep", slept.append)
    gcp, _ = providers(tmp_path, scale=60)
    kind = "gcp:container/cluster:Cluster"
    given = {"name": "tpu", "location": "us-central1", "deletionProtection": False}
    live = gcp.create(kind, "tpu", given)
    live = gcp.update(kind, "tpu", live, {**given, "description": "x"})
    gcp.delete(kind, "tpu", live)
    assert slept == pytest.approx([7 * 60, 2 * 60, 3.5 * 60], abs=1)


@pytest.mark.parametrize(
    ("allowed", "slept", "said"),
    [(0, 120, "timeout: 2h0m0s"), (90 * 60, 90, "timeout: 1h30m0s"), (10 * 3600, 180, "")],
)
def test_the_provider_gives_up_when_its_limit_or_the_programs_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: float, slept: float, said: str
) -> None:
    gcp, _ = providers(tmp_path, scale=0)
    cluster = {"name": "tpu", "location": "us-central1"}
    gcp.create("gcp:container/cluster:Cluster", "tpu", cluster)
    waited: list[float] = []
    monkeypatch.setattr("simcloud.clock.time.sleep", waited.append)
    gcp, _ = providers(tmp_path, scale=1)
    gcp.service.store.set_faults(["create NodePool=slow(90)"])
    pool = {"name": "cube", "cluster": "tpu", "location": "us-central1"}
    if said:
        with pytest.raises(CallError, match=f"waiting for create of NodePool cube.*{said}"):
            gcp.create("gcp:container/nodePool:NodePool", "cube", pool, timeout=allowed)
        assert gcp.context.trailer is not None, "the object stays in the state"
    else:
        gcp.create("gcp:container/nodePool:NodePool", "cube", pool, timeout=allowed)
    assert waited == pytest.approx([slept], abs=1)
    assert gcp.service.store.count("gcp:container/nodePool:NodePool") == 1


def test_a_release_gives_up_after_its_own_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simcloud.clock.time.sleep", lambda _: None)
    _, k8s = providers(tmp_path, scale=1)
    release = {"chart": "kueue", "name": "kueue", "namespace": "default", "timeout": 60}
    with pytest.raises(CallError, match=r"failed to become ready in 1m0s: context deadline"):
        k8s.create("kubernetes:helm.sh/v3:Release", "kueue", release)
    k8s.create("kubernetes:helm.sh/v3:Release", "again", {**release, "name": "b", "timeout": 120})

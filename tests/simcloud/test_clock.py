"""Simulated minutes: every figure has a source, and waiting follows the scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcloud.clock import Clock, duration, scale_from_env, table
from tests.simcloud.harness import providers


def test_every_duration_has_a_source_and_is_marked_where_assumed() -> None:
    entries = table()
    assert len(entries) > 20
    assert [key for key, entry in entries.items() if len(entry.source) < 10] == []
    # Public figures exist for these; everything else says that it is assumed.
    known = {"gcp:compute/network:Network", "gcp:container/cluster:Cluster", "helm:kueue", "tpu:*"}
    assert {key for key, entry in entries.items() if not entry.assumed} == known


@pytest.mark.parametrize(
    ("key", "minutes"),
    [
        ("gcp:container/cluster:Cluster", 7),
        ("gcp:container/nodePool:NodePool", 6),
        ("helm:kueue", 1.5),
        ("helm:some-router", 1),
        ("kind:Gateway", 4),
        ("kind:Job", 8),
        ("tpu:LeaderWorkerSet", 7),
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

"""Faults: how they are named, whom they strike, what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcloud.faults import Fault, parse
from simcloud.known import known_types
from tests.simcloud.harness import CallError, Live, Provider, providers

NETWORK = "gcp:compute/network:Network"


@pytest.fixture
def gcp(tmp_path: Path) -> Provider:
    return providers(tmp_path)[0]


def make(gcp: Provider, name: str) -> Live:
    return gcp.create(NETWORK, name, {"name": name})


def test_the_whole_syntax_is_read() -> None:
    text = "create NodePool@cube-*#2=quota*3; delete gcp:compute/network:Network=error(no luck)"
    assert parse(text) == [
        Fault(operation="create", type="NodePool", name="cube-*", nth=2, kind="quota", times=3),
        Fault(operation="delete", type=NETWORK, kind="error", argument="no luck"),
    ]
    assert parse("; ".join(map(str, parse(text)))) == parse(text)


def test_every_mistake_of_a_text_is_told() -> None:
    with pytest.raises(ValueError, match=r"Did you mean 'create'.*Did you mean 'quota'.*is not"):
        parse("creat Network=quta; Network")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("create NodePol=quota", "no type is called 'NodePol'.*Did you mean 'NodePool'"),
        ("create gcp:compute/network:Netwrk=quota", f"Did you mean '{NETWORK}'"),
        ("create Widget=quota; creat Network=quota", r"'Widget\*'.*Did you mean 'create'"),
    ],
)
def test_a_fault_that_would_never_strike_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse(text, known_types())


@pytest.mark.parametrize(
    "type_", ["NodePool", NETWORK, "Slice", "LeaderWorkerSet", "Job", "Widget*", "*"]
)
def test_a_fault_may_name_any_known_type_or_a_pattern(type_: str) -> None:
    assert [fault.type for fault in parse(f"create {type_}=quota", known_types())] == [type_]


def test_the_nth_operation_fails_and_only_that_one(gcp: Provider) -> None:
    gcp.service.store.set_faults(["create Network#2=quota"])
    make(gcp, "a")
    with pytest.raises(CallError, match="quotaExceeded"):
        make(gcp, "b")
    make(gcp, "c")
    make(gcp, "b")


def test_a_fault_without_end_strikes_always(gcp: Provider) -> None:
    gcp.service.store.set_faults(["create Network=stockout*0"])
    for _ in range(3):
        with pytest.raises(CallError, match="ZONE_RESOURCE_POOL_EXHAUSTED"):
            make(gcp, "a")
    gcp.service.store.set_faults([])
    make(gcp, "a")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("conflict", "Error 409.*alreadyExists"),
        ("busy", "Error 409.*operation in progress"),
        ("quota", "quotaExceeded"),
        ("denied", "Error 403: Permission denied"),
        ("unavailable", "Error 503"),
        ("in-use", "resourceInUseByAnotherResource"),
        ("error(odd things)", "odd things"),
    ],
)
def test_each_kind_answers_as_the_api_would(gcp: Provider, kind: str, text: str) -> None:
    gcp.service.store.set_faults([f"create *={kind}"])
    with pytest.raises(CallError, match=text):
        make(gcp, "a")
    assert gcp.service.store.count() == 0


def test_only_the_named_object_is_struck(gcp: Provider) -> None:
    gcp.service.store.set_faults(["create Network@b=denied"])
    make(gcp, "a")
    with pytest.raises(CallError, match="forbidden"):
        make(gcp, "b")


def test_a_partial_creation_leaves_the_object_and_tells_the_engine(gcp: Provider) -> None:
    gcp.service.store.set_faults(["create Network=partial"])
    with pytest.raises(CallError, match="did not become ready"):
        make(gcp, "a")
    assert gcp.service.store.count(NETWORK) == 1
    ((key, packed),) = gcp.context.trailer
    assert key == "grpc-status-details-bin"
    assert b"simulated/projects/my-project/global/networks/a" in packed


def test_a_failed_update_and_delete_change_nothing(gcp: Provider) -> None:
    live = make(gcp, "a")
    gcp.service.store.set_faults(["update Network=error", "delete Network=busy"])
    with pytest.raises(CallError, match="Error 500"):
        gcp.update(NETWORK, "a", live, {"name": "a", "mtu": 8896})
    with pytest.raises(CallError, match="operation in progress"):
        gcp.delete(NETWORK, "a", live)
    assert gcp.service.store.find(NETWORK, "a")[0].props["mtu"] == 1460


def test_a_slow_operation_takes_its_multiple(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("simcloud.clock.time.sleep", slept.append)
    gcp, _ = providers(tmp_path, scale=10)
    gcp.service.store.set_faults(["create Network@b=slow(4)"])
    make(gcp, "a")
    make(gcp, "b")
    assert slept == pytest.approx([6, 24], abs=0.5)

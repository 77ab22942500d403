"""What the simulated Kueue did: queues, workloads and their slices, read from the cloud."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from simcloud.kubernetes import conditions, slices
from simcloud.store import Record, Store

WORKLOAD = f"simcloud:{slices.WORKLOAD}"


class Row(NamedTuple):
    """An object, what it asked for, and what became of it."""

    name: str
    asked: str
    state: str


def rows(store: Store) -> list[Row]:
    """Queues, then everything that was ever given slices, in the order it was."""
    queues = [
        Row(f"ClusterQueue {each.name}", "", conditions.queue_missing(store, each) or "Active")
        for each in store.all()
        if each.type.endswith(":ClusterQueue")
    ]
    workloads = sorted(store.all(WORKLOAD), key=lambda each: each.created)
    return [*queues, *(_row(store, each) for each in workloads)]


def _row(store: Store, workload: Record) -> Row:
    props = workload.props
    return Row(
        f"{props['kind']} {props['owner']}",
        " + ".join(props["asked"]),
        ", ".join(_states(store, workload)) or f"slices formed, then {props['lost']}",
    )


def _states(store: Store, workload: Record) -> Iterator[str]:
    """States of its slices, and the pools below them."""
    mine = [
        each
        for each in store.all(slices.SLICE, workload.scope)
        if each.props["metadata"]["annotations"][slices.OWNER] == workload.props["owner"]
    ]
    for state, count in Counter(slices.state(each) for each in mine).items():
        pools = sorted(
            {
                pool.rpartition("/")[2]
                for each in mine
                if slices.state(each) == state
                for pool in each.props["pools"]
            }
        )
        yield f"{count} slice{'s' if count > 1 else ''} {state} on {', '.join(pools)}"

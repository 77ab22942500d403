"""When each resource of a graph is there, if it starts once all it waits for are."""

from collections.abc import Iterable
from functools import cache

from simcloud.store import Call
from tests.support.recorder import Graph


def minutes_of(calls: Iterable[Call]) -> dict[str, float]:
    """Simulated minutes each creation took, by URN without its stack."""
    return {_own(each.urn): each.minutes for each in calls if each.method == "Create"}


def finished(graph: Graph, minutes: dict[str, float]) -> dict[str, float]:
    """Minutes from the start until each resource is made, by its URN in the graph."""
    by_urn = {each.urn: each for each in graph.resources}

    @cache
    def done(urn: str) -> float:
        needed = [done(need) for need in by_urn[urn].dependencies if need in by_urn]
        return minutes.get(_own(urn), 0.0) + max(needed, default=0.0)

    return {urn: done(urn) for urn in by_urn}


def taken(graph: Graph, minutes: dict[str, float]) -> list[tuple[str, float]]:
    """The type of each resource and the minutes it took by itself."""
    return [(each.type, minutes.get(_own(each.urn), 0.0)) for each in graph.resources]


def _own(urn: str) -> str:
    return urn.split("::", 2)[2]

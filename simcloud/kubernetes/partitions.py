"""Partitions of simulated cubes, and which of them are free for the slices of a workload."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simcloud.cloud import Request
from simcloud.store import Record
from simcloud.values import get

NODE_POOL = "gcp:container/nodePool:NodePool"

HOSTS = 16
"""Hosts of a cube, 4x4x4 of four chips each (Google Cloud docs, 'TPU7x', read 2026-08)."""


@dataclass(frozen=True, kw_only=True)
class Cube:
    pool: Record
    block: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """Slices of one shape that lie in one block: those of a job, or the one of a group."""

    shape: str
    count: int

    @property
    def hosts(self) -> int:
        return math.prod(map(int, self.shape.split("x"))) // 4


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one slice lies: a part of a cube, or whole cubes."""

    shape: str
    hosts: tuple[str, ...]
    ids: tuple[str, ...]
    pools: tuple[str, ...]


def cubes(request: Request, cluster: str) -> list[Cube]:
    """Cubes of the cluster's TPU7x pools, by block of their reservation."""
    found = []
    for pool in request.store.all(NODE_POOL):
        machine = get(pool.props, "nodeConfig.machineType")
        home = str(pool.props.get("cluster", "")).rsplit("/", 1)[-1]
        if machine != "tpu7x-standard-4t" or not cluster.endswith(home) or pool.status != "ready":
            continue
        values = get(pool.props, "nodeConfig.reservationAffinity.values") or [""]
        found.append(Cube(pool=pool, block=values[0].partition("/reservationSubBlocks")[0]))
    return sorted(found, key=lambda cube: cube.pool.name)


def places(
    parts: Iterable[Part], cubes: Sequence[Cube], taken: Iterable[str]
) -> list[Place] | None:
    """A place for each slice beside the hosts that are taken; None if they do not all fit."""
    busy, found = set(taken), list[Place]()
    for part in parts:
        here = _in_one_block(part, cubes, busy)
        if here is None:
            return None
        found += here
        busy |= {host for place in here for host in place.hosts}
    return found


def _in_one_block(part: Part, cubes: Sequence[Cube], busy: set[str]) -> list[Place] | None:
    """Kueue looks for one block that holds all slices of a job."""
    size, needed = min(part.hosts, HOSTS), max(1, part.hosts // HOSTS)
    free: dict[str, list[tuple[Cube, int]]] = {}
    for cube in cubes:
        for index in range(HOSTS // size):
            if not busy & set(_hosts(cube, index, size)):
                free.setdefault(cube.block, []).append((cube, index))
    for found in free.values():
        here = [
            _place(part, found[start : start + needed], size)
            for start in range(0, len(found) - needed + 1, needed)
        ]
        if len(here) >= part.count:
            return here[: part.count]
    return None


def _place(part: Part, chosen: Sequence[tuple[Cube, int]], size: int) -> Place:
    name = part.shape if part.hosts < HOSTS else "4x4x4"
    return Place(
        shape=part.shape,
        hosts=tuple(host for cube, index in chosen for host in _hosts(cube, index, size)),
        ids=tuple(f"{cube.pool.name}-{name}-{index}" for cube, index in chosen),
        pools=tuple(sorted({cube.pool.key for cube, _ in chosen})),
    )


def _hosts(cube: Cube, index: int, size: int) -> list[str]:
    return [f"{cube.pool.name}-{host}" for host in range(index * size, (index + 1) * size)]

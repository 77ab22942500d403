"""How a stack's models and jobs lie on its cubes, and what a smaller slice would save."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from rich.table import Table

from catalog.packing import Cube, Packing, Wanted, pack
from catalog.partitions import slice_of
from catalog.prices import price
from config.queueing import SlicedJob, SmokeShape, blocks
from config.sliced import SlicedServer, sliced_servers
from config.slices import cheaper, wanted
from config.stack import Stack
from config.tpu_pools import DynamicPool


def slice_tables(stack: Stack) -> Iterator[Table | str]:
    """Groups, cubes, and advice; nothing where there are no cubes."""
    servers, cubes = sliced_servers(stack), blocks(stack.tpu_pools)
    if servers:
        yield _groups(servers)
    if cubes:
        packing, waiting = packed(stack)
        yield _cubes(packing)
        yield from waiting
        yield _room(packing, stack.queueing.shapes if stack.queueing else None)
    for key, server in servers.items():
        yield from _advice(key, server, stack)


def packed(stack: Stack) -> tuple[Packing, list[str]]:
    """Slices on cubes, and the jobs that wait for others to end.

    Models and their spare slices keep their places; jobs come by priority, each with all its slices
    or with none.
    """
    cubes = blocks(stack.tpu_pools)
    placed, waiting = wanted(stack.serving), []
    for priority, job in jobs(stack):
        if pack(cubes, [*placed, job]).fits:
            placed.append(job)
        else:
            waiting.append(
                f"{job.purpose} waits until others end: {job.count} x {job.shape}, priority "
                f"{priority}"
            )
    return pack(cubes, placed), waiting


def jobs(stack: Stack) -> list[tuple[str, Wanted]]:
    """Slices of jobs and smoke tests with their priority class, the highest first."""
    queueing = stack.queueing
    if queueing is None:
        return []
    asked: list[tuple[str, SlicedJob | SmokeShape]] = [
        (f"job {key}", job) for key, job in queueing.jobs.items()
    ]
    if queueing.smoke is not None:
        asked += [("smoke sub", queueing.smoke.sub), ("smoke super", queueing.smoke.super)]
    asked.sort(key=lambda each: -queueing.priorities[each[1].priority])
    return [
        (said.priority, Wanted(purpose=purpose, shape=said.shape, count=said.count))
        for purpose, said in asked
    ]


def _groups(servers: dict[str, SlicedServer]) -> Table:
    columns = ("model", "role", "groups", "slice", "hosts", "chips", "devices", "TP", "answers")
    table = Table(*columns, title="groups of model servers")
    for key, server in servers.items():
        of = slice_of(server.said.slice)
        for role, count in server.replicas.items():
            table.add_row(
                key,
                role,
                str(count),
                of.shape,
                *(str(count * each) for each in (of.hosts, of.chips, of.devices)),
                str(server.engines[role].tensor_parallel),
                server.answers.verdict,
            )
    return table


def _cubes(packing: Packing) -> Table:
    table = Table("cube", "block", "slices", "free chips", title="slices on cubes")
    for index, cube in enumerate(packing.cubes):
        table.add_row(str(index), str(cube.block), _taken(cube), str(cube.free))
    return table


def _taken(cube: Cube) -> str:
    counts = Counter(cube.taken)
    return ", ".join(f"{count} x {shape} {who}" for (who, shape), count in counts.items()) or "-"


def _room(packing: Packing, asked_for: Collection[str] | None) -> str:
    """`asked_for` are the shapes a workload may ask for; None for any."""
    possible = packing.still_possible()
    legal = [shape for shape in possible if asked_for is None or shape in asked_for]

    def counts(shapes: Iterable[str]) -> str:
        return ", ".join(f"{possible[shape]} of {shape}" for shape in shapes)

    told = (
        f"left: {packing.free_chips} chips, {sum(packing.free_cubes)} whole cubes; room, one shape "
        f"at a time, for {counts(legal) or 'nothing'}"
    )
    if others := [shape for shape in possible if shape not in legal]:
        told += f"; not in queueing.shapes: {counts(others)}"
    return told


def _advice(key: str, server: SlicedServer, stack: Stack) -> Iterator[str]:
    if server.needs_proof:
        found = server.answers
        yield f"{key}: {found.reason} ({found.source}). To do: {found.fix}"
    smaller = cheaper(server.said)
    if smaller is not None:
        money = _money(smaller.chips_saved, stack)
        yield (
            f"{key}: the model also fits {smaller.chips} chips ({smaller.shape}, tensor parallel "
            f"{smaller.tensor_parallel}, weights {smaller.weights_share:.0%} of HBM): "
            f"{smaller.chips_saved} chips fewer over {server.said.groups} groups{money}"
        )


def _money(chips: int, stack: Stack) -> str:
    pool = next((each for each in stack.tpu_pools.values() if isinstance(each, DynamicPool)), None)
    if pool is None:
        return ""
    found = price(pool.accelerator, stack.location.region, pool.capacity.kind)
    if found is None:
        return ""
    return f", worth {chips * found.usd_per_chip_hour:,.2f} USD an hour to others"

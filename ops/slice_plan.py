"""How a stack's served models lie on its cubes, and what a smaller slice would save."""

from collections import Counter
from collections.abc import Iterator

from rich.table import Table

from catalog.packing import Cube, Packing, pack
from catalog.partitions import slice_of
from catalog.prices import price
from config.queueing import blocks
from config.sliced import SlicedServer, sliced_servers
from config.slices import cheaper, wanted
from config.stack import Stack
from config.tpu_pools import DynamicPool


def slice_tables(stack: Stack) -> Iterator[Table | str]:
    """Groups, cubes, and advice; nothing where nothing is served on slices."""
    servers = sliced_servers(stack)
    if not servers:
        return
    yield _groups(servers)
    packing = pack(blocks(stack.tpu_pools), wanted(stack.serving))
    yield _cubes(packing)
    yield _room(packing)
    for key, server in servers.items():
        yield from _advice(key, server, stack)


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


def _room(packing: Packing) -> str:
    possible = packing.still_possible()
    told = ", ".join(f"{count} of {shape}" for shape, count in possible.items()) or "nothing"
    return (
        f"left: {packing.free_chips} chips, {sum(packing.free_cubes)} whole cubes. Beside the "
        f"served models there is room for (one shape at a time) {told}."
    )


def _advice(key: str, server: SlicedServer, stack: Stack) -> Iterator[str]:
    if server.needs_proof:
        yield f"{key}: {server.answers.reason} ({server.answers.source}). {server.answers.fix}"
    found = cheaper(server.said)
    if found is not None:
        money = _money(found.chips_saved, stack)
        yield (
            f"{key}: the model also fits {found.chips} chips ({found.shape}, tensor parallel "
            f"{found.tensor_parallel}, weights {found.weights_share:.0%} of HBM): "
            f"{found.chips_saved} chips fewer over {server.said.groups} groups{money}"
        )


def _money(chips: int, stack: Stack) -> str:
    pool = next((each for each in stack.tpu_pools.values() if isinstance(each, DynamicPool)), None)
    if pool is None:
        return ""
    found = price(pool.accelerator, stack.location.region, pool.capacity.kind)
    if found is None:
        return ""
    return f", worth {chips * found.usd_per_chip_hour:,.2f} USD an hour to others"

"""What a stack file comes to: hosts, chips, addresses and money, all derived."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from catalog.addresses import SYSTEM_PODS_PER_NODE, addresses_per_node
from config.outline import cost_per_hour, describe, slice_counts
from config.problem import ConfigError
from config.sizes import pods_per_node, surge_hosts
from config.stack import Stack
from ops.slice_plan import slice_tables
from ops.stack_file import read

app = typer.Typer(add_completion=False)


@app.command()
def plan(
    stack: Annotated[
        str, typer.Option("--stack", "-s", help="name of a stack here, or the path of its file")
    ],
) -> None:
    """Show what follows from a stack file, without calling anything."""
    try:
        checked = read(stack).require()
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    console = Console()
    console.print(_pools(checked))
    for table in slice_tables(checked):
        console.print(table)
    console.print(_addresses(checked))
    for key, extra in _passed_through(checked).items():
        console.print(f"passed to the provider as it is, {key}: {', '.join(extra)}")
    console.print(_cost(checked))


def _pools(stack: Stack) -> Table:
    columns = "pool slices slice machine hosts chips devices pods/node capacity".split()
    table = Table(*columns, title=f"{stack.name}: TPU pools in {stack.location.zone}")
    for key, pool in stack.tpu_pools.items():
        told = describe(pool)
        fewest, most = slice_counts(pool)
        table.add_row(
            key,
            str(most) if fewest == most else f"{fewest}..{most}",
            f"{told['topology']} {told['accelerator']}",
            told["machine"],
            *(str(told[each]) for each in ("hosts", "chips", "devices")),
            str(pods_per_node(pool, stack.network.pods)),
            told["capacity"],
        )
    return table


def _addresses(stack: Stack) -> Table:
    table = Table("range", "addresses", "taken at most", title="addresses")
    tpu_hosts = sum(pool.max_hosts + surge_hosts(pool) for pool in stack.tpu_pools.values())
    tpu_pods = sum(
        (pool.max_hosts + surge_hosts(pool))
        * addresses_per_node(pods_per_node(pool, stack.network.pods))
        for pool in stack.tpu_pools.values()
    )
    system = stack.cluster.system_pool.max
    for name, found, taken in (
        ("nodes", stack.network.nodes, system + tpu_hosts),
        ("pods", stack.network.pods, system * addresses_per_node(SYSTEM_PODS_PER_NODE) + tpu_pods),
    ):
        table.add_row(f"{name} {found}", str(found.num_addresses), str(taken))
    return table


def _passed_through(stack: Stack) -> dict[str, list[str]]:
    given = {"cluster": stack.cluster.extra} | {
        key: pool.extra for key, pool in stack.tpu_pools.items()
    }
    return {key: sorted(extra) for key, extra in given.items() if extra}


def _cost(stack: Stack) -> str:
    cost = cost_per_hour(stack)
    low, high = cost["usdLow"], cost["usdHigh"]
    money = f"{low:,.2f}" if low == high else f"{low:,.2f} to {high:,.2f}"
    notes = [
        f"{label} for {', '.join(cost[label])}" for label in ("assumed", "unknown") if cost[label]
    ]
    return f"TPU cost: {money} USD an hour" + (f" (price {'; '.join(notes)})" if notes else "")

"""What a stack file comes to: hosts, chips, addresses and money, all derived."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from catalog.addresses import SYSTEM_PODS_PER_NODE, addresses_per_node
from catalog.serving import Scale
from config.outline import cost_per_hour, describe, slice_counts
from config.problem import ConfigError
from config.servers import servers
from config.sizes import pods_per_node, surge_hosts
from config.stack import Stack
from ops.console import table_console
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
    console = table_console()
    console.print(_pools(checked))
    for part in (*_servers(checked), *_queues(checked)):
        console.print(part, soft_wrap=isinstance(part, str))
    for table in slice_tables(checked):
        console.print(table, soft_wrap=isinstance(table, str))
    console.print(_addresses(checked))
    for key, extra in _passed_through(checked).items():
        console.print(f"passed to the provider as it is, {key}: {', '.join(extra)}", soft_wrap=True)
    console.print(_cost(checked), soft_wrap=True)


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


def _servers(stack: Stack) -> Iterator[Table]:
    """Models on single hosts: what fits, when another replica comes, how long a start may take."""
    served = servers(stack)
    if not served:
        return
    columns = ("model", "TP", "context", "sequences", "weights", "KV tokens", "replicas", "start")
    table = Table(*columns, title="model servers")
    for key, server in served.items():
        fit = server.said.fit(stack.tpu_pools[server.said.pool].slice)
        table.add_row(
            key,
            str(fit.tensor_parallel),
            str(fit.max_model_len),
            str(fit.max_num_seqs),
            f"{fit.weights_share:.0%} of {fit.hbm_gib:.0f} GiB",
            str(fit.kv_tokens),
            _replicas(server.replicas),
            f"{server.engine.startup_seconds // 60} min",
        )
    yield table


def _queues(stack: Stack) -> Iterator[Table | str]:
    """Who may take how many chips, and who goes first."""
    queueing = stack.queueing
    if queueing is None:
        return
    table = Table("queue", "namespaces", "chips", title="queues")
    for key, (namespaces, chips) in queueing.shares(stack.tpu_pools).items():
        table.add_row(key, ", ".join(namespaces), str(chips))
    yield table
    ranks = sorted(queueing.priorities.items(), key=lambda each: -each[1])
    first = ", ".join(f"{name} {value}" for name, value in ranks)
    yield f"priorities: {first}; model servers have {queueing.serving_priority}"


def _replicas(count: int | Scale) -> str:
    if isinstance(count, int):
        return str(count)
    return f"{count.min}..{count.max}, {count.metric} {count.target:g}"


def _passed_through(stack: Stack) -> dict[str, list[str]]:
    given = {"cluster": stack.cluster.extra}
    given |= {f"network {part}": extra for part, extra in stack.network.extra}
    given |= {key: pool.extra for key, pool in stack.tpu_pools.items()}
    return {key: sorted(extra) for key, extra in given.items() if extra}


def _cost(stack: Stack) -> str:
    cost = cost_per_hour(stack)
    low, high = cost["usdLow"], cost["usdHigh"]
    money = f"{low:,.2f}" if low == high else f"{low:,.2f} to {high:,.2f}"
    notes = [
        f"{label} for {', '.join(cost[label])}" for label in ("assumed", "unknown") if cost[label]
    ]
    return f"TPU cost: {money} USD an hour" + (f" (price {'; '.join(notes)})" if notes else "")

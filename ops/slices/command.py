"""`python -m ops slices`: the options, the table and the exit code."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ops.console import table_console
from ops.slices.held import Held, held, leftovers
from ops.verify.cluster import Cluster
from ops.verify.endpoints import EndpointError

STUCK = 1
USAGE = 2

app = typer.Typer(add_completion=False)


@app.command()
def slices(
    *,
    context: Annotated[
        str | None, typer.Option(help="kubectl context; default: the current one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print data and nothing else.")] = False,
) -> None:
    """List the slices of a cluster, who holds them, and what to delete where nobody uses one.

    Nothing is deleted here. Exit code: 0 none is stuck, 1 some are, 2 the cluster cannot be asked.
    """
    cluster, console = Cluster(context), table_console()
    try:
        found = _list(cluster, "slices.accelerator.gke.io")
        workloads = _list(cluster, "workloads.kueue.x-k8s.io", "--all-namespaces")
    except EndpointError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(USAGE) from None
    rows, waiting = held(found, workloads), list(leftovers(found, workloads))
    if as_json:
        data = {"slices": [vars(each) | {"stuck": each.stuck} for each in rows], "waiting": waiting}
        typer.echo(json.dumps(data, indent=2))
    else:
        _show(console, rows, waiting)
    raise typer.Exit(STUCK if waiting or any(each.stuck for each in rows) else 0)


def _list(cluster: Cluster, *what: str) -> list[dict[str, Any]]:
    listed = json.loads(cluster.run(["get", *what, "--output", "json"]))
    return list(listed.get("items", []))


def _show(console: Console, rows: list[Held], waiting: list[str]) -> None:
    if not rows:
        console.print("no slices")
    else:
        table = Table("shape", "partitions", "state")
        table.add_column("slice", overflow="fold")
        table.add_column("held for", overflow="fold")
        for each in rows:
            table.add_row(
                each.topology, str(len(each.partitions)), each.state, each.name, each.owner
            )
        console.print(table)
    for each in rows:
        if each.stuck:
            console.print(f"{each.name} ({each.state}):", soft_wrap=True)
            console.print(f"  {escape(each.advice)}", soft_wrap=True)
    for name in waiting:
        console.print(
            f"workload {name} is deleted and still waits for a slice that is gone: see the log of "
            "the slice controller",
            soft_wrap=True,
        )

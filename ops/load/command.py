"""`python -m ops load`: the options, the live table, the files and the exit code."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from ops.load.client import Target, drive
from ops.load.plan import Plan
from ops.load.samples import Samples
from ops.load.summary import Spread, Summary, as_table, summarise
from ops.verify.api import Api, ApiError
from ops.verify.checks import CheckFailedError, describe, only_model
from ops.verify.endpoints import API_KEY_VARIABLE, Endpoint, EndpointError, choose
from ops.verify.evidence import write_atomically
from ops.verify.port_forward import connect
from ops.verify.port_forward import describe as describe_endpoint

T = TypeVar("T")

USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
_REFRESH_SECONDS = 1.0
_LINE_SECONDS = 10.0
_BUSY_CLIENT = 0.8

app = typer.Typer(add_completion=False)


@app.command()
def load(
    *,
    stack: Annotated[
        str | None, typer.Option("--stack", "-s", help="Load what this stack serves.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Load this address instead; without /v1.")] = None,
    service: Annotated[
        str | None, typer.Option(help="Load this Service through kubectl: namespace/name:port.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="kubectl context; default: the stack's cluster.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Which endpoint of the stack, when it has several.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Served model name; default: what the stack says.")
    ] = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Use the stack's own address, not kubectl.")
    ] = False,
    clients: Annotated[
        int, typer.Option("--clients", "-n", min=1, help="Requests in parallel.")
    ] = Plan.clients,
    seconds: Annotated[
        float, typer.Option("--duration", "-d", min=0.1, help="Seconds.")
    ] = Plan.seconds,
    prompt_tokens: Annotated[
        str, typer.Option(help="Prompt sizes to draw from, about: 128 or 64,512,2048.")
    ] = "128",
    prompt: Annotated[
        str | None, typer.Option(help="Send this prompt always; a prefix cache will help.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1)] = Plan.max_tokens,
    chat: Annotated[
        bool, typer.Option("--chat/--completions", help="Which API to use.")
    ] = Plan.chat,
    stream: Annotated[
        bool, typer.Option(help="Streaming measures the first token; without is leaner.")
    ] = Plan.stream,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Full length answers; an extension of vLLM.")
    ] = Plan.ignore_eos,
    rate: Annotated[
        float | None, typer.Option(help="Requests a second, Poisson; default: no limit.")
    ] = None,
    warmup: Annotated[
        float, typer.Option(min=0, help="Seconds at the start left out of the figures.")
    ] = Plan.warmup,
    timeout: Annotated[float, typer.Option(help="Seconds for one request.")] = Plan.timeout,
    seed: Annotated[int, typer.Option(help="Fixes prompts and arrivals.")] = Plan.seed,
    max_failures: Annotated[
        float, typer.Option(min=0, max=1, help="Share of failures that is still a success.")
    ] = 0.01,
    output: Annotated[
        Path | None, typer.Option(help="Result file; default .tpuserve/load[-STACK].json.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture; default beside the result file, .png.")
    ] = None,
) -> None:
    """Send requests from N parallel clients and report latency, first token and throughput.

    Ctrl-C stops early and still writes the results. An API key is taken from TPUSERVE_API_KEY.

    Exit code: 0 done, 1 too many failures, 2 wrong usage, 3 not reachable, 130 interrupted.
    """
    console = Console(highlight=False)
    key = os.environ.get(API_KEY_VARIABLE) or None
    try:
        sizes = _sizes(prompt_tokens)
        plan = Plan(
            clients=clients,
            seconds=seconds,
            prompt_tokens=sizes,
            prompt=prompt,
            max_tokens=max_tokens,
            chat=chat,
            stream=stream,
            ignore_eos=ignore_eos,
            rate=rate,
            warmup=warmup,
            timeout=timeout,
            seed=seed,
        )
        _check_plan(plan)
        found = choose(
            stack=stack,
            url=url,
            service=service,
            context=context,
            endpoint=endpoint,
            model=model,
        )
        served = _only(found)
    except EndpointError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(USAGE) from None

    started = datetime.now(UTC)
    with contextlib.ExitStack() as held:
        try:
            address = held.enter_context(connect(served, direct=direct))
            target = _target(served, address, key)
        except (EndpointError, CheckFailedError, ApiError, httpx.HTTPError, OSError) as error:
            console.print(f"[red]{escape(describe(error))}[/]")
            raise typer.Exit(UNREACHABLE) from None
        where = describe_endpoint(served, direct=direct)
        _announce(console, plan, target, where)
        samples = Samples()
        taken, cpu, interrupted = _run(measure(plan, target, samples, console))

    summary = summarise(samples, plan, taken, cpu)
    path = output or Path(".tpuserve") / f"load{f'-{stack}' if stack else ''}.json"
    picture = plot or path.with_suffix(".png")
    table = as_table(
        summary, plan, url=where, model=target.model, started=started, interrupted=interrupted
    )
    write_atomically(path, json.dumps(table, indent=2) + "\n")
    console.print(_final(summary))
    console.print(_totals(summary), soft_wrap=True)
    for remark in _remarks(summary, plan, where):
        console.print(f"[yellow]{remark}[/]", soft_wrap=True)
    _draw(summary, picture, f"{target.model}, {plan.clients} clients")
    console.print(f"Results: {path}, {picture}", soft_wrap=True)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if summary.failure_share > max_failures:
        raise typer.Exit(1)


def _only(found: list[Endpoint]) -> Endpoint:
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        msg = f"the stack serves {names}: say which with --endpoint"
        raise EndpointError(msg)
    return found[0]


def _sizes(text: str) -> tuple[int, ...]:
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdigit() and int(size) > 0 for size in sizes):
        msg = f"--prompt-tokens {text!r}: give positive numbers separated by commas"
        raise EndpointError(msg)
    return tuple(int(size) for size in sizes)


def _check_plan(plan: Plan) -> None:
    if plan.rate is not None and plan.rate <= 0:
        msg = f"--rate {plan.rate:g}: give a positive number, or leave it out for no limit"
        raise EndpointError(msg)
    if plan.warmup >= plan.seconds:
        msg = f"--warmup {plan.warmup:g} leaves nothing of --duration {plan.seconds:g}"
        raise EndpointError(msg)


def _target(endpoint: Endpoint, address: Callable[[], str], key: str | None) -> Target:
    """Asks the server once, so that a wrong address or name ends here and not in errors."""
    api = Api(address, base_path=endpoint.base_path, key=key, timeout=30)
    try:
        model, _ = only_model(api.models(), endpoint.model)
    finally:
        api.close()
    return Target(url=address().rstrip("/") + endpoint.base_path, model=model, key=key)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs on uvloop where it is installed: a quarter less CPU for each request."""
    try:
        import uvloop  # noqa: PLC0415  optional
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def measure(
    plan: Plan, target: Target, samples: Samples, console: Console
) -> tuple[float, float, bool]:
    """Drives the load behind a live display: wall seconds, CPU seconds, stopped by a signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        # A second Ctrl-C ends the program in the usual way.
        loop.remove_signal_handler(signal.SIGINT)

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
    cpu = time.process_time()
    display = asyncio.ensure_future(_display(plan, samples, console))
    try:
        taken = await drive(plan, target, samples, stop)
    finally:
        display.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await display
    return taken, time.process_time() - cpu, stop.is_set()


async def _display(plan: Plan, samples: Samples, console: Console) -> None:
    began = time.monotonic()
    if not console.is_terminal:
        while True:
            await asyncio.sleep(_LINE_SECONDS)
            elapsed = time.monotonic() - began
            console.print(
                f"{elapsed:.0f} of {plan.seconds:.0f} s: {samples.completed} completed, "
                f"{sum(samples.errors.values())} failed",
                soft_wrap=True,
            )
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_progress(plan, samples, time.monotonic() - began), refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


def _progress(plan: Plan, samples: Samples, elapsed: float) -> Table:
    table = Table(title=f"{elapsed:.0f} of {plan.seconds:.0f} s", title_justify="left")
    for name in ("completed", "now/s", "latency p50", "p95", "first token p50", "p95", "failed"):
        table.add_column(name, justify="right")
    recent = list(samples.recent)
    window = recent[-1][0] - recent[0][0] if len(recent) > 1 else 0
    latency = sorted(row[1] for row in recent)
    firsts = sorted(row[2] for row in recent if row[2] == row[2])
    failed = ", ".join(f"{count} {kind}" for kind, count in samples.errors.most_common(3))
    table.add_row(
        str(samples.completed),
        f"{len(recent) / window:.1f}" if window else "-",
        *(_at(latency, share) for share in (0.5, 0.95)),
        *(_at(firsts, share) for share in (0.5, 0.95)),
        failed or "0",
    )
    return table


def _at(ordered: list[float], share: float) -> str:
    return _time(ordered[min(len(ordered) - 1, int(share * len(ordered)))]) if ordered else "-"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _announce(console: Console, plan: Plan, target: Target, where: str) -> None:
    pace = f"{plan.rate:g} requests/s" if plan.rate else "as fast as it answers"
    console.print(
        f"[bold]{escape(target.model)}[/] at {escape(where)}: {plan.clients} clients for "
        f"{plan.seconds:g} s, {pace}. Ctrl-C stops and keeps the results.",
        soft_wrap=True,
    )


def _final(summary: Summary) -> Table:
    table = Table()
    table.add_column("")
    for name in ("mean", "p50", "p90", "p95", "p99", "max"):
        table.add_column(name, justify="right")

    def row(label: str, spread: Spread | None) -> None:
        if spread:
            values = (spread.mean, spread.p50, spread.p90, spread.p95, spread.p99, spread.max)
            table.add_row(label, *map(_time, values))

    row("first token", summary.ttft)
    row("whole answer", summary.latency)
    row("between tokens", summary.seconds_per_token)
    return table


def _totals(summary: Summary) -> str:
    return (
        f"{summary.completed} completed, {summary.failed} failed, {summary.unfinished} unfinished "
        f"in {summary.seconds:.1f} s: {summary.requests_per_second:.1f} requests/s, "
        f"{summary.tokens_per_second:.0f} output tokens/s"
    )


def _remarks(summary: Summary, plan: Plan, where: str) -> list[str]:
    """What a reader of the figures must know before believing them."""
    remarks = [f"failed: {count} times {kind}" for kind, count in summary.errors.items()]
    if plan.rate and summary.late > 0.05 * max(1, summary.completed):
        remarks.append(
            f"{summary.late} requests were sent late, because all {plan.clients} clients were "
            "busy: the server is slower than --rate, or --clients is too small"
        )
    if where.startswith("kubectl"):
        remarks.append(
            "all requests went to one pod through one kubectl tunnel: for figures of the service "
            "itself run inside its network with --direct"
        )
    if summary.reconnects:
        remarks.append(
            f"the server closed {summary.reconnects} connections that could have been kept; "
            "opening them again is part of the latency"
        )
    if summary.client_cpu > _BUSY_CLIENT:
        remarks.append(
            f"this load took {summary.client_cpu:.0%} of a core: the figures may be those of the "
            "client, run it on several machines"
        )
    return remarks


def _draw(summary: Summary, path: Path, title: str) -> None:
    # Loading matplotlib takes longer than a short run, so only a run that ended pays for it.
    from ops.load.plot import draw  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(summary, path, title=title)

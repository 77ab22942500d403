"""Runs the checks against each endpoint and keeps the evidence."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import httpx

from ops.verify import checks, groups
from ops.verify.accuracy import knows
from ops.verify.api import Api, ApiError
from ops.verify.cluster import Cluster
from ops.verify.endpoints import Endpoint, EndpointError
from ops.verify.evidence import Check, Evidence, Status, Subject
from ops.verify.way import Way, describe, way_to


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked and how long is waited; `wait` None takes the endpoint's own budget."""

    prompt: str = "San Francisco is a"
    expect: str | None = None
    max_tokens: int = 32
    timeout: float = 300
    wait: float | None = None
    direct: bool = False
    accuracy: bool | None = None
    """Whether questions are scored; None for a stack's single hosts, and for answers that need
    proof."""


class Reporter(Protocol):
    """Told what happens, as it happens."""

    def waiting(self, subject: Subject, elapsed: float, limit: float, problem: str) -> None: ...

    def checked(self, subject: Subject, check: Check) -> None: ...


def verify(
    endpoints: Sequence[Endpoint],
    *,
    options: Options,
    reporter: Reporter,
    stack: str | None = None,
    key: str | None = None,
) -> Evidence:
    """Checks every endpoint and never raises for what a server does; Ctrl-C ends it early."""
    evidence = Evidence(stack=stack)
    try:
        for endpoint in endpoints:
            subject = Subject(
                name=endpoint.name,
                address=describe(endpoint, direct=options.direct),
                model=endpoint.model,
            )
            evidence.endpoints.append(subject)
            try:
                with way_to(endpoint, direct=options.direct) as way:
                    _verify_one(
                        endpoint,
                        subject=subject,
                        way=way,
                        options=options,
                        reporter=reporter,
                        key=key,
                        of_stack=stack is not None,
                    )
            except EndpointError as error:
                lost = Check(name="ready", status=Status.FAILED, detail=str(error))
                subject.checks.append(lost)
                reporter.checked(subject, lost)
    except KeyboardInterrupt:
        evidence.interrupted = True
    evidence.finished = datetime.now(UTC)
    return evidence


def _verify_one(
    endpoint: Endpoint,
    *,
    subject: Subject,
    way: Way,
    options: Options,
    reporter: Reporter,
    key: str | None,
    of_stack: bool,
) -> None:
    api, pods = (
        Api(
            way.address,
            base_path=endpoint.base_path,
            key=key,
            timeout=options.timeout,
            proxy=proxy,
        )
        for proxy in (way.proxy, way.pods)
    )
    context = checks.Context(
        api=api,
        model=endpoint.model,
        expects_chat=endpoint.expects_chat,
        prompt=options.prompt,
        expect=options.expect,
        max_tokens=options.max_tokens,
    )
    limit = endpoint.wait_seconds if options.wait is None else options.wait
    started = time.monotonic()

    def on_poll(problem: str) -> None:
        reporter.waiting(subject, time.monotonic() - started, limit, problem)

    def ready(_: checks.Context) -> checks.Outcome:
        return checks.wait_until_ready(api, seconds=limit, on_poll=on_poll)

    try:
        for name, check in _plan(endpoint, ready, options, pods, of_stack).items():
            done = _run(name, check, context)
            subject.checks.append(done)
            subject.model = context.model
            reporter.checked(subject, done)
            if name in {"ready", "model"} and done.status is Status.FAILED:
                break
    finally:
        api.close()


def _plan(
    endpoint: Endpoint, ready: checks.Check, options: Options, pods: Api, of_stack: bool
) -> dict[str, checks.Check]:
    """The checks of an endpoint in their order."""
    found: dict[str, checks.Check] = {"ready": ready, **checks.CHECKS}
    if endpoint.groups is None:
        asks = of_stack if options.accuracy is None else options.accuracy
        return {**found, "accuracy": knows} if asks else found
    # Each leader's metrics are read by themselves; the Gateway's would be anybody's.
    del found["metrics"]
    site = groups.Site(
        endpoint=endpoint, groups=endpoint.groups, cluster=Cluster(endpoint.context), pods=pods
    )
    prove = endpoint.needs_proof if options.accuracy is None else options.accuracy
    return {**groups.before_ready(site), **found, **groups.after_chat(site, prove=prove)}


def _run(name: str, check: checks.Check, context: checks.Context) -> Check:
    started = time.perf_counter()
    fix, observed = "", {}
    try:
        outcome = check(context)
        status, detail, observed = Status.PASSED, outcome.detail, dict(outcome.observed)
    except checks.CheckSkippedError as reason:
        status, detail = Status.SKIPPED, str(reason)
    except checks.CheckFailedError as error:
        status, detail, fix = Status.FAILED, str(error), error.fix
        observed = dict(error.observed)
    except ApiError as error:
        status, detail, fix = Status.FAILED, str(error), error.fix
    except httpx.TimeoutException:
        status, detail = Status.FAILED, f"no answer in {context.api.timeout:g} s"
        fix = "the first request after a start may compile for minutes: raise --timeout"
    except EndpointError as error:
        status, detail = Status.FAILED, str(error)
    except (httpx.HTTPError, OSError) as error:
        status, detail = Status.FAILED, checks.describe(error)
        fix = "the connection broke: did the pod restart?"
    return Check(
        name=name,
        status=status,
        detail=detail,
        fix=fix,
        seconds=round(time.perf_counter() - started, 4),
        observed=observed,
    )

"""The engine's event log: one JSON object a line, as `pulumi preview` writes it.

Shapes: github.com/pulumi/pulumi sdk v3.274.1, go/common/apitype/events.go. They are not promised
to stay, so unknown fields and unknown events are passed over and counted, never fatal.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

DIGEST_KEYS = frozenset({"steps", "changeSummary"})


def _or_empty(kind: type) -> BeforeValidator:
    """Go writes an absent map or list as null."""
    return BeforeValidator(lambda value: kind() if value is None else value)


Values = Annotated[dict[str, Any], _or_empty(dict)]
Names = Annotated[list[str], _or_empty(list)]


class Lenient(BaseModel):
    """A part of an event; fields this project does not read are dropped."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class PropertyDiff(Lenient):
    """How one property changed: add, delete or update, each also as `*-replace`."""

    diff_kind: str = "update"
    input_diff: bool = False


class ResourceState(Lenient):
    """A resource before or after a step."""

    type: str = ""
    id: str = ""
    parent: str = ""
    provider: str = ""
    custom: bool = False
    protect: bool = False
    retain_on_delete: bool = False
    inputs: Values = {}
    outputs: Values = {}


class Step(Lenient):
    """One operation on one resource. A replacement is three of them."""

    op: str
    urn: str
    type: str = ""
    old: ResourceState | None = None
    new: ResourceState | None = None
    keys: Names = []
    diffs: Names = []
    detailed_diff: Annotated[dict[str, PropertyDiff], _or_empty(dict)] = {}
    provider: str = ""


class PolicyException(Lenient):
    """An entry of the pack's exceptions that excuses a violation."""

    id: str = ""
    reason: str = ""


class PolicyEvent(Lenient):
    """What one policy said of one resource, or of the stack."""

    resource_urn: str = ""
    message: str = ""
    policy_name: str = ""
    policy_pack_name: str = ""
    policy_pack_version: str = ""
    enforcement_level: str = ""
    severity: str = ""
    exceptions: Annotated[list[PolicyException], _or_empty(list)] = []


class Diagnostic(Lenient):
    """A message of the engine, the program or a provider."""

    urn: str = ""
    message: str = ""
    severity: str = "info"
    ephemeral: bool = False


class Summary(Lenient):
    """The engine's own count at the end of a run."""

    resource_changes: Annotated[dict[str, int], _or_empty(dict)] = {}
    duration_seconds: int = 0
    maybe_corrupt: bool = False
    result: str = ""
    policy_packs: dict[str, str] = {}

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        # The engine writes this one field in Pascal case.
        alias_generator=lambda name: "PolicyPacks" if name == "policy_packs" else to_camel(name),
    )


@dataclass
class EventLog:
    """Everything of a run that a report needs."""

    steps: list[Step] = field(default_factory=list)
    drift: list[Step] = field(default_factory=list)
    policies: list[PolicyEvent] = field(default_factory=list)
    remediated: int = 0
    diagnostics: list[Diagnostic] = field(default_factory=list)
    summary: Summary | None = None
    ended: bool = False
    has_policies: bool = True
    unreadable: int = 0
    unknown: set[str] = field(default_factory=set)


# Sequence and timestamp come first.
_HEAD = 80

_SILENT = frozenset(
    {
        "sequence",
        "timestamp",
        "preludeEvent",
        "stdoutEvent",
        "policyLoadEvent",
        "policyAnalyzeSummaryEvent",
        "policyRemediateSummaryEvent",
        "policyAnalyzeStackSummaryEvent",
        "startDebuggingEvent",
        "progressEvent",
    }
)


def read(path: Path) -> EventLog:
    """The event log in `path`; also the single object that `pulumi preview --json` prints."""
    text = path.read_text(encoding="utf-8", errors="replace")
    digest = _digest(text)
    return _from_digest(digest) if digest is not None else parse(text.splitlines())


def parse(lines: Iterable[str]) -> EventLog:
    """Events from JSON lines, whatever else stands between them."""
    log = EventLog()
    reading: set[str] = set()
    for event in _objects(lines, log, reading):
        for kind, body in event.items():
            if kind in _SILENT:
                continue
            try:
                _take(log, kind, body, reading)
            except (ValidationError, KeyError, TypeError):
                log.unreadable += 1
    return log


def _objects(lines: Iterable[str], log: EventLog, reading: set[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if not line.startswith("{"):
            log.unreadable += bool(line.strip())
            continue
        if not reading and '"resOutputsEvent"' in line[:_HEAD]:
            # Half of a log, and it repeats what was said before the step.
            continue
        try:
            yield from_json(line)
        except ValueError:
            log.unreadable += 1


def _take(log: EventLog, kind: str, body: Any, reading: set[str]) -> None:  # noqa: PLR0912  one per event
    match kind:
        case "resourcePreEvent":
            metadata = body["metadata"]
            if metadata["op"] == "refresh":
                reading.add(metadata["urn"])
            else:
                log.steps.append(Step.model_validate(metadata))
        case "resOutputsEvent":
            # What a refresh found is known only once it is done; all else was said before.
            metadata = body["metadata"]
            if metadata["urn"] in reading:
                reading.remove(metadata["urn"])
                _take_reading(log, Step.model_validate(metadata))
        case "resOpFailedEvent":
            log.steps.append(Step.model_validate(body["metadata"]))
        case "policyEvent":
            log.policies.append(PolicyEvent.model_validate(body))
        case "policyRemediationEvent":
            log.remediated += 1
        case "diagnosticEvent":
            if body.get("severity") != "debug":
                log.diagnostics.append(Diagnostic.model_validate(body))
        case "errorEvent":
            log.diagnostics.append(Diagnostic(message=body.get("error", ""), severity="error"))
        case "summaryEvent":
            log.summary = Summary.model_validate(body)
        case "cancelEvent":
            log.ended = True
        case _:
            log.unknown.add(kind)


def _take_reading(log: EventLog, step: Step) -> None:
    """`preview --refresh` calls every reading "refresh", `refresh --preview-only` its outcome."""
    gone = step.op == "delete" or step.new is None
    changed = step.op == "update" or bool(step.diffs or step.detailed_diff)
    own = step.type.startswith("pulumi:") or not (step.old and step.old.custom)
    if not own and (gone or changed):
        log.drift.append(step.model_copy(update={"op": "delete" if gone else "update"}))


def _digest(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        whole = json.loads(text)
    except ValueError:
        return None
    return whole if isinstance(whole, dict) and whole.keys() & DIGEST_KEYS else None


def _from_digest(digest: dict[str, Any]) -> EventLog:
    """`pulumi preview --json` leaves policy results out (pulumi/pulumi#18851)."""
    log = EventLog(ended=True, has_policies=False)
    for step in digest.get("steps") or []:
        state = {"old": step.get("oldState"), "new": step.get("newState")}
        diff = {
            path: {"diffKind": change.get("kind", "update"), "inputDiff": change.get("inputDiff")}
            for path, change in (step.get("detailedDiff") or {}).items()
        }
        log.steps.append(
            Step.model_validate(
                {
                    **state,
                    "op": step["op"],
                    "urn": step["urn"],
                    "type": (state["new"] or state["old"] or {}).get("type", ""),
                    "keys": step.get("replaceReasons"),
                    "diffs": step.get("diffReasons"),
                    "detailedDiff": diff,
                    "provider": step.get("provider", ""),
                }
            )
        )
    log.diagnostics = [
        Diagnostic.model_validate(each)
        for each in digest.get("diagnostics") or []
        if each.get("severity") != "debug"
    ]
    log.summary = Summary(
        resource_changes=digest.get("changeSummary") or {},
        duration_seconds=round((digest.get("duration") or 0) / 1e9),
        maybe_corrupt=bool(digest.get("maybeCorrupt")),
    )
    return log

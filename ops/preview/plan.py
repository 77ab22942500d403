"""What a preview plans: one change for each resource, whatever number of steps it takes."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ops.preview.events import Diagnostic, EventLog, PolicyEvent, ResourceState, Step
from ops.preview.redact import Redactor
from ops.preview.values import MISSING, Leaf, clean, differences, get, printable

Operation = Literal["create", "update", "replace", "delete", "read", "import", "forget", "same"]
PolicyLevel = Literal["mandatory", "advisory", "undecided", "excepted"]

STACK = "pulumi:pulumi:Stack"

_OPERATIONS: dict[str, Operation] = {
    "create": "create",
    "update": "update",
    "replace": "replace",
    "create-replacement": "replace",
    "delete-replaced": "replace",
    "discard-replaced": "replace",
    "import-replacement": "replace",
    "read-replacement": "replace",
    "delete": "delete",
    "read": "read",
    "import": "import",
    "discard": "forget",
    "remove-pending-replace": "delete",
    "same": "same",
}
_WEIGHT: dict[Operation, int] = {
    "same": 0,
    "read": 1,
    "import": 2,
    "update": 3,
    "create": 4,
    "forget": 5,
    "delete": 6,
    "replace": 7,
}
_MOST_LEAVES = 40
_MOST_CAUSES = 4
# What pulumi_policy 1.21.0 answers for a policy that touched an unknown value.
_UNDECIDED = re.compile(r"can't run policy .* during preview|can't be known during preview")
# This project's own pack says all of them in one summary (policies/pack.py, PACK-01).
_SUMMARY = re.compile(r"^(\d+) checks? could not be made yet:", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Component:
    """The outermost component a resource belongs to."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})" if self.kind else self.name


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happens to one resource."""

    urn: str
    type: str
    operation: Operation
    old: ResourceState | None
    new: ResourceState | None
    component: Component
    reasons: tuple[str, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    more_leaves: int = 0

    @property
    def name(self) -> str:
        return self.urn.rsplit("::", 1)[-1]

    @property
    def kind(self) -> str:
        """`gcp:container:NodePool` for `gcp:container/nodePool:NodePool`, as the CLI prints it."""
        head, _, kind = self.type.rpartition(":")
        module, _, last = head.rpartition("/")
        return f"{module}:{kind}" if module and last == kind[:1].lower() + kind[1:] else self.type

    @property
    def own(self) -> bool:
        """Whether it is a component, provider or the stack: bookkeeping, nothing outside."""
        state = self.new or self.old
        return self.type.startswith("pulumi:") or not (state and state.custom)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One policy's word on one resource."""

    level: PolicyLevel
    policy: str
    pack: str
    severity: str
    message: str
    urn: str
    exception: str = ""
    number: int = 1

    @property
    def resource(self) -> str:
        kind = self.urn.rsplit("::", 1)
        return kind[-1] if self.urn and f"::{STACK}::" not in self.urn else ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A preview as a report sees it."""

    stack: str
    project: str
    changes: tuple[Change, ...]
    drift: tuple[Change, ...]
    findings: tuple[Finding, ...]
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]
    counts: dict[str, int]
    packs: dict[str, str]
    seconds: int
    has_policies: bool
    complete: bool
    unreadable: int
    unknown_events: tuple[str, ...]

    @property
    def acting(self) -> tuple[Change, ...]:
        """Changes to things that exist outside the engine, reads and no-ops left out."""
        return tuple(change for change in self.changes if change.operation not in ("same", "read"))

    @property
    def created_from_nothing(self) -> bool:
        """Whether nothing of the stack existed before."""
        return bool(self.changes) and all(
            change.operation in ("create", "import", "read") or change.type == STACK
            for change in self.changes
        )

    def count(self, level: PolicyLevel) -> int:
        return sum(each.number for each in self.findings if each.level == level)


def build(log: EventLog, redactor: Redactor | None = None, *, stack: str = "") -> Plan:
    """The plan an event log tells; `stack` names it where the log holds no resource."""
    redactor = redactor or Redactor()
    parents, names = _parents([*log.steps, *log.drift])
    urn = next((step.urn for step in log.steps or log.drift), "")
    _, _, rest = urn.partition("urn:pulumi:")
    said_stack, _, said_project = rest.partition("::")
    errors, warnings = _diagnostics(log.diagnostics, redactor)
    return Plan(
        stack=said_stack or stack,
        project=said_project.partition("::")[0],
        changes=tuple(_changes(log.steps, parents, names, redactor)),
        drift=tuple(_changes(log.drift, parents, names, redactor)),
        findings=tuple(_findings(log.policies, redactor)),
        errors=errors,
        warnings=warnings,
        counts=_counts(log),
        packs=_packs(log),
        seconds=log.summary.duration_seconds if log.summary else 0,
        has_policies=log.has_policies,
        complete=log.summary is not None and log.ended and not errors,
        unreadable=log.unreadable,
        unknown_events=tuple(sorted(log.unknown)),
    )


def _changes(
    steps: Iterable[Step],
    parents: dict[str, str],
    names: dict[str, str],
    redactor: Redactor,
) -> Iterable[Change]:
    by_urn: dict[str, list[Step]] = {}
    for step in steps:
        if step.op in _OPERATIONS:
            by_urn.setdefault(step.urn, []).append(step)
    replaced_providers = {
        urn
        for urn, each in by_urn.items()
        if ":pulumi:providers:" in urn or "$pulumi:providers:" in urn
        if any(_OPERATIONS[step.op] == "replace" for step in each)
    }
    for urn, each in by_urn.items():
        operation = max((_OPERATIONS[step.op] for step in each), key=_WEIGHT.__getitem__)
        old = next((step.old for step in each if step.old), None)
        new = None if operation in ("delete", "forget") else _last_new(each)
        kind = next((step.type for step in each if step.type), "")
        options = _option_leaves(old, new)
        if operation == "same" and options:
            operation = "update"
        leaves, more = _leaves(kind, operation, each, (old, new), redactor)
        leaves = [*options, *leaves]
        yield Change(
            urn=urn,
            type=kind,
            operation=operation,
            old=old,
            new=new,
            component=_component(urn, parents, names),
            reasons=_reasons(operation, each, leaves, old, replaced_providers),
            leaves=tuple(leaves[:_MOST_LEAVES]),
            more_leaves=max(0, more + len(leaves) - _MOST_LEAVES),
        )


def _last_new(steps: list[Step]) -> ResourceState | None:
    return next((step.new for step in reversed(steps) if step.new), None)


def _reasons(
    operation: Operation,
    steps: list[Step],
    leaves: list[Leaf],
    old: ResourceState | None,
    replaced_providers: set[str],
) -> tuple[str, ...]:
    """What forces a replacement; dependents name it on their second step only, or nowhere."""
    if operation != "replace":
        return ()
    paths = [leaf.path for leaf in leaves if leaf.forces_replacement]
    for key in dict.fromkeys(key for step in steps for key in step.keys):
        if not any(path_in(path, key) for path in paths):
            # Bridged providers name the top-level property only, and mark no leaf.
            inside = [leaf.path for leaf in leaves if path_in(leaf.path, key)]
            paths.append(" or ".join(inside[:_MOST_CAUSES]) or key)
    provider = (old.provider if old else "").rpartition("::")[0]
    if not paths and provider in replaced_providers:
        paths = [f"its provider {provider.rsplit('::', 1)[-1]} is replaced"]
    return tuple(paths)


def path_in(path: str, prefix: str) -> bool:
    """Whether a property path lies at or under another."""
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}["))


def _leaves(
    kind: str,
    operation: Operation,
    steps: list[Step],
    states: tuple[ResourceState | None, ResourceState | None],
    redactor: Redactor,
) -> tuple[list[Leaf], int]:
    if operation in ("same", "read"):
        return [], 0
    old, new = states
    before: object = old.inputs if old else {}
    after: object = new.inputs if new else {}
    detail = next((step.detailed_diff for step in steps if step.detailed_diff), {})
    found: list[tuple[str, object, object, bool]] = []
    for path, diff in sorted(detail.items()):
        root: object = before if diff.input_diff or not old else old.outputs or before
        gone = MISSING if diff.diff_kind.startswith("add") else get(root, path)
        come = MISSING if diff.diff_kind.startswith("delete") else get(after, path)
        forces = diff.diff_kind.endswith("-replace")
        smaller = list(differences(gone, come, path)) or [(path, gone, come)]
        found.extend((*each, forces) for each in smaller)
    if not detail:
        keys = [key for step in steps for key in step.diffs]
        found = [
            (*each, False)
            for each in differences(before, after)
            if not keys or any(path_in(each[0], key) for key in keys)
        ]
    more = max(0, len(found) - 2 * _MOST_LEAVES)
    return [
        Leaf(
            path=path,
            before=printable(redactor.leaf(kind, path, before, gone)),
            after=printable(redactor.leaf(kind, path, after, come)),
            forces_replacement=forces,
        )
        for path, gone, come, forces in found[: 2 * _MOST_LEAVES]
    ], more


def _option_leaves(old: ResourceState | None, new: ResourceState | None) -> list[Leaf]:
    """Options that guard a resource; the engine calls a change of these alone "same"."""
    if not old or not new:
        return []
    pairs = (
        ("protect", old.protect, new.protect),
        ("retainOnDelete", old.retain_on_delete, new.retain_on_delete),
    )
    return [
        Leaf(path=f"option {name}", before=printable(was), after=printable(becomes))
        for name, was, becomes in pairs
        if was != becomes
    ]


def _parents(steps: Iterable[Step]) -> tuple[dict[str, str], dict[str, str]]:
    parents: dict[str, str] = {}
    types: dict[str, str] = {}
    for step in steps:
        state = step.new or step.old
        if state and step.urn not in parents:
            parents[step.urn] = state.parent
            types[step.urn] = step.type
    return parents, types


def _component(urn: str, parents: dict[str, str], types: dict[str, str]) -> Component:
    outermost = urn
    seen = {urn}
    while parent := parents.get(outermost, ""):
        if f"::{STACK}::" in parent or parent in seen:
            break
        seen.add(parent)
        outermost = parent
    kind = types.get(outermost) or _type_of(outermost)
    if outermost == urn and (":" not in kind or kind.split(":")[0] in ("gcp", "kubernetes")):
        return Component(kind="", name="stack")
    return Component(kind=kind.rsplit(":", 1)[-1], name=outermost.rsplit("::", 1)[-1])


def _type_of(urn: str) -> str:
    parts = urn.split("::")
    return parts[2].split("$")[-1] if len(parts) > 2 else ""


def _findings(events: Iterable[PolicyEvent], redactor: Redactor) -> Iterable[Finding]:
    for event in events:
        level: PolicyLevel = "advisory"
        summary = _SUMMARY.search(event.message)
        if event.exceptions:
            level = "excepted"
        elif summary or _UNDECIDED.search(event.message):
            level = "undecided"
        elif event.enforcement_level in ("mandatory", "remediate"):
            level = "mandatory"
        yield Finding(
            level=level,
            policy=event.policy_name,
            pack=event.policy_pack_name,
            severity=event.severity,
            message=redactor.text(clean(event.message)).strip(),
            urn=event.resource_urn,
            exception="; ".join(f"{each.id}: {each.reason}" for each in event.exceptions),
            number=int(summary[1]) if summary else 1,
        )


def _diagnostics(
    diagnostics: Iterable[Diagnostic], redactor: Redactor
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    errors: dict[str, Diagnostic] = {}
    warnings: dict[str, Diagnostic] = {}
    for each in diagnostics:
        target = {"error": errors, "warning": warnings}.get(each.severity)
        text = redactor.text(clean(each.message)).strip()
        # The engine repeats a program's error under a second heading, and ends with a verdict.
        body = text.removeprefix("an unhandled error occurred: ")
        if target is None or not text or text in ("preview failed", "update failed"):
            continue
        target.setdefault(body, each.model_copy(update={"message": text}))
    return tuple(errors.values()), tuple(warnings.values())


def _counts(log: EventLog) -> dict[str, int]:
    """The engine's count where it gave one, so that report and CLI agree."""
    if log.summary and log.summary.resource_changes:
        return dict(log.summary.resource_changes)
    latest: dict[str, Operation] = {}
    for step in log.steps:
        operation = _OPERATIONS.get(step.op)
        if operation and _WEIGHT[operation] >= _WEIGHT[latest.get(step.urn, "same")]:
            latest[step.urn] = operation
    return dict(Counter(latest.values()))


def _packs(log: EventLog) -> dict[str, str]:
    """Name to version; a local pack's key also carries its folder, which is nobody's business."""
    packs = log.summary.policy_packs if log.summary else {}
    return {name.partition("|")[0]: version for name, version in packs.items()}

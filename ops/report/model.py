"""The report as data: what the comment, the terminal view and the JSON summary all show."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from ops.cost.stack import CostDelta, of_plan
from ops.gate.cli import as_dict, cannot_judge
from ops.gate.rules import Finding as GateFinding
from ops.gate.rules import judge
from ops.gate.settings import Settings
from ops.preview.disruption import Effect, Risk, effects, is_stateful
from ops.preview.plan import Change, Plan, build
from ops.preview.plan import Finding as PolicyFinding
from ops.preview.redact import Redactor
from ops.preview.source import Preview
from ops.preview.values import Leaf, clean

Verdict = Literal["failed", "blocked", "changes", "drift", "no changes"]

_LAST_LINES = 20


class _Out(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        arbitrary_types_allowed=True,
    )


class ChangeReport(_Out):
    """One change with its consequences."""

    urn: str
    kind: str
    name: str
    component: str
    operation: str
    risk: str
    stateful: bool
    forced_by: tuple[str, ...]
    expected: tuple[str, ...]
    properties: tuple[Leaf, ...]
    more_properties: int


class CostReport(_Out):
    """List prices in USD at fixed or largest size; `unknown` pools are in no sum."""

    per_hour: float
    change_per_hour: float
    per_month: float
    change_per_month: float
    unknown: tuple[str, ...]
    unpriced: tuple[str, ...]


class StackReport(_Out):
    """One stack's preview."""

    stack: str
    project: str
    verdict: Verdict
    counts: dict[str, int]
    risks: dict[str, int]
    policies: dict[str, int] | None
    cost: CostReport
    changes: tuple[ChangeReport, ...]
    drift: tuple[ChangeReport, ...]
    violations: tuple[PolicyFinding, ...]
    gates: tuple[dict[str, object], ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    packs: dict[str, str]
    seconds: int
    exit_code: int | None


class View(BaseModel):
    """What the renderers need beside the data."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    report: StackReport
    acting: tuple[tuple[Change, Risk, tuple[Effect, ...]], ...]
    drift: tuple[Change, ...]
    findings: tuple[PolicyFinding, ...]
    gates: tuple[GateFinding, ...]
    cost: CostDelta


class Report(_Out):
    """Every stack of a pull request."""

    stacks: tuple[StackReport, ...]
    commit: str = ""
    base: str = ""
    run_url: str = ""
    tools: str = ""
    simulated: bool = False
    labels: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to say: no change, no finding, no failure."""
        return all(
            stack.verdict == "no changes" and not any((stack.policies or {}).values())
            for stack in self.stacks
        )


def look(
    preview: Preview,
    settings: Settings,
    *,
    redactor: Redactor,
    commits: Sequence[str] = (),
    said: Sequence[str] = (),
) -> View:
    """Everything one preview says, judged."""
    plan = build(preview.log, redactor, stack=preview.stack)
    cost = of_plan(plan)
    gates: list[GateFinding] = []
    if not cannot_judge(plan):
        gates = judge(plan, cost, settings.gates(plan.stack), commits=commits, said=said)
    acting = [
        (change, found[0].risk, found)
        for change in plan.acting
        if not change.own
        for found in [tuple(effects(change))]
    ]
    acting.sort(key=lambda each: (-each[1], each[0].component.name, each[0].name))
    errors = _errors(plan, preview, redactor)
    return View(
        report=StackReport(
            stack=plan.stack,
            project=plan.project,
            verdict=_verdict(plan, preview, gates, errors),
            counts=plan.counts,
            risks=_risks(acting),
            policies=_policies(plan),
            cost=_cost(cost),
            changes=tuple(_change(*each) for each in acting),
            drift=tuple(_change(each, Risk.SAFE, ()) for each in plan.drift),
            violations=plan.findings,
            gates=tuple(as_dict(each) for each in gates),
            errors=errors,
            warnings=tuple(each.message for each in plan.warnings),
            notes=tuple(_notes(plan, cost)),
            packs=plan.packs,
            seconds=plan.seconds,
            exit_code=preview.exit_code,
        ),
        acting=tuple(acting),
        drift=plan.drift,
        findings=plan.findings,
        gates=tuple(gates),
        cost=cost,
    )


def assemble(
    views: Sequence[View],
    *,
    commit: str = "",
    base: str = "",
    run_url: str = "",
    tools: str = "",
    simulated: bool = False,
) -> Report:
    """The report of several stacks."""
    stacks = tuple(view.report for view in views)
    return Report(
        stacks=stacks,
        commit=commit,
        base=base,
        run_url=run_url,
        tools=tools,
        simulated=simulated,
        labels=_labels(stacks),
    )


def _labels(stacks: Sequence[StackReport]) -> tuple[str, ...]:
    labels = set()
    for stack in stacks:
        if stack.changes:
            labels.add("iac/change")
        if any(change.operation in ("delete", "replace", "forget") for change in stack.changes):
            labels.add("iac/destroy")
        if stack.policies and stack.policies["mandatory"]:
            labels.add("iac/policy-fail")
        if any(gate["refuses"] for gate in stack.gates):
            labels.add("iac/gate-refused")
        if stack.verdict == "failed":
            labels.add("iac/preview-failed")
    return tuple(sorted(labels)) or ("iac/no-change",)


def _verdict(
    plan: Plan, preview: Preview, gates: Sequence[GateFinding], errors: Sequence[str]
) -> Verdict:
    mandatory = plan.count("mandatory")
    broke = preview.exit_code not in (None, 0) and not mandatory
    if errors or not plan.complete or broke:
        return "failed"
    if mandatory or any(gate.refuses for gate in gates):
        return "blocked"
    if plan.acting:
        return "changes"
    return "drift" if plan.drift else "no changes"


def _risks(acting: Sequence[tuple[Change, Risk, tuple[Effect, ...]]]) -> dict[str, int]:
    counted = Counter(risk for _, risk, _ in acting)
    return {
        risk.name.lower(): counted[risk] for risk in sorted(Risk, reverse=True) if counted[risk]
    }


def risks(stack: StackReport) -> str:
    """`1 outage, 2 pod restarts, 5 safe`, worst first."""
    return ", ".join(Risk[name.upper()].counted(number) for name, number in stack.risks.items())


def verdict(stack: StackReport) -> str:
    """`blocked by 1 policy and 2 gates`."""
    if stack.verdict != "blocked":
        return stack.verdict
    policies = (stack.policies or {}).get("mandatory", 0)
    gates = sum(bool(gate["refuses"]) for gate in stack.gates)
    reasons = [
        f"{number} {one if number == 1 else many}"
        for number, one, many in ((policies, "policy", "policies"), (gates, "gate", "gates"))
        if number
    ]
    return f"blocked by {' and '.join(reasons)}"


def _policies(plan: Plan) -> dict[str, int] | None:
    if not plan.has_policies:
        return None
    return {
        "mandatory": plan.count("mandatory"),
        "advisory": plan.count("advisory"),
        "undecided": plan.count("undecided"),
        "excepted": plan.count("excepted"),
    }


def _cost(cost: CostDelta) -> CostReport:
    return CostReport(
        per_hour=cost.after.per_hour,
        change_per_hour=cost.per_hour,
        per_month=cost.after.per_month,
        change_per_month=cost.per_month,
        unknown=cost.unknown,
        unpriced=tuple(pool.pool for pool in cost.after.unpriced),
    )


def _change(change: Change, risk: Risk, expected: Sequence[Effect]) -> ChangeReport:
    return ChangeReport(
        urn=change.urn,
        kind=change.kind,
        name=change.name,
        component=str(change.component),
        operation=change.operation,
        risk=risk.text,
        stateful=is_stateful(change),
        forced_by=change.reasons,
        expected=tuple(str(effect) for effect in expected),
        properties=change.leaves,
        more_properties=change.more_leaves,
    )


def _errors(plan: Plan, preview: Preview, redactor: Redactor) -> tuple[str, ...]:
    """The engine's errors, else the last lines of a run that never reached the engine."""
    if plan.errors:
        return tuple(
            _short(f"{each.urn.rsplit('::', 1)[-1]}: {each.message}" if each.urn else each.message)
            for each in plan.errors
        )
    if plan.complete or not preview.output:
        return ()
    return (_short(redactor.text(clean(preview.output)).strip()),)


def _short(text: str) -> str:
    """The first line, which says what; and the last ones, where a traceback ends."""
    lines = text.splitlines()
    if len(lines) <= _LAST_LINES:
        return text
    return "\n".join(
        [lines[0], f"... {len(lines) - _LAST_LINES} lines ...", *lines[1 - _LAST_LINES :]]
    )


def _notes(plan: Plan, cost: CostDelta) -> list[str]:
    notes = []
    if not plan.complete:
        notes.append("The preview did not finish: steps are missing from this list.")
    if not plan.has_policies:
        notes.append("`preview --json` leaves policy results out (pulumi/pulumi#18851).")
    if plan.unknown_events:
        kinds = ", ".join(plan.unknown_events)
        notes.append(f"The event log has kinds this report does not know: {kinds}.")
    if plan.unreadable:
        notes.append(f"{plan.unreadable} line(s) of the event log could not be read.")
    if cost.unknown:
        notes.append(f"Cost unknown for: {', '.join(cost.unknown)}.")
    return notes

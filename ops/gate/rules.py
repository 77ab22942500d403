"""What a policy cannot see: operations, old values, deletions, sums. Seven gates on a plan."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ops.cost.stack import CostDelta, dollars, over_budget
from ops.gate.overrides import Override, given
from ops.gate.settings import GateId, Gates, Level
from ops.preview.disruption import CLUSTER, effects, is_stateful
from ops.preview.plan import Change, Plan

_MOST_NAMES = 8


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something a gate holds against a plan."""

    gate: GateId
    level: Level
    operation: str
    subject: str
    text: str
    fix: str
    override: Override | None = None
    overridden: bool = False

    @property
    def refuses(self) -> bool:
        return self.level == "mandatory" and not self.overridden


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """One observation before levels and overrides."""

    operation: str
    subject: str
    text: str
    fix: str
    advisory: bool = False


def judge(
    plan: Plan,
    cost: CostDelta,
    gates: Gates,
    *,
    commits: Sequence[str] = (),
    said: Sequence[str] = (),
) -> list[Finding]:
    """Every finding, worst first; `commits` are those the plan stands for, its own first."""
    findings = []
    for gate, look in _GATES.items():
        level = gates.level(gate)
        if level == "off":
            continue
        for seen in look(plan, cost, gates):
            finding = Finding(
                gate=gate,
                level="advisory" if seen.advisory else level,
                operation=seen.operation,
                subject=seen.subject,
                text=seen.text,
                fix=seen.fix,
            )
            findings.append(_with_override(finding, commits, said))
    return sorted(findings, key=lambda each: (not each.refuses, each.level != "mandatory"))


def _with_override(finding: Finding, commits: Sequence[str], said: Sequence[str]) -> Finding:
    if finding.level != "mandatory" or not commits:
        return finding
    match = given(finding.gate, finding.operation, finding.subject, commits, said)
    needed = Override(
        gate=finding.gate,
        operation=finding.operation,
        subject=finding.subject,
        commit=commits[0],
    )
    return replace(finding, override=match or needed, overridden=match is not None)


def _stateful_goes(plan: Plan, _cost: CostDelta, _gates: Gates) -> Iterator[_Seen]:
    gone = [
        change
        for change in plan.acting
        if change.operation in ("delete", "replace", "forget") and is_stateful(change)
    ]
    clusters = [change for change in gone if change.type == CLUSTER]
    dragged = [change for change in gone if clusters and _dragged(change)]
    for change in gone:
        if change in dragged:
            continue
        forced = f" because of {', '.join(change.reasons)}" if change.reasons else ""
        along = ""
        if change.type == CLUSTER and dragged:
            along = "; it takes along " + ", ".join(each.name for each in dragged)
        yield _Seen(
            operation=change.operation,
            subject=change.urn,
            text=f"{change.kind} {change.name} would be {_PAST[change.operation]}{forced}: "
            f"{effects(change)[0]}{along}",
            fix="keep it as it is, or add a second one beside it and remove the first later",
        )


_PAST = {"delete": "deleted", "replace": "replaced", "forget": "forgotten, not deleted"}


def _dragged(change: Change) -> bool:
    """Whether it goes only because its cluster does: said once, with the cluster."""
    return bool(change.reasons) and all(
        reason == "cluster" or reason.startswith("its provider ") for reason in change.reasons
    )


def _engine_guard_off(plan: Plan, _cost: CostDelta, _gates: Gates) -> Iterator[_Seen]:
    """One finding for one resource, one for all where many lose the same option."""
    for option, operation in (("protect", "unprotect"), ("retainOnDelete", "drop-retain")):
        bare = [each for each in plan.changes if _turns(each, f"option {option}", "true", "false")]
        if not bare:
            continue
        names = ", ".join(change.name for change in bare[:_MOST_NAMES])
        more = f" and {len(bare) - _MOST_NAMES} more" if len(bare) > _MOST_NAMES else ""
        one = len(bare) == 1
        yield _Seen(
            operation=operation if one else f"{operation}-{len(bare)}",
            subject=bare[0].urn if one else f"stack:{plan.stack}",
            text=f"the option {option} is taken off {names}{more}",
            fix=f"leave {option} on; take it off in a change of its own, before the one that "
            "needs it",
        )


def _provider_guard_off(plan: Plan, _cost: CostDelta, _gates: Gates) -> Iterator[_Seen]:
    for change in plan.acting:
        if not change.old or not change.new:
            continue
        was, becomes = change.old.inputs, change.new.inputs
        turned = []
        # The provider's own default is true (terraform-provider-google-beta 93c65b2).
        if was.get("deletionProtection", True) and becomes.get("deletionProtection") is False:
            turned.append("deletionProtection true -> false")
        if not was.get("forceDestroy") and becomes.get("forceDestroy") is True:
            turned.append("forceDestroy false -> true")
        policy = becomes.get("deletionPolicy", "DELETE")
        if was.get("deletionPolicy") == "PREVENT" and policy != "PREVENT":
            turned.append(f"deletionPolicy PREVENT -> {policy}")
        for each in turned:
            yield _Seen(
                operation=each.split()[0],
                subject=change.urn,
                text=f"{change.kind} {change.name}: {each}",
                fix="set it back, unless the next change is meant to delete this resource",
            )


def _many_deleted(plan: Plan, _cost: CostDelta, gates: Gates) -> Iterator[_Seen]:
    existing = [change for change in plan.changes if change.old and not change.own]
    gone = [change for change in existing if change.operation in ("delete", "forget")]
    if not gone:
        return
    percent = 100 * len(gone) / len(existing)
    many = len(gone) > gates.most_deletes
    # One of two is half of a stack but not many.
    large = percent > gates.most_deletes_percent and len(gone) > 1
    if many or large:
        yield _Seen(
            operation=f"delete-{len(gone)}",
            subject=f"stack:{plan.stack}",
            text=f"{len(gone)} of {len(existing)} resources ({percent:.0f} %) are deleted; more "
            f"than {gates.most_deletes}, or {gates.most_deletes_percent:g} %, is unusual",
            fix="check that the stack, the branch and the configuration are the ones meant",
        )


def _renames(plan: Plan, _cost: CostDelta, _gates: Gates) -> Iterator[_Seen]:
    coming: dict[object, Change] = {}
    for change in plan.acting:
        if change.operation == "create" and not change.own:
            for key in _names(change):
                coming.setdefault(key, change)
    for gone in plan.acting:
        if gone.operation != "delete" or gone.own:
            continue
        twin = next((coming[key] for key in _names(gone) if key in coming), None)
        if twin:
            yield _Seen(
                operation="rename",
                subject=gone.urn,
                text=f"{gone.kind} {gone.name} goes and {twin.name} comes with the same name: "
                "probably a rename or a move",
                fix=f'keep it by giving the new one aliases=[pulumi.Alias(urn="{gone.urn}")]',
            )


def _undecided(plan: Plan, _cost: CostDelta, _gates: Gates) -> Iterator[_Seen]:
    number = plan.count("undecided")
    if plan.created_from_nothing and number:
        rules = sorted({each.policy for each in plan.findings if each.level == "undecided"})
        yield _Seen(
            operation="create",
            subject=f"stack:{plan.stack}",
            text=f"policy checks not decided before the first creation: {number} "
            f"({', '.join(rules)})",
            fix="run pulumi policy analyze on the state right after the first up",
        )


def _spends(plan: Plan, cost: CostDelta, gates: Gates) -> Iterator[_Seen]:
    subject = f"stack:{plan.stack}"
    if cost.per_month > gates.most_monthly_increase_usd:
        yield _Seen(
            operation=f"spend-{round(cost.per_month)}-usd-a-month-more",
            subject=subject,
            text=f"the bill rises by {dollars(cost.per_month)} a month, the threshold is "
            f"{dollars(gates.most_monthly_increase_usd)}",
            fix="a smaller pool, spot or flex-start capacity, or a lower largest size",
        )
    if gates.monthly_budget_usd is not None and cost.per_month > 0:
        reason = over_budget(cost.after, gates.monthly_budget_usd)
        if reason:
            excess = round(cost.after.per_month - gates.monthly_budget_usd)
            yield _Seen(
                operation=f"exceed-budget-by-{excess}-usd-a-month",
                subject=subject,
                text=reason,
                fix="raise the budget in the same change, or make the pools smaller",
            )
    if cost.unknown:
        yield _Seen(
            operation="spend-unknown",
            subject=subject,
            text="nobody knows what these pools cost: " + ", ".join(cost.unknown),
            fix="add the price with its source and date to catalog/prices.py",
            advisory=True,
        )


def _turns(change: Change, path: str, was: str, becomes: str) -> bool:
    return any(
        (leaf.path, leaf.before, leaf.after) == (path, was, becomes) for leaf in change.leaves
    )


def _names(change: Change) -> Iterator[tuple[object, ...]]:
    """What a renamed or moved resource keeps: its logical name, or the one the cloud knows."""
    yield (change.type, "logical", change.name)
    state = change.old or change.new
    inputs = state.inputs if state else {}
    metadata = inputs.get("metadata")
    if isinstance(metadata, dict):
        if isinstance(metadata.get("name"), str):
            yield (change.type, "object", str(metadata.get("namespace")), metadata["name"])
        return
    # A name the provider made up differs each time and names nothing.
    made_up = "name" in (inputs.get("__defaults") or [])
    if isinstance(inputs.get("name"), str) and not made_up:
        yield (change.type, "named", str(inputs.get("location")), inputs["name"])


_GATES: dict[GateId, Callable[[Plan, CostDelta, Gates], Iterator[_Seen]]] = {
    "G1": _stateful_goes,
    "G2": _engine_guard_off,
    "G3": _provider_guard_off,
    "G4": _many_deleted,
    "G5": _renames,
    "G6": _undecided,
    "G7": _spends,
}

"""The pull-request comment."""

import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from catalog.prices import HOURS_PER_MONTH
from ops.cost.cli import change as cost_change
from ops.cost.cli import money, span
from ops.cost.stack import NOT_COUNTED, PoolDelta, dollars
from ops.preview.disruption import NOTHING, Effect, Risk, is_stateful
from ops.preview.plan import Change, Finding
from ops.preview.redact import Redactor
from ops.preview.values import cut
from ops.report.budget import BUDGET, NEVER_DROPPED, Block, Section, fit
from ops.report.model import Report, StackReport, View, risks, verdict

_IMPORTANCE = {
    "error": 95,
    "gate": 90,
    "mandatory": 85,
    "stateful": 80,
    "replace": 70,
    "delete": 65,
    "forget": 65,
    "drift": 60,
    "update": 50,
    "cost": 45,
    "import": 42,
    "create": 40,
    "advisory": 30,
    "excepted": 25,
    "undecided": 20,
    "warning": 15,
}
# Characters that mean something to Markdown or to GitHub, as entities.
_ENTITIES = {ord(char): f"&#{ord(char)};" for char in "`*_[]|@#~\\!$"}
_LONGEST_CODE = 600
_LONGEST_FENCE = 4000


def marker(name: str) -> str:
    """The hidden line by which a later run finds its comment."""
    return f"<!-- tpuserve:preview:{re.sub(r'[^A-Za-z0-9,_.-]', '', name)} -->"


def _inert(text: str) -> str:
    """Text in which neither HTML, Markdown nor an autolink begins."""
    escaped = html.escape(text, quote=False).translate(_ENTITIES)
    return escaped.replace("://", "&#58;//").replace("www.", "www&#46;")


def code(text: object) -> Markup:
    """Inline code that nothing in `text` can end or extend."""
    flat = cut(" ".join(str(text).split()), _LONGEST_CODE)
    return Markup(f"<code>{_inert(flat)}</code>")  # noqa: S704


def prose(text: object) -> Markup:
    """A sentence in which nothing is a link, a mention, a reference or markup."""
    flat = cut(" ".join(str(text).split()), _LONGEST_CODE)
    # Without the space of no width GitHub would notify people and add backlinks to issues.
    loose = re.sub(r"([@#])", "\\1\u200b", flat)
    return Markup(_inert(loose))  # noqa: S704


def plain(text: object) -> Markup:
    """A bare word; everything but letters, digits and `.-` is dropped."""
    return Markup(_inert(re.sub(r"[^\w.-]", "", str(text))))  # noqa: S704


def fence(text: object, language: str = "text") -> Markup:
    """A fenced block longer than any fence inside it."""
    body = cut(str(text).rstrip(), _LONGEST_FENCE)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return Markup(f"{ticks}{language}\n{body}\n{ticks}")  # noqa: S704


def _url(text: object) -> Markup:
    link = str(text)
    return Markup(link if re.fullmatch(r"https://[\w./-]+", link) else "#")  # noqa: S704


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ops.report"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters.update(code=code, prose=prose, plain=plain, fence=fence, url=_url)
    return environment


def render(
    report: Report,
    views: Sequence[View],
    *,
    redactor: Redactor,
    budget: int = BUDGET,
    name: str = "",
) -> str:
    """The comment; its first visible line decides, its length stays within `budget` bytes."""
    blocks = _environment().get_template("blocks.md.j2").module
    head = marker(name or ",".join(sorted(stack.stack for stack in report.stacks))) + "\n"
    sections = [_headlines(blocks, views)]
    for view in views:
        sections += _stack_sections(blocks, view, titled=len(views) > 1)
    footer_room = 2_000
    fitted = fit(sections, budget - len(head) - footer_room)
    footer = _call(
        blocks, "footer", report, _dropped(fitted.dropped), _packs(views), {"limit": budget}
    )
    return redactor.text(head + fitted.text.rstrip("\n") + "\n" + footer)


def _call(blocks: Any, macro: str, *args: object) -> str:
    return str(getattr(blocks, macro)(*args))


def _headlines(blocks: Any, views: Sequence[View]) -> Section:
    order = {"failed": 0, "blocked": 1, "changes": 2, "drift": 3, "no changes": 4}
    ranked = sorted(views, key=lambda view: order[view.report.verdict])
    text = "".join(
        _call(
            blocks,
            "headline",
            view.report,
            verdict(view.report),
            risks(view.report),
            _policies(view.report),
            _cost(view.report),
            "" if view.report.verdict != "no changes" else counts(view.report),
        )
        + "\n"
        for view in ranked
    )
    return Section(blocks=[Block(text=text, importance=NEVER_DROPPED, what="headline")])


def _policies(stack: StackReport) -> str:
    if not stack.policies:
        return ""
    said = [f"{number} {level}" for level, number in stack.policies.items() if number]
    return f"policies: {', '.join(said)}" if said else ""


def _cost(stack: StackReport) -> str:
    """The change an hour and a month; the dollar sign escaped, for GitHub reads `$..$` as maths."""
    cost = stack.cost
    if cost.change_per_hour or cost.unknown:
        text = (
            f"{dollars(cost.change_per_hour, signed=True)}/h "
            f"({dollars(cost.change_per_month, signed=True)} a month)"
        )
        if cost.unknown:
            text += f" and {len(cost.unknown)} unknown"
    elif cost.per_hour:
        text = f"cost unchanged at {dollars(cost.per_hour)}/h"
    else:
        return ""
    return str(Markup(text.replace("$", "\\$")))  # noqa: S704


def counts(stack: StackReport) -> str:
    """`1 to replace, 3 to update, 120 unchanged`, as the CLI counts."""
    words = {"same": "unchanged"}
    order = ("replace", "delete", "update", "create", "import", "read", "same")
    known = [op for op in order if stack.counts.get(op)]
    others = [op for op in stack.counts if op not in order and stack.counts[op]]
    return ", ".join(
        f"{stack.counts[op]} {words.get(op, f'to {op}')}" for op in [*known, *sorted(others)]
    )


def _stack_sections(blocks: Any, view: View, *, titled: bool) -> list[Section]:
    stack = view.report
    if stack.verdict == "no changes" and not any((stack.policies or {}).values()):
        return []
    title = f"\n## {plain(stack.stack)}\n\n" if titled else ""
    said = [f"{counts(stack)}."] if stack.counts else []
    summary = " ".join([*said, *(str(prose(note)) for note in stack.notes)])
    sections = [
        Section(
            heading=title,
            blocks=[Block(text=f"{summary}\n\n", importance=NEVER_DROPPED, what="summary")],
        ),
        _errors(blocks, stack),
        _gates(blocks, view),
        _violations(blocks, view.findings),
        _stateful(blocks, view),
        *_components(blocks, view),
        _drift(blocks, view.drift),
        _costs(blocks, view),
        *_quieter(blocks, view),
    ]
    return [section for section in sections if section.blocks]


def _errors(blocks: Any, stack: StackReport) -> Section:
    return Section(
        heading="### The preview failed\n\n",
        blocks=[_block("error", _call(blocks, "error", text), "errors") for text in stack.errors],
    )


def _gates(blocks: Any, view: View) -> Section:
    return Section(
        heading="### Gates\n\n",
        blocks=[
            Block(
                text=_call(blocks, "gate", finding),
                importance=_IMPORTANCE["gate"] if finding.refuses else _IMPORTANCE["advisory"],
                what="gate findings",
            )
            for finding in view.gates
        ],
    )


def _violations(blocks: Any, findings: Iterable[Finding]) -> Section:
    return Section(
        heading="### Mandatory policies\n\n",
        blocks=[
            _block("mandatory", _call(blocks, "violation", finding), "mandatory violations")
            for finding in findings
            if finding.level == "mandatory"
        ],
    )


def _stateful(blocks: Any, view: View) -> Section:
    rows = [
        _block("stateful", _call(blocks, "stateful_row", change, str(effects[0])), "stateful rows")
        for change, _, effects in view.acting
        if change.operation in ("replace", "delete", "forget") and is_stateful(change)
    ]
    return Section(
        heading="### Goes, and holds state or capacity\n\n"
        "| What | How | Forced by | Expect |\n|---|---|---|---|\n",
        blocks=rows,
        closing="\n",
    )


def _components(blocks: Any, view: View) -> Iterable[Section]:
    by_component: dict[str, list[tuple[Change, Risk, tuple[Effect, ...]]]] = defaultdict(list)
    guards: list[Change] = []
    for each in view.acting:
        if all(leaf.path.startswith("option ") for leaf in each[0].leaves) and each[0].leaves:
            guards.append(each[0])
        else:
            by_component[str(each[0].component)].append(each)
    yield _options(guards)
    new = Section(heading="### New\n\n")
    for component, changes in by_component.items():
        section = Section(heading=f"### {code(component)}\n\n")
        for change, risk, effects in changes:
            if change.operation != "create":
                section.blocks.append(_change_block(blocks, change, risk, effects))
        if section.blocks:
            yield section
        created = [change for change, _, _ in changes if change.operation == "create"]
        if created:
            lines = "\n".join(f"+ {change.kind} {change.name}" for change in created)
            text = _call(blocks, "created", component, len(created), lines)
            new.blocks.append(_block("create", text, "groups of creations"))
    yield new


def _options(changes: Sequence[Change]) -> Section:
    """Resources whose options alone change: one line each."""
    section = Section(heading="### Options\n\n")
    if changes:
        lines = "\n".join(
            f"! {change.name} {leaf.path.removeprefix('option ')}: {leaf.before} -> {leaf.after}"
            for change in changes
            for leaf in change.leaves
        )
        text = f"{fence(lines, 'diff')}\n\n"
        section.blocks.append(_block("gate", text, "changed options"))
    return section


def _change_block(blocks: Any, change: Change, risk: Risk, effects: Sequence[Effect]) -> Block:
    expected = [str(effect) for effect in effects if effect is not NOTHING]
    said = "" if risk is Risk.SAFE else risk.text
    text = _call(blocks, "change", change, said, expected, diff(change))
    return _block(change.operation, text, f"{change.operation}s")


def diff(change: Change) -> str:
    """The changed properties as a diff, `+`, `-` and `!` in the first column."""
    lines = []
    for leaf in change.leaves:
        if leaf.forces_replacement or leaf.path in change.reasons:
            lines.append(f"! {leaf.path} forces the replacement")
        if leaf.before is not None:
            lines.append(f"- {leaf.path}: {leaf.before}")
        if leaf.after is not None:
            lines.append(f"+ {leaf.path}: {leaf.after}")
    if change.more_leaves:
        lines.append(f"  and {change.more_leaves} more properties")
    return "\n".join(lines)


def _drift(blocks: Any, drift: Iterable[Change]) -> Section:
    return Section(
        heading="### Changed outside Pulumi\n\n",
        blocks=[
            _block("drift", _call(blocks, "change", change, "", [], diff(change)), "drifts")
            for change in drift
        ],
    )


def _costs(blocks: Any, view: View) -> Section:
    if not view.cost.changes:
        return Section()
    rows = [
        _block("cost", _call(blocks, "cost_row", _cost_row(pool)), "cost rows")
        for pool in view.cost.pools
    ]
    total = f"Left on for a month ({HOURS_PER_MONTH} h) at full size: "
    total += dollars(view.report.cost.per_month).replace("$", "\\$")
    return Section(
        heading="### Cost of TPU pools at list price\n\n"
        "| Pool | What | Chips | Per hour | Change per hour | Month left on | |\n"
        "|---|---|---:|---:|---:|---:|---|\n",
        blocks=rows,
        closing=f"\n{total}. {NOT_COUNTED}\n\n",
    )


def _cost_row(pool: PoolDelta) -> dict[str, str]:
    shown = pool.after or pool.before
    if shown is None:
        return {}
    month = pool.after.per_month if pool.after else None
    return {
        "name": pool.pool,
        "what": f"{shown.machine} {shown.capacity} {shown.region}",
        "chips": _before_after(pool),
        "now": money(pool.after),
        "change": cost_change(pool),
        "month": dollars(month.high) if month else "-",
        "notes": "; ".join(shown.notes),
    }


def _before_after(pool: PoolDelta) -> str:
    before, after = (span(side.chips) if side else "0" for side in (pool.before, pool.after))
    return after if before == after else f"{before} → {after}"


def _quieter(blocks: Any, view: View) -> Iterable[Section]:
    for level, macro, heading in (
        ("advisory", "advisory", "advisory"),
        ("excepted", "advisory", "excepted"),
        ("undecided", "undecided", "not decided before apply"),
    ):
        by_policy: dict[str, list[Finding]] = defaultdict(list)
        for finding in view.findings:
            if finding.level == level:
                by_policy[finding.policy].append(finding)
        number = sum(each.number for found in by_policy.values() for each in found)
        yield Section(
            heading=f"<details><summary>Policies, {heading}: {number}</summary>\n\n",
            blocks=[
                _block(level, _call(blocks, macro, policy, found), f"{level} policies")
                for policy, found in by_policy.items()
            ],
            closing="</details>\n\n",
        )
    yield Section(
        heading=f"<details><summary>Warnings: {len(view.report.warnings)}</summary>\n\n",
        blocks=[
            _block("warning", _call(blocks, "error", text), "warnings")
            for text in view.report.warnings
        ],
        closing="</details>\n\n",
    )


def _block(kind: str, text: str, what: str) -> Block:
    return Block(text=text, importance=_IMPORTANCE[kind], what=what)


def _dropped(dropped: dict[str, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(dropped.items()))


def _packs(views: Sequence[View]) -> Markup:
    packs = Counter(
        f"{name} {version}" for view in views for name, version in view.report.packs.items()
    )
    said = ", ".join(str(code(pack)) for pack in packs)
    return Markup(f"Policies: {said}." if said else "No policy pack ran.")  # noqa: S704

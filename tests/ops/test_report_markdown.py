"""The comment: what decides comes first, nothing breaks out, nothing exceeds the limit."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from ops.gate.settings import load_settings
from ops.preview.events import EventLog
from ops.preview.redact import Redactor
from ops.preview.source import Preview, load
from ops.report import assemble, look, render
from ops.report.budget import BUDGET, GITHUB_LIMIT, NEVER_DROPPED, Block, Section, fit
from ops.report.markdown import code, fence, prose
from ops.report.model import Report, View
from tests.ops.previews import COMMIT, EVENTS, SECRET, log, policy, pool_inputs, step

POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"


def views_of(*sources: str | EventLog | Preview) -> list[View]:
    settings = load_settings()
    found = []
    for source in sources:
        if isinstance(source, str):
            preview = load(EVENTS / f"{source}.jsonl")
        elif isinstance(source, EventLog):
            preview = Preview(stack="prod", log=source, output="", exit_code=None)
        else:
            preview = source
        found.append(look(preview, settings, redactor=Redactor(), commits=(COMMIT,)))
    return found


def comment(views: Sequence[View], budget: int = BUDGET, **about: Any) -> str:
    report = assemble(views, commit=COMMIT, **about)
    return render(report, views, redactor=Redactor(), budget=budget)


def first_line(text: str) -> str:
    marker, line, *_ = text.splitlines()
    assert marker.startswith("<!-- tpuserve:preview:")
    return line


def test_the_first_line_counts_risks_policies_and_money() -> None:
    line = first_line(comment(views_of("mandatory")))
    assert line.startswith("**prod: blocked by 1 policy and 1 gate**")
    assert "8 safe" in line
    assert "1 mandatory, 1 advisory, 1 undecided" in line
    assert r"+\$86.40/h (+\$63,072 a month)" in line


def test_worst_things_are_told_before_milder_ones() -> None:
    text = comment(views_of("replace-cluster"))
    order = [
        "### Gates",
        "### Goes, and holds state or capacity",
        "<b>replace</b>",
        "Policies, advisory",
        "Policies, undecided"
        if "Policies, undecided" in text
        else "Policies, not decided before apply",
    ]
    places = [text.index(each) for each in order]
    assert places == sorted(places)


def test_a_replacement_names_the_property_that_forces_it() -> None:
    text = comment(views_of("replace-cluster"))
    assert "forced by <code>location</code>" in text
    assert (
        "! location forces the replacement\n- location: us-central1\n+ location: us-east5" in text
    )


def test_a_failed_preview_still_makes_a_comment_with_the_reason() -> None:
    text = comment(views_of("program-error"))
    assert first_line(text).startswith("**prod: failed**")
    assert "boom: the program failed" in text
    assert "steps are missing" in text


def test_a_protected_resource_is_named_as_the_reason() -> None:
    text = comment(views_of("protected"))
    assert "it is currently marked for protection" in text


def test_a_run_that_never_reached_the_engine_shows_what_it_printed() -> None:
    preview = Preview(
        stack="prod",
        log=EventLog(),
        output="\x1b[31merror:\x1b[0m no credentials for hf_" + "A" * 30,
        exit_code=255,
    )
    text = comment(views_of(preview))
    assert first_line(text).startswith("**prod: failed**")
    assert "error: no credentials for [redacted]" in text


def test_no_change_and_no_finding_is_a_single_line() -> None:
    quiet = log(step("same", BUCKET, "w", old={"name": "w"}, new={"name": "w"}))
    views = views_of(quiet)
    body = [line for line in comment(views).splitlines() if line and "<" not in line[:1]]
    assert body == ["**prod: no changes** · 1 unchanged"]
    assert assemble(views).quiet


def test_several_stacks_share_one_comment_worst_first() -> None:
    views = views_of("no-change", "mandatory")
    lines = comment(views).splitlines()
    assert lines[1].startswith("**prod: blocked")
    assert sum(line.startswith("**prod:") for line in lines) == 2


def test_the_same_report_is_the_same_text() -> None:
    assert comment(views_of("fresh")) == comment(views_of("fresh"))


def test_override_text_is_printed_verbatim() -> None:
    text = comment(views_of("replace-cluster"))
    sentence = (
        "allow G1 replace urn:pulumi:prod::tpuserve::tpuserve:cluster:Cluster"
        f"$gcp:container/cluster:Cluster::cluster-gke at {COMMIT}"
    )
    assert f"  {sentence}\n  label: gate-ok/" in text


def test_secrets_are_blanked_even_if_everything_before_let_them_through() -> None:
    token = "hf_" + "Z9" * 17
    event = policy("p", "mandatory", f"found {token}", BUCKET, "w")
    views = views_of(log(event))
    assert token not in comment(views)


HOSTILE = (
    "x</code></summary>|`` ``` @octocat #1 [a](https://evil.example) <img src=x> **b** $c$ "
    "https://evil.example www.evil.example \n# h"
)


def test_nothing_from_outside_becomes_markup() -> None:
    kind = "kubernetes:core/v1:ConfigMap"
    events = log(
        step(
            "replace", kind, HOSTILE, old={"a": HOSTILE}, new={"a": HOSTILE * 2}, forced=[HOSTILE]
        ),
        step("create", BUCKET, HOSTILE, new={"a": HOSTILE}),
        policy(HOSTILE, "mandatory", HOSTILE, BUCKET, HOSTILE),
        policy(HOSTILE, "advisory", HOSTILE, BUCKET, HOSTILE),
        {"diagnosticEvent": {"severity": "error", "message": HOSTILE, "urn": HOSTILE}},
        {"diagnosticEvent": {"severity": "warning", "message": HOSTILE}},
    )
    text = comment(views_of(events), run_url="javascript:alert(1)")
    outside = _without_fences(text)
    assert "<img" not in outside
    assert "](https://evil" not in outside
    assert "javascript:" not in text
    assert not re.search(r"@octocat|https://evil|www\.evil", outside)
    assert not re.search(r"(?<!&)#1\b", outside)
    assert outside.count("<details>") == outside.count("</details>")
    assert outside.count("<code>") == outside.count("</code>")


def _without_fences(text: str) -> str:
    """The text a Markdown reader interprets: fenced blocks taken out, each properly closed."""
    kept, ticks = [], ""
    for line in text.splitlines():
        stripped = line.strip()
        run = re.match(r"`{3,}", stripped)
        if not ticks and run:
            ticks = run.group()
        elif ticks and re.fullmatch(r"`+", stripped) and len(stripped) >= len(ticks):
            ticks = ""
        elif not ticks:
            kept.append(line)
    assert not ticks, "a fence stays open"
    return "\n".join(kept)


@pytest.mark.parametrize("text", ["```", "````\n```", "a ``` b", "`" * 20])
def test_a_fence_is_longer_than_any_inside_it(text: str) -> None:
    made = str(fence(text))
    ticks = made.splitlines()[0].removesuffix("text")
    assert all(len(run) < len(ticks) for run in re.findall(r"`+", text))


def test_code_and_prose_hold_no_active_character() -> None:
    assert not set("`*_[]|@~\\!$") & set(str(code(HOSTILE)).replace("<code>", ""))
    assert "@octocat" not in str(prose(HOSTILE))


def _large(number: int) -> EventLog:
    changes = [
        step(
            "update",
            "kubernetes:core/v1:ConfigMap",
            f"map-{n}",
            old={f"k{m}": "a" * 100 for m in range(20)},
            new={f"k{m}": "b" * 100 for m in range(20)},
        )
        for n in range(number)
    ]
    pools = [
        step("replace", POOL, f"pool-{n}", old=pool_inputs(), new=pool_inputs(), forced=["name"])
        for n in range(3)
    ]
    notes = [policy(f"p{n}", "advisory", "x" * 900, BUCKET, "w") for n in range(100)]
    return log(*changes, *pools, *notes, policy("m", "mandatory", "must", BUCKET, "w"))


@pytest.mark.parametrize("budget", [3_000, 8_000, BUDGET])
def test_a_large_report_keeps_to_the_budget_and_says_what_it_left_out(budget: int) -> None:
    text = comment(views_of(_large(300)), budget, run_url="https://github.com/o/r/actions/runs/1")
    assert len(text.encode()) <= budget < GITHUB_LIMIT
    assert "Left out to keep this comment within" in text
    assert "[this run](https://github.com/o/r/actions/runs/1)" in text
    _without_fences(text)
    assert text.count("<details>") == text.count("</details>")


def test_what_matters_most_is_left_out_last() -> None:
    text = comment(views_of(_large(300)))
    assert "pool-0" in text
    assert "**m**" in text
    assert "100 advisory policies" in text


def test_the_json_summary_reads_back_and_shows_no_secret() -> None:
    events = log(step("update", BUCKET, "w", old={"k": SECRET, "a": 1}, new={"k": SECRET, "a": 2}))
    report = assemble(views_of(events), commit=COMMIT)
    text = report.model_dump_json(by_alias=True)
    assert Report.model_validate_json(text).stacks[0].changes[0].operation == "update"
    assert "ciphertext" not in text


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("no-change", {"iac/no-change"}),
        ("mandatory", {"iac/change", "iac/policy-fail", "iac/gate-refused"}),
        ("delete-and-replace", {"iac/change", "iac/destroy", "iac/gate-refused"}),
        ("program-error", {"iac/change", "iac/preview-failed"}),
    ],
)
def test_labels_say_what_kind_of_change_it_is(name: str, labels: set[str]) -> None:
    assert set(assemble(views_of(name)).labels) == labels


def test_blocks_are_dropped_whole_and_headings_with_their_last_block() -> None:
    sections = [
        Section(heading="H1\n", blocks=[Block(text="a" * 50, importance=10, what="as")]),
        Section(
            heading="H2\n",
            blocks=[
                Block(text="b" * 50, importance=20, what="bs"),
                Block(text="c" * 50, importance=20, what="bs"),
            ],
        ),
        Section(blocks=[Block(text="d" * 50, importance=NEVER_DROPPED, what="ds")]),
    ]
    fitted = fit(sections, 105)
    assert fitted.text == "H2\n" + "b" * 50 + "d" * 50 or fitted.text == "d" * 50
    assert len(fitted.text) <= 105
    assert fitted.dropped["as"] == 1
    assert fit(sections, 10_000).dropped == {}
    assert fit(sections, 10).text == "d" * 50


def test_drift_is_shown_apart() -> None:
    text = comment(views_of("refresh-preview-only"))
    assert first_line(text).startswith("**prod: drift**")
    assert "### Changed outside Pulumi" in text
    assert "- nodeCount: 1\n+ nodeCount: 3" in text

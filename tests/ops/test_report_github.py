"""One comment stays one comment; labels are kept exact."""

import httpx
import pytest

from ops.github import GitHubError
from ops.report.comment import BOT, set_labels, upsert
from ops.report.markdown import marker
from tests.ops.fake_github import FakeGitHub

MARK = marker("dev,prod")


def test_the_first_report_makes_a_comment_and_the_next_replaces_it() -> None:
    github = FakeGitHub()
    assert upsert(github.client, 7, f"{MARK}\none") == "created"
    assert upsert(github.client, 7, f"{MARK}\ntwo") == "updated"
    assert [each["body"] for each in github.comments] == [f"{MARK}\ntwo"]


def test_an_unchanged_report_is_not_written_again() -> None:
    github = FakeGitHub()
    upsert(github.client, 7, f"{MARK}\none")
    github.requests.clear()
    assert upsert(github.client, 7, f"{MARK}\none") == "unchanged"
    assert not [each for each in github.requests if not each.startswith("GET")]


def test_the_comment_is_found_on_any_page() -> None:
    github = FakeGitHub()
    for number in range(250):
        github.say("somebody", f"comment {number}")
    github.say(BOT, f"{MARK}\nold")
    assert upsert(github.client, 7, f"{MARK}\nnew") == "updated"
    assert len(github.comments) == 251


def test_a_comment_of_somebody_else_with_the_marker_is_left_alone() -> None:
    github = FakeGitHub()
    github.say("mallory", f"{MARK}\nall green")
    assert upsert(github.client, 7, f"{MARK}\nreal") == "created"
    assert github.comments[0]["body"] == f"{MARK}\nall green"


def test_copies_are_deleted() -> None:
    github = FakeGitHub()
    for text in ("a", "b", "c"):
        github.say(BOT, f"{MARK}\n{text}")
    upsert(github.client, 7, f"{MARK}\nnew")
    assert [each["body"] for each in github.comments] == [f"{MARK}\nnew"]


def test_comments_of_other_stack_sets_are_not_touched() -> None:
    github = FakeGitHub()
    other = f"{marker('dev')}\nother"
    github.say(BOT, other)
    upsert(github.client, 7, f"{MARK}\nnew")
    assert [each["body"] for each in github.comments] == [other, f"{MARK}\nnew"]


def test_a_quiet_report_makes_no_comment_but_updates_one() -> None:
    github = FakeGitHub()
    assert upsert(github.client, 7, f"{MARK}\nx", skip_new=True) == "skipped"
    github.say(BOT, f"{MARK}\nold")
    assert upsert(github.client, 7, f"{MARK}\nx", skip_new=True) == "updated"


def test_labels_become_exactly_those_of_the_report() -> None:
    github = FakeGitHub()
    github.labels = ["bug", "iac/no-change", "gate-ok/0123"]
    set_labels(github.client, 7, ["iac/change", "iac/destroy"])
    assert sorted(github.labels) == ["bug", "gate-ok/0123", "iac/change", "iac/destroy"]


def test_a_refusal_of_github_names_the_request_and_the_reason() -> None:
    github = FakeGitHub()
    github.fail = lambda _: httpx.Response(
        403, json={"message": "Resource not accessible by integration"}
    )
    with pytest.raises(GitHubError, match=r"GET /issues/7/comments.*403: Resource not accessible"):
        upsert(github.client, 7, f"{MARK}\nx")


def test_an_unreachable_github_is_one_error_and_not_a_traceback() -> None:
    github = FakeGitHub()

    def broken(_: httpx.Request) -> httpx.Response:
        message = "no route"
        raise httpx.ConnectError(message)

    github.fail = broken
    with pytest.raises(GitHubError, match="ConnectError: no route"):
        upsert(github.client, 7, f"{MARK}\nx")

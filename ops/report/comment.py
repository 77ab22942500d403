"""The one comment and the labels of a pull request, kept up to date."""

from collections.abc import Iterable
from typing import Literal

from ops.github import GitHub

LABEL_PREFIX = "iac/"
BOT = "github-actions[bot]"
Outcome = Literal["created", "updated", "unchanged", "skipped"]


def upsert(
    github: GitHub, pull: int, body: str, *, author: str = BOT, skip_new: bool = False
) -> Outcome:
    """Puts `body` in place of the comment that starts with the same marker line.

    All pages are searched, and only comments of `author`: anyone may write the marker. Copies
    are deleted. With `skip_new` nothing is posted where nothing stood before.
    """
    mark = body.partition("\n")[0]
    mine = [
        comment
        for comment in github.pages(f"/issues/{pull}/comments")
        if (comment.get("user") or {}).get("login") == author
        and str(comment.get("body", "")).startswith(mark)
    ]
    for copy in mine[1:]:
        github.send("DELETE", f"/issues/comments/{copy['id']}", missing_ok=True)
    if mine:
        if mine[0].get("body") == body:
            return "unchanged"
        github.send("PATCH", f"/issues/comments/{mine[0]['id']}", body={"body": body})
        return "updated"
    if skip_new:
        return "skipped"
    github.send("POST", f"/issues/{pull}/comments", body={"body": body})
    return "created"


def set_labels(github: GitHub, pull: int, labels: Iterable[str]) -> None:
    """Makes the pull request's `iac/` labels exactly `labels`; others are left alone."""
    wanted = set(labels)
    there = {
        str(label["name"])
        for label in github.pages(f"/issues/{pull}/labels")
        if str(label.get("name", "")).startswith(LABEL_PREFIX)
    }
    for name in sorted(there - wanted):
        github.send("DELETE", f"/issues/{pull}/labels/{name.replace('/', '%2F')}", missing_ok=True)
    if missing := sorted(wanted - there):
        github.send("POST", f"/issues/{pull}/labels", body={"labels": missing})

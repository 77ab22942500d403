"""Overrides given as pull-request labels: only those an owner put there count."""

from collections.abc import Collection
from dataclasses import dataclass

from ops.gate.overrides import PREFIX
from ops.github import GitHub


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels that count, and what is said of those that do not."""

    valid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def owners_labels(github: GitHub, pull: int, owners: Collection[str]) -> Labels:
    """The pull request's override labels whose latest giver is one of `owners`.

    Labels can be set by anyone with triage rights, so the giver is read from the event log.
    """
    wanted = {
        name
        for label in github.pages(f"/issues/{pull}/labels")
        if (name := str(label.get("name", ""))).startswith(PREFIX)
    }
    if not wanted:
        return Labels()
    givers: dict[str, str] = {}
    for event in github.pages(f"/issues/{pull}/events"):
        given = (event.get("label") or {}).get("name")
        if event.get("event") == "labeled" and given in wanted:
            givers[given] = str((event.get("actor") or {}).get("login", ""))
    known = {owner.lower() for owner in owners}
    valid = {name for name in wanted if givers.get(name, "").lower() in known}
    notes = [
        f"label {name} does not count: {givers.get(name) or 'its giver'} is not in "
        "overrideOwners of ops/gate/gates.yaml"
        for name in sorted(wanted - valid)
    ]
    return Labels(valid=tuple(sorted(valid)), notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The pull request a commit on the main branch came from."""

    pull: int
    head: str


def origin(github: GitHub, commit: str) -> Origin | None:
    """The pull request whose reviewed head has the same files as `commit`; None otherwise.

    A squash or merge makes a new commit. It stands for the reviewed one only if their trees are
    equal, that is if the base had not moved in between.
    """
    tree = _tree(github, commit)
    if tree is None:
        return None
    for pull in github.pages(f"/commits/{commit}/pulls"):
        head = str((pull.get("head") or {}).get("sha", ""))
        if head and pull.get("merged_at") and _tree(github, head) == tree:
            return Origin(pull=int(pull["number"]), head=head)
    return None


def _tree(github: GitHub, commit: str) -> str | None:
    found = github.send("GET", f"/git/commits/{commit}", missing_ok=True)
    return found["tree"]["sha"] if found else None

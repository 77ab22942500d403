"""Which overrides are at hand, and which commits they may name."""

from collections.abc import Sequence
from dataclasses import dataclass

from ops.gate.labels import Labels, origin, owners_labels
from ops.gate.overrides import check_commit
from ops.gate.settings import Settings
from ops.github import GitHub


@dataclass(frozen=True, kw_only=True)
class Said:
    """Overrides given, the commits this plan stands for (its own first), and notes."""

    commits: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def gather(
    settings: Settings,
    *,
    commit: str,
    words: Sequence[str],
    repository: str = "",
    pull: int | None = None,
    token: str = "",
) -> Said:
    """Given words and, with a repository, the owners' labels of the pull request.

    Without `pull` it is the one `commit` was merged from, if the merge changed nothing. Without
    `commit` nothing can be overridden. ValueError for a shortened commit id.
    """
    if not commit:
        return Said(words=tuple(words))
    commits = [check_commit(commit)]
    labels = Labels()
    if repository:
        github = GitHub.open(repository, token)
        if pull is None and (found := origin(github, commit)):
            pull = found.pull
            commits.append(found.head)
        if pull is not None:
            labels = owners_labels(github, pull, settings.override_owners)
    return Said(commits=tuple(commits), words=(*words, *labels.valid), notes=labels.notes)

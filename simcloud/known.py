"""What the simulated cloud knows by name, in both halves."""

from __future__ import annotations

from simcloud.gcp import types
from simcloud.kubernetes import kinds


def known_types() -> frozenset[str]:
    """Every type by its token and by its last part, the kinds GKE installs by that alone."""
    tokens = {*types.known_types(), *kinds.known_types()}
    names = {token.rpartition(":")[2] for token in tokens}
    return frozenset(tokens | names | kinds.installable_by_gke())

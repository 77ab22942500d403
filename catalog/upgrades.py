"""How a TPU pool is upgraded: TPU machines never migrate live, and spare hosts are rare."""

from dataclasses import dataclass

from catalog.accelerators import Slice

MOST_AT_ONCE = 20
"""max_surge and max_unavailable together (provider documentation of upgrade_settings)."""


@dataclass(frozen=True, kw_only=True)
class Surge:
    """Nodes added beyond a pool's size, and nodes taken away at once, during an upgrade."""

    max_surge: int
    max_unavailable: int


def surge(shape: Slice, *, reserved: bool) -> Surge:
    """A reservation has no spare host; the hosts of one slice go down together.

    Docs "Schedule dynamic slices with Kueue and TAS" take a whole cube at once;
    cluster-toolkit's gke-node-pool module takes one host after the other.
    """
    if shape.multi_host:
        return Surge(max_surge=0, max_unavailable=min(shape.hosts, MOST_AT_ONCE))
    if reserved:
        return Surge(max_surge=0, max_unavailable=1)
    return Surge(max_surge=1, max_unavailable=0)

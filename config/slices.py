"""Slices that a stack's served models hold, and cheaper ones that would do."""

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.accelerators import SUB_CUBE, format_topology
from catalog.disaggregated import ROLES
from catalog.packing import Wanted
from catalog.partitions import slice_of
from catalog.sizing import COMFORTABLE_SHARE
from config.serving import Disaggregated, ServedModel, disaggregated


def wanted(serving: Mapping[str, ServedModel]) -> list[Wanted]:
    """Every slice of every group, and what is kept free beside them."""
    found = []
    for key, said in disaggregated(dict(serving)).items():
        for role in ROLES:
            found.append(
                Wanted(purpose=f"{key} {role}", shape=said.slice, count=said.role(role).replicas)
            )
        if said.spare_slices:
            found.append(Wanted(purpose=f"{key} spare", shape=said.slice, count=said.spare_slices))
    return found


@dataclass(frozen=True, kw_only=True)
class Cheaper:
    """A smaller slice on which a model still has room."""

    shape: str
    chips: int
    tensor_parallel: int
    weights_share: float
    chips_saved: int
    """Over all groups."""


def cheaper(said: Disaggregated) -> Cheaper | None:
    """The smallest shape that holds the model in comfort, when it is smaller than the one said."""
    now = slice_of(said.slice)
    for topology in sorted(SUB_CUBE, key=lambda each: slice_of(format_topology(each)).chips):
        of = slice_of(format_topology(topology))
        if of.chips >= now.chips:
            return None
        found = said.model_copy(update={"tensor_parallel": None}).fit(of)
        if found.fits and found.weights_share <= COMFORTABLE_SHARE:
            return Cheaper(
                shape=of.shape,
                chips=of.chips,
                tensor_parallel=found.tensor_parallel,
                weights_share=found.weights_share,
                chips_saved=(now.chips - of.chips) * said.groups,
            )
    return None

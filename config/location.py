"""Where the stack stands."""

from typing import Annotated

from pydantic import Field

from catalog.zones import NAMES
from config.fields import Section, matching

Zone = Annotated[
    str,
    matching(
        r"[a-z]+-[a-z]+\d+-(ai\d+)?[a-z]",
        "a zone is named like us-central1-b, an AI zone like us-central1-ai1a",
        NAMES,
    ),
]
Region = Annotated[str, matching(r"[a-z]+-[a-z]+\d+", "a region is named like us-central1", NAMES)]


class Location(Section):
    """The region of the control plane, the zone of the TPUs, the zones of everything else."""

    region: Region
    """Of the control plane, the network and everything stored."""
    zone: Zone
    """Of the TPU nodes; may be an AI zone."""
    system_zones: tuple[Zone, ...] = Field(min_length=1)
    """Of all other nodes; standard zones of the region."""

"""Zones: their names, and which generations Google documents in which.

Lists age fast and say nothing of capacity, so an unlisted zone is a warning, never an error.
"""

import re

from catalog.source import docs

REGIONS_ZONES = docs("TPU regions and zones", firm=False)
AI_ZONES = docs("About AI zones")
NAMES = docs("Regions and zones")

_FORM = re.compile(r"([a-z]+-[a-z]+\d+)-(ai\d+)?([a-z])")

DOCUMENTED = {
    "v5e": ("us-central1-a", "us-south1-a", "us-west1-c", "us-west4-a", "europe-west4-b"),
    "v5p": ("us-central1-a", "us-east5-a", "europe-west4-b"),
    "v6e": (
        "us-central1-b",
        "us-east1-d",
        "us-east5-a",
        "us-east5-b",
        "europe-west4-a",
        "asia-northeast1-b",
        "southamerica-west1-a",
        "us-south1-ai1b",
    ),
    "tpu7x": ("us-central1-c", "us-central1-ai1a"),
}
"""Zones of the docs' table by accelerator."""


def region_of(zone: str) -> str | None:
    """The region a zone lies in; None when `zone` is no zone name."""
    match = _FORM.fullmatch(zone)
    return match.group(1) if match else None


def is_ai_zone(zone: str) -> bool:
    """AI zones are hidden until a preview feature shows them, and are for accelerators only."""
    match = _FORM.fullmatch(zone)
    return bool(match and match.group(2))

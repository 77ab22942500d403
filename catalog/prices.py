"""List prices of TPU capacity in USD per chip and hour. Unknown stays unknown.

From skypilot-org/skypilot-catalog `catalogs/v8/gcp/vms.csv` 006059e and SkyPilot's unit-test
data for TPU7x; Google's own price page was not read in a current version.
"""

from dataclasses import dataclass

from catalog.source import READ, Source

CATALOG = Source("skypilot-org/skypilot-catalog v8 gcp/vms.csv 006059e", READ)
TESTS = Source("skypilot-org/skypilot unit-test data", READ, firm=False)

HOURS_PER_MONTH = 730


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a chip costs for an hour; `assumed` when it stands in for a price nobody published."""

    usd_per_chip_hour: float
    source: Source
    assumed: bool = False


_ON_DEMAND: dict[str, dict[str, float]] = {
    "v5p": {"us-central1": 4.20, "us-east5": 4.20, "europe-west4": 4.20},
    "v6e": {
        "us-central1": 2.70,
        "us-east1": 2.70,
        "us-east4": 2.70,
        "us-east5": 2.70,
        "us-south1": 2.70,
        "us-west1": 2.70,
        "europe-west4": 2.97,
        "asia-southeast1": 2.97,
        "asia-northeast1": 3.24,
        "asia-south1": 3.24,
    },
}
_SPOT: dict[str, dict[str, float]] = {
    "v5p": {"us-central1": 0.84, "us-east5": 1.68},
    "v6e": {
        "us-central1": 0.54,
        "us-east1": 0.54,
        "us-west1": 0.54,
        "us-east4": 0.58,
        "us-east5": 1.22,
        "us-south1": 1.35,
    },
}
_TPU7X_ON_DEMAND = 12.00


def price(accelerator: str, region: str, capacity: str) -> Price | None:
    """The price for a capacity kind (`on-demand`, `spot`, `reservation`, `flex-start`) or None.

    A reservation is priced at the on-demand list price, an upper bound: commitments are private.
    """
    if capacity == "spot":
        found = _SPOT.get(accelerator, {}).get(region)
        return None if found is None else Price(usd_per_chip_hour=found, source=CATALOG)
    if capacity not in ("on-demand", "reservation"):
        return None
    if accelerator == "tpu7x":
        return Price(usd_per_chip_hour=_TPU7X_ON_DEMAND, source=TESTS, assumed=True)
    found = _ON_DEMAND.get(accelerator, {}).get(region)
    if found is None:
        return None
    return Price(usd_per_chip_hour=found, source=CATALOG, assumed=capacity == "reservation")

"""Settings every test runs under."""

import gc
import os

import pytest

# Without it `f"{output}"` quietly becomes an error text; with it the program fails.
os.environ["PULUMI_ERROR_OUTPUT_STRING"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: nothing but one of them would run at the end, on one core."""
    items.sort(
        key=lambda item: (
            item.get_closest_marker("engine") is None and item.path.name != "test_knobs.py"
        )
    )


def pytest_collection_finish() -> None:
    """Spare the collector what imports left for good: a third of the time of a recorded graph."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)

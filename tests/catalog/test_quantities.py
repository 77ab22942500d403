"""The spelling an API server would give back."""

import pytest

from catalog.quantities import amount, canonical


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("30720Gi", "30Ti"),
        ("960Gi", "960Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("0.0005", "1m"),
        ("7168", "7168"),
        ("1000", "1k"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("64G", "64G"),
        ("0Gi", "0"),
        ("0", "0"),
    ],
)
def test_a_quantity_is_spelled_as_the_server_spells_it(written: str, read: str) -> None:
    assert canonical(written) == read
    assert canonical(read) == read


def test_quantities_compare_as_numbers() -> None:
    words = ["1m", "500m", "1", "1k", "1Ki", "1M", "1Mi", "1.5Gi", "2Gi"]
    numbers = [amount(each) for each in words]
    assert numbers == sorted(numbers)
    assert amount("2000m") == amount("2")
    assert amount("1024Mi") == amount("1Gi")


@pytest.mark.parametrize("text", ["", "64 GB", "1K", "Gi", "-1", "1.Gi", "1e3"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity such as"):
        canonical(text)

"""The configuration reference is what the schema says today."""

from config.reference import PAGE, render


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == render(), "run: python -m config.reference"

"""The written catalogue is the rules."""

import catalogue
from rules import RULES


def test_the_committed_catalogue_is_fresh() -> None:
    assert catalogue.TARGET.read_text() == catalogue.render(), (
        "run: python policies/catalogue.py --write"
    )


def test_every_rule_has_a_row() -> None:
    text = catalogue.render()
    assert [rule.id for rule in RULES if f"| [{rule.id}](" not in text] == []

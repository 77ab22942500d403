"""Hours that a weekly window keeps beside freezes."""

from datetime import date, time

import pytest

from catalog.maintenance import Calendar

WEEKEND = frozenset({5, 6})
EVERY_DAY = frozenset(range(7))
MONDAY = date(2026, 12, 7)


def _least(weekdays: frozenset[int], start: int, hours: int, *freezes: tuple[date, date]) -> float:
    calendar = Calendar(weekdays=weekdays, start=time(start), hours=hours, freezes=freezes)
    return calendar.least_hours(32)[0]


@pytest.mark.parametrize(
    ("weekdays", "hours", "least"),
    [
        (frozenset({6}), 6, 4 * 6),
        (WEEKEND, 6, 8 * 6),
        (EVERY_DAY, 24, 32 * 24),
        (EVERY_DAY, 3, 0),
    ],
)
def test_without_freezes_the_poorest_span_counts(
    weekdays: frozenset[int], hours: int, least: float
) -> None:
    assert _least(weekdays, 3, hours) == least


def test_a_freeze_takes_its_days_and_says_where_it_hurts() -> None:
    freeze = (MONDAY, date(2026, 12, 21))
    calendar = Calendar(weekdays=WEEKEND, start=time(3), hours=6, freezes=[freeze])
    hours, begins = calendar.least_hours(32)
    assert hours == (8 - 4) * 6
    assert begins <= freeze[0]


def test_a_window_cut_at_midnight_counts_while_four_hours_are_left() -> None:
    tuesday = (date(2026, 12, 8), date(2026, 12, 9))
    whole = _least(frozenset({0}), 20, 8)
    assert whole == 4 * 8
    assert _least(frozenset({0}), 20, 8, tuesday) == whole - 4
    assert _least(frozenset({0}), 21, 8, tuesday) == whole - 8

"""Time that windows and freezes leave for upgrades."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta

SHORTEST_WINDOW = 4
"""Hours in a row below which GKE does not count a window."""

DAY = timedelta(days=1)
ANY_DAY = date(2024, 1, 1)
"""From where the days of a calendar without freezes are counted."""


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """A weekly window and the whole days, last one excluded, on which nothing is upgraded."""

    weekdays: frozenset[int]
    """Monday is 0."""
    start: time
    hours: int
    freezes: Sequence[tuple[date, date]] = ()

    def least_hours(self, days: int) -> tuple[float, date]:
        """The fewest hours for upgrades in any span of so many days, and where that span begins."""
        around = self.freezes or [(ANY_DAY, ANY_DAY + 7 * DAY)]
        return min(
            (least for freeze in around for least in self._least(freeze, days)),
            key=lambda found: found[0],
        )

    def _least(self, freeze: tuple[date, date], days: int) -> Iterator[tuple[float, date]]:
        first, last = freeze[0] - days * DAY, freeze[1] + days * DAY
        free = [self._free(first + each * DAY) for each in range((last - first).days)]
        total = sum(free[:days])
        yield total, first
        for each in range(len(free) - days):
            total += free[each + days] - free[each]
            yield total, first + (each + 1) * DAY

    def _free(self, day: date) -> float:
        """Hours of the window that begins on `day`, less what freezes take of them."""
        if day.weekday() not in self.weekdays:
            return 0
        until_midnight = min(self.hours, 24 - self.start.hour - self.start.minute / 60)
        before = 0 if self._frozen(day) else until_midnight
        after = 0 if self._frozen(day + DAY) else self.hours - until_midnight
        pieces = [before + after] if before and after else [before, after]
        return sum(each for each in pieces if each >= SHORTEST_WINDOW)

    def _frozen(self, day: date) -> bool:
        return any(first <= day < last for first, last in self.freezes)

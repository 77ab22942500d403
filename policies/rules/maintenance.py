"""When Google may work on the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from rules import facts, links
from rules.kinds import (
    CLUSTER,
)
from rules.model import DROP, Guard, Node, Resource, Setting, Severity, rule


def _time(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


def _today(settings: dict[str, Any]) -> datetime:
    return _time(settings["today"]) or datetime.now(UTC)


_WEEKDAYS = re.compile(r"BYDAY=([A-Z,0-9+-]+)")


def _windows_in_period(recurrence: str) -> int | None:
    """How often a recurrence comes round in the period GKE looks at; None when it is unreadable."""
    fields = dict(part.split("=", 1) for part in recurrence.split(";") if "=" in part)
    every = (
        int(fields["INTERVAL"])
        if fields.get("INTERVAL", "1").isdigit() and "INTERVAL" in fields
        else 1
    )
    days = len(fields["BYDAY"].split(",")) if fields.get("BYDAY") else 1
    frequency = fields.get("FREQ")
    if frequency == "DAILY":
        return facts.MAINTENANCE_PERIOD_DAYS // every
    if frequency == "WEEKLY":
        return facts.MAINTENANCE_PERIOD_DAYS // (7 * every) * days
    if frequency == "MONTHLY":
        return facts.MAINTENANCE_PERIOD_DAYS // (31 * every) * days
    return None


@rule(
    "TPU-15",
    "Maintenance comes in one window, wide enough.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Set one of dailyMaintenanceWindow, recurringWindow or recurringMaintenanceWindow.",
    url=links.MAINTENANCE,
    guards=[
        Guard("maintenancePolicy", DROP),
        Guard(
            "maintenancePolicy",
            lambda m: {k: v for k, v in (m or {}).items() if "Window" not in k},
        ),
        Guard(
            "maintenancePolicy.recurringWindow",
            {
                "startTime": "2026-01-03T02:00:00Z",
                "endTime": "2026-01-03T03:00:00Z",
                "recurrence": "FREQ=WEEKLY;BYDAY=SA",
            },
            when=lambda c: c.has("maintenancePolicy.recurringWindow"),
        ),
    ],
)
def one_window(cluster: Resource) -> Iterator[str]:
    policy = cluster.node("maintenancePolicy")
    kinds = ("dailyMaintenanceWindow", "recurringWindow", "recurringMaintenanceWindow")
    used = [kind for kind in kinds if policy.has(kind)]
    if len(used) != 1:
        yield f"{policy.at()} has {len(used)} windows ({', '.join(used) or 'none'}): set one"
    window = policy.node("recurringWindow")
    if window.value is None:
        return
    start, end = _time(window.text("startTime")), _time(window.text("endTime"))
    if start is None or end is None or end <= start:
        yield f"{window.at()} needs startTime before endTime, in RFC 3339 with Z"
        return
    often = _windows_in_period(window.text("recurrence") or "")
    if often is None:
        yield f"{window.at('recurrence')} is not DAILY, WEEKLY or MONTHLY"
    elif often * (end - start) < timedelta(hours=facts.MAINTENANCE_HOURS):
        yield (
            f"{window.at()} gives {often * (end - start) / timedelta(hours=1):.0f} h in "
            f"{facts.MAINTENANCE_PERIOD_DAYS} days, GKE asks for {facts.MAINTENANCE_HOURS}: "
            "widen it"
        )


@rule(
    "TPU-16",
    "Maintenance exclusions lie ahead and within their limits.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    fix="Move the exclusion, or end it with UNTIL_END_OF_SUPPORT.",
    url=links.MAINTENANCE,
    settings={
        "today": Setting("string", "", "the day to judge by, RFC 3339; empty is now"),
        "warnDays": Setting("integer", 14, "days before its end an exclusion is reported"),
    },
    guards=[
        Guard(
            ("maintenancePolicy", "maintenanceExclusions"),
            [
                {
                    "exclusionName": "past",
                    "startTime": "2020-01-01T00:00:00Z",
                    "endTime": "2020-02-01T00:00:00Z",
                    "exclusionOptions": {"scope": "NO_UPGRADES"},
                }
            ],
        ),
    ],
)
def exclusions_alive(cluster: Resource, settings: dict[str, Any]) -> Iterator[str]:
    now = _today(settings)
    exclusions = cluster.each("maintenancePolicy.maintenanceExclusions")
    full = 0
    for exclusion in exclusions:
        scope = exclusion.text("exclusionOptions.scope") or "NO_UPGRADES"
        full += scope == "NO_UPGRADES"
        yield from _exclusion(exclusion, scope, now, settings["warnDays"])
    if full > facts.NO_UPGRADES_MAX_COUNT:
        yield f"{full} NO_UPGRADES exclusions: GKE takes {facts.NO_UPGRADES_MAX_COUNT}"


def _exclusion(exclusion: Node, scope: str, now: datetime, warn_days: int) -> Iterator[str]:
    until_support = exclusion.text("exclusionOptions.endTimeBehavior") == "UNTIL_END_OF_SUPPORT"
    start, end = _time(exclusion.text("startTime")), _time(exclusion.text("endTime"))
    for field in ("startTime", "endTime"):
        text = exclusion.text(field)
        if text and not text.endswith("Z"):
            yield f"{exclusion.at(field)} is not UTC with Z: GKE answers in UTC and shows a change"
    if until_support:
        return
    if start is None or end is None or end <= start:
        yield f"{exclusion.at()} needs startTime before endTime, in RFC 3339 with Z"
        return
    if end < now:
        yield f"{exclusion.at('endTime')} is past ({end:%Y-%m-%d}): it protects nothing; move it"
    elif end < now + timedelta(days=warn_days):
        yield f"{exclusion.at('endTime')} is near ({end:%Y-%m-%d}): plan what comes after"
    if scope == "NO_UPGRADES" and end - start > timedelta(days=facts.NO_UPGRADES_MAX_DAYS):
        yield (
            f"{exclusion.at()} lasts {(end - start).days} days: NO_UPGRADES takes at most "
            f"{facts.NO_UPGRADES_MAX_DAYS}"
        )


RULES = [
    one_window,
    exclusions_alive,
]

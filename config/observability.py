"""Who hears of trouble, and when."""

from typing import Annotated

from pydantic import Field

from catalog.source import docs
from config.fields import Count, ResourceName, Section, matching

CHANNELS = docs("Create and manage notification channels")

Email = Annotated[
    str, matching(r"[^@\s]+@[^@\s]+\.[^@\s.]+", "an address is written name@domain", CHANNELS)
]

Channel = Annotated[
    str,
    matching(
        r"projects/[^/]+/notificationChannels/\d+",
        "a channel is named projects/PROJECT/notificationChannels/NUMBER",
        CHANNELS,
    ),
]


class Observability(Section):
    """Alerts go to these; the dashboard is made either way."""

    emails: dict[ResourceName, Email] = Field(default_factory=dict)
    """Addresses by a name of your choice; a channel is made for each."""
    channels: tuple[Channel, ...] = ()
    """Existing channels: PagerDuty, Slack and others need a consent that no API gives."""
    queue_alert: Count = 50
    """Waiting requests of one model, growing for ten minutes, that somebody shall look at."""

    @property
    def notifies(self) -> bool:
        return bool(self.emails or self.channels)

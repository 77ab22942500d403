"""The GKE cluster: version, upkeep, access, and the nodes of everything that is not a TPU."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from catalog.machines import FORM, MACHINE_FAMILIES
from catalog.source import docs
from catalog.versions import AUTOSCALING_METRIC, GkeVersion
from config.fields import Cidr, Count, ResourceName, Section, Whole, broken, matching

WINDOWS = docs("Maintenance windows and exclusions")

Day = Literal["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
WEEK = get_args(Day)

Scope = Literal["NO_UPGRADES", "NO_MINOR_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES"]

LONGEST_EXCLUSION = 3650
"""Days. No version is supported for as long; without `days` it lasts until that ends."""

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")

_ANCHOR = date(2024, 1, 1)
"""A Monday: the day a weekly window counts from, fixed so that the plan never moves."""


def _full_version(text: str) -> str:
    try:
        GkeVersion.parse(text)
    except ValueError as error:
        raise broken(
            f"a full version, to be compared with the floors of features: {error}",
            fix="list them with: gcloud container get-server-config --region REGION",
            source=docs("GKE release schedule"),
        ) from None
    return text


def _plain_day(value: Any) -> Any:
    # The CLI hands an unquoted YAML date over as Go prints a time: 2026-12-01 00:00:00 +0000 UTC.
    return value.removesuffix(" 00:00:00 +0000 UTC") if isinstance(value, str) else value


CalendarDay = Annotated[date, Field(lt=date(3000, 1, 1)), BeforeValidator(_plain_day)]


Machine = Annotated[
    str, matching(FORM, "a machine type is named like e2-standard-8", MACHINE_FAMILIES)
]


def _clock(value: Any) -> Any:
    if isinstance(value, time):
        return value
    if not isinstance(value, str) or not _CLOCK.fullmatch(value):
        raise broken(
            "a time of day in UTC as HH:MM or HH:MM:SS", fix='write it as "22:00"', source=WINDOWS
        )
    return value


ClockTime = Annotated[time, BeforeValidator(_clock)]


class MaintenanceWindow(Section):
    """A weekly window, in UTC, in which GKE may upgrade."""

    days: tuple[Day, ...] = Field(default=("SA", "SU"), min_length=1)
    start: ClockTime = time(3)
    hours: Annotated[Whole, Field(ge=4, le=24)] = 6
    """GKE counts only windows of at least four hours."""

    @property
    def recurrence(self) -> str:
        return f"FREQ=WEEKLY;BYDAY={','.join(self.days)}"

    @property
    def starts(self) -> datetime:
        return datetime.combine(_ANCHOR, self.start, UTC)

    @property
    def ends(self) -> datetime:
        return self.starts + timedelta(hours=self.hours)


class Exclusion(Section):
    """A time without upgrades: a number of days, or until the version's end of support."""

    scope: Scope
    """NO_UPGRADES lasts at most 90 days; the others may last until end of support."""
    start: CalendarDay = Field(alias="from")
    days: Annotated[Whole, Field(ge=1, le=LONGEST_EXCLUSION)] | None = None
    """Without it the exclusion lasts until end of support."""

    @property
    def starts(self) -> datetime:
        return datetime.combine(self.start, time(), UTC)

    @property
    def ends(self) -> datetime | None:
        """None when it lasts until end of support."""
        return None if self.days is None else self.starts + timedelta(days=self.days)


class Maintenance(Section):
    """When GKE may upgrade, and when it may not."""

    window: MaintenanceWindow = MaintenanceWindow()
    exclusions: dict[ResourceName, Exclusion] = Field(default_factory=dict)


class Access(Section):
    """Who reaches the control plane: the DNS endpoint asks IAM, addresses are off by default."""

    external: bool = True
    """Whether the DNS endpoint answers outside Google Cloud."""
    authorized_networks: dict[ResourceName, Cidr] = Field(default_factory=dict)
    """Ranges that may use the control plane's addresses; any turns those addresses on."""


class SystemPool(Section):
    """Nodes for operators, gateways and jobs without accelerators; counts are for all zones."""

    machine: Machine = "e2-standard-8"
    """Any x86 machine type without accelerators; the kind of boot disk follows from it."""
    min: Count = 2
    max: Count = 6

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise broken(
                f"min {self.min} is above max {self.max}",
                fix=f"raise max to {self.min}",
                source=docs("About GKE cluster autoscaling"),
            )
        return self


class Cluster(Section):
    """A regional GKE cluster."""

    mode: Literal["standard", "autopilot"] = "standard"
    """In Autopilot GKE makes the nodes, and `tpuPools` says what pods ask for."""
    channel: Literal["RAPID", "REGULAR", "STABLE", "EXTENDED"]
    """Release channel; dynamic slicing lives on RAPID."""
    version: Annotated[str, AfterValidator(_full_version)]
    """Lowest version of the control plane, in full; compared with the floor of each feature."""
    maintenance: Maintenance = Maintenance()
    access: Access = Access()
    system_pool: SystemPool = SystemPool()
    extra: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the provider's Cluster that this schema does not model, in snake case."""

    @property
    def autopilot(self) -> bool:
        return self.mode == "autopilot"

    @property
    def hands_over_metrics(self) -> bool:
        """Whether GKE reads pods' metrics for autoscalers; else an adapter does."""
        floor = AUTOSCALING_METRIC.version
        return self.channel == "RAPID" and GkeVersion.parse(self.version) >= floor

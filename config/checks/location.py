"""Rules on regions and zones."""

from collections.abc import Iterator

from catalog.zones import AI_ZONES, DOCUMENTED, NAMES, REGIONS_ZONES, is_ai_zone, region_of
from config.location import Location
from config.problem import Problem, named_twice
from config.tpu_pools import TpuPool

PATH = "tpuserve:location"


def zones_lie_in_the_region(location: Location) -> Iterator[Problem]:
    named = {f"{PATH}.zone": location.zone} | {
        f"{PATH}.systemZones[{index}]": zone for index, zone in enumerate(location.system_zones)
    }
    for path, zone in named.items():
        if region_of(zone) != location.region:
            yield Problem(
                path=path,
                value=zone,
                rule=f"lies in region {region_of(zone)}, the stack in {location.region}",
                fix=f"name a zone of {location.region}, or set region: {region_of(zone)}",
                source=NAMES,
            )


def system_nodes_stay_out_of_ai_zones(location: Location) -> Iterator[Problem]:
    for index, zone in enumerate(location.system_zones):
        if is_ai_zone(zone):
            yield Problem(
                path=f"{PATH}.systemZones[{index}]",
                value=zone,
                rule="an AI zone takes nodes without accelerators only beside running TPU work",
                fix=f"name standard zones of {location.region}, its -a, -b, -c",
                source=AI_ZONES,
            )


def system_zones_are_distinct(location: Location) -> Iterator[Problem]:
    yield from named_twice(f"{PATH}.systemZones", location.system_zones, NAMES)


def the_zone_offers_the_accelerators(
    location: Location, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for accelerator in sorted({pool.accelerator for pool in tpu_pools.values()}):
        if location.zone not in DOCUMENTED[accelerator]:
            yield Problem(
                path=f"{PATH}.zone",
                value=location.zone,
                rule=f"the documentation does not list {accelerator} there",
                fix=f"known: {', '.join(DOCUMENTED[accelerator])}; or ask "
                f"`gcloud compute machine-types list --zones={location.zone}`",
                source=REGIONS_ZONES,
                severity="warning",
            )


CHECKS = (
    zones_lie_in_the_region,
    system_nodes_stay_out_of_ai_zones,
    system_zones_are_distinct,
    the_zone_offers_the_accelerators,
)

"""Version floors, zones, prices and addresses."""

from datetime import date
from ipaddress import IPv4Network

import pytest

from catalog import prices, versions
from catalog.accelerators import ACCELERATORS, TPU7X, V6E, slices
from catalog.addresses import addresses_per_node, pod_addresses, tpu_pods_per_node
from catalog.upgrades import MOST_AT_ONCE, surge
from catalog.versions import GkeVersion
from catalog.zones import DOCUMENTED, is_ai_zone, region_of


def test_versions_are_ordered_by_patch_before_build() -> None:
    rising = ["1.35.2-gke.1842000", "1.36.0-gke.2459000", "1.36.0-gke.3712000", "1.36.1-gke.1"]
    shuffled = [GkeVersion.parse(rising[index]) for index in (2, 0, 3, 1)]
    assert [str(each) for each in sorted(shuffled)] == rising


@pytest.mark.parametrize("text", ["1.36", "1.36.0", "latest", "1.36.0-gke", "v1.36.0-gke.1"])
def test_a_version_that_cannot_be_compared_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a full GKE version"):
        GkeVersion.parse(text)


def test_every_floor_has_a_source_and_a_date() -> None:
    bare = [each.feature for each in versions.ALL if not each.source.text]
    assert bare == []
    assert {each.source.read for each in versions.ALL} <= {date(2026, 8, 31)}


def test_the_codelabs_version_is_below_the_floor_of_sub_slicing_only() -> None:
    codelab = GkeVersion.parse("1.36.0-gke.2459000")
    assert codelab < versions.SUB_SLICING.version
    assert codelab > versions.SUPER_SLICING.version


def test_every_accelerator_has_a_floor_and_zones_that_are_zones() -> None:
    assert set(versions.NODE_FLOORS) == set(DOCUMENTED) == set(ACCELERATORS)
    wrong = [zone for zones in DOCUMENTED.values() for zone in zones if region_of(zone) is None]
    assert wrong == []


@pytest.mark.parametrize(
    ("zone", "region", "ai"),
    [
        ("us-central1-b", "us-central1", False),
        ("us-central1-ai1a", "us-central1", True),
        ("southamerica-west1-a", "southamerica-west1", False),
        ("us-central1", None, False),
        ("us-central1-ai1", None, False),
    ],
)
def test_a_zone_tells_its_region(zone: str, region: str | None, ai: bool) -> None:
    assert (region_of(zone), is_ai_zone(zone)) == (region, ai)


def test_known_prices_are_the_published_ones() -> None:
    trillium = prices.price("v6e", "us-central1", "spot")
    ironwood = prices.price("tpu7x", "us-central1", "reservation")
    assert trillium is not None
    assert ironwood is not None
    assert (trillium.usd_per_chip_hour, trillium.assumed) == (0.54, False)
    assert (ironwood.usd_per_chip_hour * 4, ironwood.assumed) == (48.0, True)


@pytest.mark.parametrize(
    ("accelerator", "region", "capacity"),
    [
        ("v5e", "us-central1", "on-demand"),
        ("tpu7x", "us-central1", "spot"),
        ("v6e", "mars-north1", "on-demand"),
        ("v6e", "us-central1", "flex-start"),
    ],
)
def test_an_unknown_price_stays_unknown(accelerator: str, region: str, capacity: str) -> None:
    assert prices.price(accelerator, region, capacity) is None


@pytest.mark.parametrize(
    ("pods", "addresses"),
    [(8, 16), (9, 32), (15, 32), (16, 32), (17, 64), (32, 64), (64, 128), (65, 256), (110, 256)],
)
def test_a_node_takes_twice_its_pods_as_a_power_of_two(pods: int, addresses: int) -> None:
    assert addresses_per_node(pods) == addresses


@pytest.mark.parametrize(("prefix", "nodes"), [(18, 64), (17, 128), (16, 256), (14, 1024)])
def test_a_pod_range_holds_the_nodes_of_googles_table(prefix: int, nodes: int) -> None:
    assert pod_addresses(nodes, 110) == IPv4Network(f"10.0.0.0/{prefix}").num_addresses


@pytest.mark.parametrize(("prefix", "limit"), [(12, 32), (13, 32), (14, 16), (15, 16), (20, 16)])
def test_the_pod_limit_leaves_room_for_a_whole_block(prefix: int, limit: int) -> None:
    (cube,) = slices(TPU7X, (4, 4, 4))
    assert tpu_pods_per_node(IPv4Network(f"10.0.0.0/{prefix}"), cube) == limit


def test_an_upgrade_never_asks_a_reservation_for_spare_hosts() -> None:
    (cube,) = slices(TPU7X, (4, 4, 4))
    (host,) = (each for each in slices(V6E, (2, 4)) if not each.multi_host)
    whole = surge(cube, reserved=True)
    assert (whole.max_surge, whole.max_unavailable) == (0, 16)
    assert surge(host, reserved=True).max_surge == 0
    assert surge(host, reserved=False).max_surge == 1
    (large,) = slices(TPU7X, (8, 8, 8))
    assert surge(large, reserved=True).max_unavailable == MOST_AT_ONCE

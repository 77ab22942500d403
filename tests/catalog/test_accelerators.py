"""Slices by rule: checked against rows of Google's tables and the counts xpk derives."""

import math

import pytest

from catalog.accelerators import (
    ACCELERATORS,
    MACHINES,
    TPU7X,
    V5E,
    V5P,
    V6E,
    Accelerator,
    format_topology,
    parse_topology,
    slices,
    topologies,
    why_illegal,
)


def _hosts(accelerator: Accelerator, topology: str) -> dict[str, int]:
    return {each.machine.name: each.hosts for each in slices(accelerator, parse_topology(topology))}


@pytest.mark.parametrize(
    ("accelerator", "topology", "hosts"),
    [
        (V6E, "1x1", {"ct6e-standard-1t": 1}),
        (V6E, "2x2", {"ct6e-standard-4t": 1}),
        (V6E, "2x4", {"ct6e-standard-4t": 2, "ct6e-standard-8t": 1}),
        (V6E, "4x4", {"ct6e-standard-4t": 4}),
        (V6E, "4x8", {"ct6e-standard-4t": 8}),
        (V6E, "8x8", {"ct6e-standard-4t": 16}),
        (V6E, "8x16", {"ct6e-standard-4t": 32}),
        (V6E, "16x16", {"ct6e-standard-4t": 64}),
        (V5E, "2x4", {"ct5lp-hightpu-4t": 2, "ct5lp-hightpu-8t": 1}),
        (V5P, "2x2x1", {"ct5p-hightpu-4t": 1}),
        (V5P, "4x4x4", {"ct5p-hightpu-4t": 16}),
        (TPU7X, "1x1x1", {"tpu7x-standard-1t": 1}),
        (TPU7X, "2x2x1", {"tpu7x-standard-4t": 1}),
        (TPU7X, "2x2x2", {"tpu7x-standard-4t": 2}),
        (TPU7X, "2x2x4", {"tpu7x-standard-4t": 4}),
        (TPU7X, "2x4x4", {"tpu7x-standard-4t": 8}),
        (TPU7X, "4x4x8", {"tpu7x-standard-4t": 32}),
        (TPU7X, "8x8x8", {"tpu7x-standard-4t": 128}),
        (TPU7X, "16x24x24", {"tpu7x-standard-4t": 2304}),
    ],
)
def test_a_topology_has_the_hosts_of_googles_tables(
    accelerator: Accelerator, topology: str, hosts: dict[str, int]
) -> None:
    assert _hosts(accelerator, topology) == hosts


@pytest.mark.parametrize(
    ("accelerator", "topology"),
    [(V6E, "2x8"), (V6E, "16x32"), (V6E, "3x3"), (V6E, "2x2x1"), (V5P, "16x32x32"), (V5P, "1x1x1")]
    + [(TPU7X, each) for each in ("4x4x5", "8x4x4", "2x2x8", "4x4", "32x32x32", "2x1x2", "0x4x4")],
)
def test_an_illegal_topology_has_no_slice_and_a_reason(
    accelerator: Accelerator, topology: str
) -> None:
    sides = tuple(int(side) for side in topology.split("x"))
    assert slices(accelerator, sides) == []
    assert why_illegal(accelerator, sides)


def test_ironwood_has_four_small_shapes_and_428_of_whole_cubes() -> None:
    found = [each for each in topologies(TPU7X) if math.prod(each) > 1]
    cubes = [each for each in found if math.prod(each) >= 64]
    assert (len(found) - len(cubes), len(cubes)) == (4, 428)
    assert max(math.prod(each) for each in cubes) == 9216 == TPU7X.pod_chips


def test_a_chip_is_two_devices_on_ironwood_and_one_on_trillium() -> None:
    (ironwood,) = slices(TPU7X, (2, 2, 2))
    trillium = slices(V6E, (2, 4))[1]
    assert (ironwood.chips, ironwood.hosts, ironwood.devices) == (8, 2, 16)
    assert (trillium.chips, trillium.hosts, trillium.devices) == (8, 1, 8)


def test_every_slice_fills_its_hosts() -> None:
    uneven = [
        each
        for accelerator in ACCELERATORS.values()
        for topology in topologies(accelerator, largest=512)
        for each in slices(accelerator, topology)
        if each.hosts * each.machine.chips != each.chips
    ]
    assert uneven == []


def test_machine_names_are_unique_and_lead_back_to_their_generation() -> None:
    assert len(MACHINES) == sum(len(each.machines) for each in ACCELERATORS.values())
    assert MACHINES["ct6e-standard-8t"][0] is V6E


@pytest.mark.parametrize("text", ["", "4", "4x", "4x4x4x4", "axb", "4 x 4", "-4x4", "0x4"])
def test_text_that_is_no_topology_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not of the form AxB"):
        parse_topology(text)


def test_topologies_survive_being_written_and_read() -> None:
    every = topologies(TPU7X, largest=1024)
    assert [parse_topology(format_topology(each)) for each in every] == every

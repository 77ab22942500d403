"""How slices lie on cubes (Google Cloud docs, 'About dynamic slicing', read 2026-08)."""

import pytest

from catalog.partitions import UnknownShapeError, at_most, levels, partition, slice_of

# Shape, hosts, chips, JAX devices, partition level, partitions of one slice, slices on two cubes.
TABLE = [
    ("2x2x1", 1, 4, 8, "2x2x1", 1, 32),
    ("2x2x2", 2, 8, 16, "2x2x2", 1, 16),
    ("2x2x4", 4, 16, 32, "2x2x4", 1, 8),
    ("2x4x4", 8, 32, 64, "2x4x4", 1, 4),
    ("4x4x4", 16, 64, 128, "4x4x4", 1, 2),
    ("4x4x8", 32, 128, 256, "4x4x4", 2, 1),
    ("4x8x8", 64, 256, 512, "4x4x4", 4, 0),
]


@pytest.mark.parametrize(("shape", "hosts", "chips", "devices", "level", "count", "room"), TABLE)
def test_a_shape_has_its_row(  # noqa: PLR0917  a row of the table
    shape: str, hosts: int, chips: int, devices: int, level: str, count: int, room: int
) -> None:
    of = slice_of(shape)
    part = partition(of)
    assert (of.hosts, of.chips, of.devices) == (hosts, chips, devices)
    assert (part.shape, part.count) == (level, count)
    assert part.id_label == f"cloud.google.com/gke-tpu-partition-{level}-id"
    assert at_most(of, 2) == room


@pytest.mark.parametrize("shape", ["2x2x3", "8x4x4", "2x4", "1x1x1", "4x4x6"])
def test_other_shapes_are_refused_with_their_rule(shape: str) -> None:
    with pytest.raises(UnknownShapeError, match="no slice of TPU7x: "):
        slice_of(shape)


def test_levels_go_from_the_block_to_the_host_and_have_no_other_shape() -> None:
    part = "cloud.google.com/gke-tpu-partition"
    assert levels(["4x4x8", "2x2x1", "4x4x4", "2x2x4"]) == [
        "cloud.google.com/gce-topology-block",
        f"{part}-4x4x4-id",
        f"{part}-2x2x4-id",
        f"{part}-2x2x1-id",
        "kubernetes.io/hostname",
    ]
    assert levels(["2x2x2"]) == [
        "cloud.google.com/gce-topology-block",
        f"{part}-2x2x2-id",
        "kubernetes.io/hostname",
    ]

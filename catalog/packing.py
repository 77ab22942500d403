"""Slices into cubes: where they lie, what is left, and what could still be formed there.

A sub-slice takes an aligned part of one cube, a super-slice whole cubes of one block. Parts of a
cube are halved again and again (2x2x1 = 4 chips, 2x2x2 = 8, 2x2x4 = 16, 2x4x4 = 32, 4x4x4 = 64),
so placing the largest first never wastes a part that an order of another kind would have used.
Source: Google Cloud docs 'About dynamic slicing'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catalog.accelerators import CUBE, SUB_CUBE, Slice, format_topology
from catalog.partitions import partition, slice_of

CUBE_CHIPS = 64


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """So many slices of one shape, for one purpose."""

    purpose: str
    shape: str
    count: int

    @property
    def slice(self) -> Slice:
        return slice_of(self.shape)

    @property
    def chips(self) -> int:
        return self.count * self.slice.chips


@dataclass
class Cube:
    """One cube of a block, and the slices on it."""

    block: int
    free: int = CUBE_CHIPS
    taken: list[tuple[str, str]] = field(default_factory=list)
    """Purpose and shape, one a slice or a part of a super-slice."""


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Cubes with their slices, and the slices for which there was no room."""

    cubes: Sequence[Cube]
    left_over: Mapping[tuple[str, str], int]

    @property
    def fits(self) -> bool:
        return not self.left_over

    @property
    def free_chips(self) -> int:
        return sum(cube.free for cube in self.cubes)

    @property
    def free_cubes(self) -> list[int]:
        """Whole cubes that are left, by block."""
        blocks = sorted({cube.block for cube in self.cubes})
        return [
            sum(cube.block == block and cube.free == CUBE_CHIPS for cube in self.cubes)
            for block in blocks
        ]

    def still_possible(self) -> dict[str, int]:
        """How many slices of each shape would go into what is left, one shape at a time."""
        found = {}
        for topology in SUB_CUBE:
            of = slice_of(format_topology(topology))
            if count := sum(cube.free // of.chips for cube in self.cubes):
                found[of.shape] = count
        for of in super_slices(max(self.free_cubes, default=0)):
            found[of.shape] = sum(each // partition(of).count for each in self.free_cubes)
        return found


def super_slices(cubes: int) -> list[Slice]:
    """Every slice of up to so many whole cubes, the smallest first: AxBxC in cubes, A<=B<=C."""
    x, y, z = CUBE
    sides = [
        (a, b, c)
        for a in range(1, cubes + 1)
        for b in range(a, cubes // a + 1)
        for c in range(b, cubes // (a * b) + 1)
    ]
    found = [slice_of(format_topology((x * a, y * b, z * c))) for a, b, c in sides]
    return sorted(found, key=lambda each: each.chips)


def pack(blocks: Sequence[int], wanted: Sequence[Wanted]) -> Packing:
    """Place slices on cubes, super-slices first; `blocks` are cubes by block."""
    cubes = [Cube(block=block) for block, count in enumerate(blocks) for _ in range(count)]
    left_over: dict[tuple[str, str], int] = {}
    for each in sorted(wanted, key=lambda one: -one.slice.chips):
        for _ in range(each.count):
            places = _whole(cubes, each.slice) or _part(cubes, each.slice)
            if not places:
                key = (each.purpose, each.shape)
                left_over[key] = left_over.get(key, 0) + 1
            for cube in places:
                cube.free -= min(CUBE_CHIPS, each.slice.chips)
                cube.taken.append((each.purpose, each.shape))
    return Packing(cubes=cubes, left_over=left_over)


def _whole(cubes: Sequence[Cube], of: Slice) -> list[Cube]:
    if of.chips < CUBE_CHIPS:
        return []
    count = partition(of).count
    for block in sorted({cube.block for cube in cubes}):
        free = [cube for cube in cubes if cube.block == block and cube.free == CUBE_CHIPS]
        if len(free) >= count:
            return free[:count]
    return []


def _part(cubes: Sequence[Cube], of: Slice) -> list[Cube]:
    """The fullest cube with room, so that whole ones stay whole."""
    if of.chips >= CUBE_CHIPS:
        return []
    room = [cube for cube in cubes if cube.free >= of.chips]
    return [min(room, key=lambda cube: cube.free)] if room else []

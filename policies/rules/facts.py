"""What the rules hold the stack against: TPU machine shapes, version floors, zones, prices, limits.

The pack stands alone, so it carries its own copy of these facts; the program has another, and a
mistake in one is caught by the other. Each table names its source and the day it was read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Final

READ_ON: Final = "2026-08-23"


@dataclass(frozen=True)
class Generation:
    """One TPU generation as GKE offers it."""

    label: str  # value of cloud.google.com/gke-tpu-accelerator
    dimensions: int
    devices_per_chip: int  # JAX devices
    small: tuple[str, ...]  # topologies below the regular ones, single host included
    max_cubes: int = 0  # of 4x4x4; 0 for the 2D generations
    sorted_dimensions: bool = True


# Topologies: GKE docs "Plan TPUs in GKE"; cube limits and ordering: AI-Hypercomputer/xpk
# src/xpk/core/system_characteristics.py at 367c838. Devices per chip: docs "TPU7x (Ironwood)".
_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
V4 = Generation("tpu-v4-podslice", 3, 1, _DEEP, max_cubes=64, sorted_dimensions=False)
V5E = Generation("tpu-v5-lite-podslice", 2, 1, _FLAT)
V5P = Generation("tpu-v5p-slice", 3, 1, _DEEP, max_cubes=140)
V6E = Generation("tpu-v6e-slice", 2, 1, _FLAT)
TPU7X = Generation("tpu7x", 3, 2, ("1x1x1", *_DEEP), max_cubes=144)
GENERATIONS: Final = {g.label: g for g in (V4, V5E, V5P, V6E, TPU7X)}


@dataclass(frozen=True)
class Machine:
    """One TPU machine type."""

    generation: Generation
    chips: int
    host_topology: str  # the slice of one host, which is also the node's topology label then
    single_host_only: bool = False


# GKE docs "Plan TPUs in GKE" and "About Ironwood (TPU7x) in GKE".
MACHINES: Final = {
    "ct4p-hightpu-4t": Machine(V4, 4, "2x2x1"),
    "ct5lp-hightpu-1t": Machine(V5E, 1, "1x1", single_host_only=True),
    "ct5lp-hightpu-4t": Machine(V5E, 4, "2x2"),
    "ct5lp-hightpu-8t": Machine(V5E, 8, "2x4", single_host_only=True),
    "ct5p-hightpu-4t": Machine(V5P, 4, "2x2x1"),
    "ct6e-standard-1t": Machine(V6E, 1, "1x1", single_host_only=True),
    "ct6e-standard-4t": Machine(V6E, 4, "2x2"),
    "ct6e-standard-8t": Machine(V6E, 8, "2x4", single_host_only=True),
    "tpu7x-standard-1t": Machine(TPU7X, 1, "1x1x1", single_host_only=True),
    "tpu7x-standard-4t": Machine(TPU7X, 4, "2x2x1"),
}
TPU_MACHINE: Final = re.compile(r"(ct\d\w*|tpu\d\w*)-\w+-\d+t")


def dimensions(topology: str) -> tuple[int, ...] | None:
    """`4x4x8` as numbers, or None when it is not written so."""
    if not re.fullmatch(r"[1-9]\d{0,3}(x[1-9]\d{0,3}){1,2}", topology):
        return None
    return tuple(int(part) for part in topology.split("x"))


def chips_of(topology: str) -> int:
    return prod(dimensions(topology) or (0,))


def topology_fault(topology: str, generation: Generation) -> str | None:
    """What is wrong with a topology for a generation, or None."""
    sides = dimensions(topology)
    if sides is None:
        return "is not written like 2x4 or 4x4x8"
    if len(sides) != generation.dimensions:
        return f"has {len(sides)} dimensions, {generation.label} has {generation.dimensions}"
    if topology in generation.small:
        return None
    if not generation.max_cubes:
        return f"is not one of {', '.join(generation.small)}"
    if any(side % 4 for side in sides):
        return f"is neither one of {', '.join(generation.small)} nor made of multiples of 4"
    if generation.sorted_dimensions and list(sides) != sorted(sides):
        return "must list its dimensions from small to large"
    cubes = prod(sides) // 64
    if cubes > generation.max_cubes:
        return f"needs {cubes} cubes of 4x4x4, {generation.label} has {generation.max_cubes}"
    return None


Version = tuple[int, int, int, int]


def version(text: str) -> Version | None:
    """`1.36.0-gke.3712000` as numbers; None for a partial version such as `1.36` or `latest`."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)-gke\.(\d+)", text)
    if found is None:
        return None
    major, minor, patch, build = (int(part) for part in found.groups())
    return (major, minor, patch, build)


# GKE docs: "Schedule dynamic slices with Kueue and TAS", "About Ironwood (TPU7x) in GKE",
# "Autoscale using metrics"; v6e: Ray docs "Start Google Cloud GKE Cluster with TPUs for KubeRay".
FLOOR_TPU7X: Final = "1.34.0-gke.2201000"
FLOOR_V6E: Final = "1.31.2-gke.1115000"
FLOOR_SUPER_SLICING: Final = "1.35.2-gke.1842000"
FLOOR_SUB_SLICING: Final = "1.36.0-gke.3712000"
FLOOR_AUTOSCALING_METRIC: Final = "1.35.1-gke.1396000"

# Cloud TPU docs "TPU regions and zones". Capacity is not implied, and the list grows.
ZONES: Final = {
    TPU7X.label: ("us-central1-c", "us-central1-ai1a"),
    V6E.label: (
        "us-central1-b",
        "us-east1-d",
        "us-east5-a",
        "us-east5-b",
        "europe-west4-a",
        "asia-northeast1-b",
        "southamerica-west1-a",
        "us-south1-ai1b",
    ),
    V5P.label: ("us-central1-a", "us-east5-a", "europe-west4-b"),
    V5E.label: ("us-central1-a", "us-south1-a", "us-west1-c", "us-west4-a", "europe-west4-b"),
    V4.label: ("us-central2-b",),
}
ZONE: Final = re.compile(r"[a-z]+-[a-z]+\d+-(ai\d+)?[a-z]")


def region_of(location: str) -> str:
    """The region of a zone or of a region: `us-central1-ai1a` is in `us-central1`."""
    return "-".join(location.split("-")[:2])


# USD per chip and hour on demand in us-central1, the upper bound for other ways to buy.
# skypilot-org/skypilot-catalog catalogs/v8/gcp/vms.csv at 006059e (v4, v5p, v6e) and SkyPilot's
# tests for tpu7x; the Cloud Billing catalogue has the last word. v5e: no price with a source.
USD_PER_CHIP_HOUR: Final = {V4.label: 3.22, V5P.label: 4.20, V6E.label: 2.70, TPU7X.label: 12.00}
USD_PER_CHIP_HOUR_SPOT: Final = {V4.label: 0.92, V6E.label: 0.54}
HOURS_PER_MONTH: Final = 730

# GKE docs "Maintenance windows and exclusions".
NO_UPGRADES_MAX_DAYS: Final = 90
NO_UPGRADES_MAX_COUNT: Final = 3
MAINTENANCE_HOURS: Final = 48
MAINTENANCE_PERIOD_DAYS: Final = 92

# Ports that in-cluster webhooks of Kueue, LWS, JobSet and the slice controller listen on, and the
# port of Kueue's aggregated API; GKE opens only 443 and 10250 to the nodes by itself.
WEBHOOK_PORTS: Final = (9443, 8082)
IAP_RANGE: Final = "35.235.240.0/20"
TPU_MTU: Final = 8896


def pod_range_prefix(max_pods: int) -> int:
    """Prefix length of the pod range GKE gives each node (GKE docs "Flexible Pod CIDR")."""
    addresses = max(16, 2 * max_pods)
    return 32 - (addresses - 1).bit_length()


# tpu-inference wheels 0.26.0 to 0.32.0, read 2026-11-30: TPUConnectorHMA lacks its base
# initialiser in these releases and the engine stops at start.
HMA_BROKEN: Final = ((0, 27), (0, 28), (0, 29))

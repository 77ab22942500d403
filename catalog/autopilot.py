"""What pods ask for where GKE makes the nodes itself."""

from catalog.accelerators import Slice
from catalog.source import docs
from catalog.versions import TPU7X_AUTOPILOT, Floor, GkeVersion

AUTOPILOT_TPUS = docs("Deploy TPU workloads on GKE Autopilot")

TPUS = Floor("TPUs in Autopilot", GkeVersion.parse("1.32.3-gke.1927000"), AUTOPILOT_TPUS)

FLOORS = {"v5e": TPUS, "v5p": TPUS, "v6e": TPUS, "tpu7x": TPU7X_AUTOPILOT}
"""The lowest version for pods on each accelerator in Autopilot."""

MOST_DISK_GIB = 10
"""Of ephemeral storage, for all containers of a pod together; one that asks for none gets 1 GiB,
emptyDir volumes included. Some classes of machines may have more (docs 'Resource requests in
Autopilot')."""

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
NODE_POOL = "cloud.google.com/gke-nodepool"


def slice_selector(shape: Slice) -> dict[str, str]:
    """Node labels of one slice shape, in either mode of operation."""
    return {ACCELERATOR: shape.accelerator.gke_label, TOPOLOGY: shape.shape}


def capacity_selector(
    kind: str, *, zone: str, reservation: str | None = None, project: str | None = None
) -> dict[str, str]:
    """Node labels by which a pod asks Autopilot for a zone and a kind of capacity."""
    wanted = {"topology.kubernetes.io/zone": zone}
    if kind == "spot":
        wanted["cloud.google.com/gke-spot"] = "true"
    elif kind == "flex-start":
        wanted["cloud.google.com/gke-flex-start"] = "true"
    elif kind == "reservation" and reservation is not None:
        wanted["cloud.google.com/reservation-affinity"] = "specific"
        wanted["cloud.google.com/reservation-name"] = reservation
        if project is not None:
            wanted["cloud.google.com/reservation-project"] = project
    return wanted

"""What GKE adds to a plain cluster: nodes of two cubes, the Slice kind, and Slices that form.

    python -m tests.support.fake_gke [--no-nodes]

For kind with KWOK, which keeps the nodes alive and lets pods on them run. It stands in for GKE
alone: the Kueue slice controller has to be a real one. Runs until it is stopped.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from catalog.accelerators import CUBE, SUB_CUBE, format_topology
from catalog.partitions import (
    ACCELERATOR_LABEL,
    BLOCK_LABEL,
    FORMED_LABEL,
    POOL_LABEL,
    TAINT_VALUE,
    TPU,
    Partition,
    partition,
    slice_of,
)

SLICE_LABEL = "cloud.google.com/gke-tpu-slice"
"""On nodes, beside the shape, while a Slice owns them."""
CUBES, HOSTS = 2, 16
SHAPES = [format_topology(each) for each in (*SUB_CUBE, CUBE)]

Manifest = dict[str, Any]


def partitions() -> list[Partition]:
    return [partition(slice_of(each)) for each in SHAPES]


def nodes() -> Iterator[Manifest]:
    """Hosts of TPU7x with the labels of dynamic slicing; KWOK takes care of those it annotates."""
    capacity = {"cpu": "224", "memory": "960Gi", "pods": "110", TPU: "4"}
    for cube in range(CUBES):
        for host in range(HOSTS):
            labels = {
                POOL_LABEL: f"cubes-{cube:03}",
                ACCELERATOR_LABEL: "tpu7x",
                BLOCK_LABEL: "block-0",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            }
            for each in partitions():
                labels[each.id_label] = f"cube{cube}-{each.shape}-{host // each.hosts}"
                labels[each.state_label] = "HEALTHY"
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": f"cubes-{cube:03}-{host}",
                    "labels": {**labels, "kubernetes.io/hostname": f"cubes-{cube:03}-{host}"},
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                },
                "spec": {"taints": [{"key": TPU, "value": TAINT_VALUE, "effect": "NoSchedule"}]},
                "status": {"capacity": capacity, "allocatable": capacity},
            }


def definition() -> Manifest:
    """The fields of GKE's Slice, from its reference."""
    text = {"type": "string"}
    spec = {
        "type": "object",
        "required": ["type", "topology", "partitionIds"],
        "properties": {
            "type": text,
            "topology": text,
            "partitionIds": {"type": "array", "items": text, "minItems": 1},
        },
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}],
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "slices.accelerator.gke.io"},
        "spec": {
            "group": "accelerator.gke.io",
            "scope": "Cluster",
            "names": {"kind": "Slice", "plural": "slices", "singular": "slice"},
            "versions": [version],
        },
    }


def step() -> None:
    """Form what was asked for, and take the labels of what is gone from its nodes."""
    found = json.loads(kubectl("get", "slices,nodes", "-o", "json"))["items"]
    slices = [each for each in found if each["kind"] == "Slice"]
    for each in slices:
        if not (each.get("status") or {}).get("conditions"):
            _patch("slice", each["metadata"]["name"], {"status": _active()}, "--subresource=status")
    for node in found:
        if node["kind"] != "Node" or ACCELERATOR_LABEL not in node["metadata"]["labels"]:
            continue
        labels = node["metadata"]["labels"]
        wanted = next((_labels(each) for each in slices if _owns(each, labels)), {})
        keys = (FORMED_LABEL, SLICE_LABEL)
        if any(labels.get(key) != wanted.get(key) for key in keys):
            change = {"metadata": {"labels": {key: wanted.get(key) for key in keys}}}
            _patch("node", node["metadata"]["name"], change)


def _labels(one: Manifest) -> dict[str, str]:
    return {FORMED_LABEL: one["spec"]["topology"], SLICE_LABEL: one["metadata"]["name"]}


def _owns(one: Manifest, labels: dict[str, str]) -> bool:
    level = partition(slice_of(one["spec"]["topology"])).id_label
    return labels.get(level) in one["spec"]["partitionIds"]


def _active() -> Manifest:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "ACTIVE",
        "message": "",
        "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return {"conditions": [condition]}


def _patch(kind: str, name: str, change: Manifest, *flags: str) -> None:
    kubectl("patch", kind, name, "--type=merge", "--patch", json.dumps(change), *flags)


def kubectl(*arguments: str, given: Any = None) -> str:
    return subprocess.run(
        ["kubectl", *arguments],
        input=None if given is None else json.dumps(given),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--no-nodes", action="store_true", help="the cluster has its cubes")
    made = [definition(), *([] if parser.parse_args().no_nodes else nodes())]
    kubectl("apply", "--filename=-", given={"apiVersion": "v1", "kind": "List", "items": made})
    while True:
        try:
            step()
        except subprocess.CalledProcessError as error:
            print(f"again: {error}", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()

"""What a vLLM command line says. Its words may hold secrets and are never quoted."""

from __future__ import annotations

import re
from math import prod

from rules import facts
from rules.facts import Generation
from rules.kinds import ACCELERATOR_LABEL, SLICE_TOPOLOGY, TOPOLOGY_LABEL, Container, Pod


def flag(container: Container, name: str) -> str | None:
    """The value of `--name value` or `--name=value`; "" for a bare flag, None without it."""
    found = re.search(
        rf"(?<![\w-])--{re.escape(name)}(?![\w-])(?:[= ]+([^\s-][^\s]*))?", container.words
    )
    return None if found is None else (found[1] or "").strip("'\"")


def number(container: Container, *names: str) -> int | None:
    for name in names:
        value = flag(container, name)
        if value is not None and value.isdigit():
            return int(value)
    return None


def ranks(container: Container) -> int:
    """Devices one engine uses: tensor x pipeline x data parallel."""
    return prod(
        number(container, *names) or 1
        for names in (
            ("tensor-parallel-size", "tp", "tensor_parallel_size"),
            ("pipeline-parallel-size", "pp"),
            ("data-parallel-size", "dp"),
        )
    )


def generation_of(pod: Pod) -> Generation | None:
    return facts.GENERATIONS.get(pod.selects(ACCELERATOR_LABEL) or "")


def slice_of(pod: Pod) -> str | None:
    """The topology of the slice a pod runs on: formed for it, or that of its nodes."""
    return pod.annotation(SLICE_TOPOLOGY) or pod.selects(TOPOLOGY_LABEL)


def hosts_of(pod: Pod) -> int | None:
    """Pods that make up one slice."""
    topology = slice_of(pod)
    if topology is None or not pod.chips:
        return None
    return max(1, facts.chips_of(topology) // pod.chips)

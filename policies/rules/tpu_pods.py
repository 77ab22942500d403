"""Pods on TPUs: chips, selectors, groups, tokens and weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.kinds import (
    ACCELERATOR_LABEL,
    CONTAINER,
    DYNAMIC_LWS,
    JOBSET,
    MODEL_SERVER,
    PLAIN_POD,
    QUEUE_LABEL,
    SLICE_LABEL,
    SLICE_TOPOLOGY,
    TOPOLOGY_LABEL,
    TPU_LWS,
    TPU_POD,
    TPU_RESOURCE,
    TPU_WORKLOAD,
    Container,
    Pod,
    label,
    pods,
)
from rules.model import DROP, Guard, Node, Resource, Setting, Severity, rule
from rules.secret_text import looks_secret, looks_secret_for
from rules.vllm import flag, generation_of, hosts_of, slice_of


def _chips_per_host(pod: Pod) -> set[int]:
    """Chip counts one pod of this selection may take: a whole host's."""
    generation, topology = generation_of(pod), slice_of(pod)
    machines = [m for m in facts.MACHINES.values() if m.generation is generation]
    if pod.annotation(SLICE_TOPOLOGY):
        return {4}
    return {
        m.chips
        for m in machines
        if topology is None
        or m.host_topology == topology
        or (not m.single_host_only and facts.chips_of(topology) > m.chips)
    }


def _single_host_type(pod: Pod) -> bool:
    topology = slice_of(pod)
    return any(
        m.single_host_only and m.generation is generation_of(pod) and m.host_topology == topology
        for m in facts.MACHINES.values()
    )


@rule(
    "TPU-05",
    "A pod takes all chips of its host.",
    severity=Severity.HIGH,
    on=TPU_POD,
    fix="Set google.com/tpu to the chips of the host in limits, and the same in requests.",
    url=links.TPUS,
    guards=[
        Guard(("containers", 0, "resources", "limits", TPU_RESOURCE), 3,
              when=lambda p: p.has(("containers", 0, "resources", "limits", TPU_RESOURCE))),
        Guard(("containers", 0, "resources", "requests", TPU_RESOURCE), 1,
              when=lambda p: p.has(("containers", 0, "resources", "limits", TPU_RESOURCE))),
    ],
)  # fmt: skip
def whole_host(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        limit = container.number(("resources", "limits", TPU_RESOURCE))
        request = container.number(("resources", "requests", TPU_RESOURCE))
        if not container.asks_tpu:
            continue
        if limit is None:
            yield f"{container.title}: set limits[google.com/tpu] to a whole number of chips"
        elif request is not None and request != limit:
            yield (
                f"{container.title}: requests[google.com/tpu] {request} differs from limits {limit}"
            )
    fits = _chips_per_host(pod)
    if fits and pod.chips not in fits and not (_single_host_type(pod) and pod.chips < max(fits)):
        wanted = " or ".join(str(n) for n in sorted(fits))
        yield f"{pod.at()} takes {pod.chips} chips, its host has {wanted}: take all of them"


@rule(
    "TPU-06",
    "A TPU pod says which chips and which topology; no other pod does.",
    severity=Severity.HIGH,
    on=TPU_POD | PLAIN_POD,
    fix="Select gke-tpu-accelerator and gke-tpu-topology, or annotate gke-tpu-slice-topology.",
    url=links.TPUS,
    guards=[
        Guard(("nodeSelector", ACCELERATOR_LABEL), DROP, on=TPU_POD),
        Guard(("nodeSelector", ACCELERATOR_LABEL), "tpu-v9", on=TPU_POD),
        Guard(("nodeSelector", TOPOLOGY_LABEL), DROP, on=TPU_POD,
              when=lambda p: not p.annotation(SLICE_TOPOLOGY)),
        Guard(("nodeSelector", TOPOLOGY_LABEL), "3x3", on=TPU_POD,
              when=lambda p: not p.annotation(SLICE_TOPOLOGY)),
        Guard(("nodeSelector", TOPOLOGY_LABEL), "2x2x2", on=TPU_POD,
              when=lambda p: bool(p.annotation(SLICE_TOPOLOGY))),
        Guard(("nodeSelector", ACCELERATOR_LABEL), "tpu7x", on=PLAIN_POD),
    ],
)  # fmt: skip
def selectors(pod: Pod) -> Iterator[str]:
    accelerator = pod.selects(ACCELERATOR_LABEL)
    if not pod.asks_tpu:
        if accelerator:
            yield f"{pod.at('nodeSelector')} selects TPU nodes without taking chips: remove it"
        return
    if accelerator is None:
        yield f"{pod.at('nodeSelector')}: set {ACCELERATOR_LABEL}"
        return
    generation = facts.GENERATIONS.get(accelerator)
    if generation is None:
        known = ", ".join(facts.GENERATIONS)
        yield f"{pod.at('nodeSelector')}: {ACCELERATOR_LABEL} is {accelerator}; use one of {known}"
        return
    shape, topology = pod.annotation(SLICE_TOPOLOGY), pod.selects(TOPOLOGY_LABEL)
    if shape is not None:
        if accelerator != facts.TPU7X.label:
            yield f"dynamic slices exist on tpu7x only, the pod selects {accelerator}"
        if topology and not pod.selects(SLICE_LABEL):
            yield (
                f"{pod.at('nodeSelector')} has {TOPOLOGY_LABEL}, a label nodes get only once the "
                "slice is formed: remove it, or the pod is never admitted"
            )
    elif topology is None:
        yield f"{pod.at('nodeSelector')}: set {TOPOLOGY_LABEL}, or annotate {SLICE_TOPOLOGY}"
    fault = facts.topology_fault(shape or topology or "", generation) if shape or topology else None
    if fault:
        yield f"the topology {shape or topology} {fault}"


@rule(
    "TPU-07",
    "A group has one pod for each host of its slice.",
    severity=Severity.HIGH,
    on=TPU_WORKLOAD,
    fix="Set the group size to chips of the topology / chips per pod.",
    url=links.LWS,
    guards=[
        Guard("spec.leaderWorkerTemplate.size", lambda n: n + 1, on=TPU_LWS),
        Guard(("spec", "leaderWorkerTemplate", "workerTemplate", "spec", "nodeSelector"),
              {ACCELERATOR_LABEL: "tpu-v6e-slice", TOPOLOGY_LABEL: "4x4"},
              on=TPU_LWS, when=lambda w: w.has("spec.leaderWorkerTemplate.leaderTemplate")),
        Guard(("spec", "replicatedJobs", 0, "template", "spec", "parallelism"), 3, on=JOBSET),
        Guard(("spec", "replicatedJobs", 0, "template", "spec", "completions"), 99, on=JOBSET),
        Guard("metadata.namespace", "1team", on=DYNAMIC_LWS),
    ],
)  # fmt: skip
def group_size(workload: Resource) -> Iterator[str]:
    kind = workload.type.rpartition(":")[2]
    if kind == "LeaderWorkerSet":
        yield from _lws_size(workload)
    elif kind == "JobSet":
        for job, pod in zip(workload.each("spec.replicatedJobs"), pods(workload), strict=True):
            need = hosts_of(pod)
            for field in ("parallelism", "completions"):
                count = job.number(f"template.spec.{field}") or 1
                if pod.asks_tpu and need and count != need:
                    yield (
                        f"{job.at(f'template.spec.{field}')} is {count}: {slice_of(pod)} has "
                        f"{need} hosts"
                    )
    elif kind in {"Deployment", "StatefulSet"}:
        for pod in pods(workload):
            need = hosts_of(pod)
            if pod.asks_tpu and need and need > 1:
                yield (
                    f"{slice_of(pod)} has {need} hosts, a {kind} makes single pods: use a "
                    "LeaderWorkerSet"
                )
    if any(p.annotation(SLICE_TOPOLOGY) for p in pods(workload)):
        namespace = workload.text("metadata.namespace") or ""
        if namespace[:1].isdigit():
            yield f"the namespace {namespace} starts with a digit, which no Slice name may"


def _lws_size(lws: Resource) -> Iterator[str]:
    size = lws.number("spec.leaderWorkerTemplate.size") or 1
    templates = list(pods(lws))
    seen = {
        (
            p.selects(ACCELERATOR_LABEL),
            p.selects(TOPOLOGY_LABEL),
            p.annotation(SLICE_TOPOLOGY),
            p.chips,
        )
        for p in templates
    }
    if len(seen) > 1:
        yield (
            "leader and worker templates differ in selectors, slice shape or chips: make them alike"
        )
    for pod in templates[-1:]:
        need, shape = hosts_of(pod), pod.annotation(SLICE_TOPOLOGY)
        if need and size != need:
            yield (
                f"spec.leaderWorkerTemplate.size is {size}: {slice_of(pod)} has {need} hosts; set "
                f"{need}"
            )
        if shape and facts.chips_of(shape) > 64:
            yield (
                f"{shape} spans cubes, which a LeaderWorkerSet cannot: use a JobSet, or 4x4x4 at "
                "most"
            )
        if shape and size == 1 and len(templates) > 1:
            yield "size 1 with a leaderTemplate is never given a slice: remove leaderTemplate"


TOKEN_NAMES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY")


@rule(
    "TPU-13",
    "No token in a pod's text, and none is printed.",
    severity=Severity.CRITICAL,
    on=CONTAINER,
    fix="Mount the token with the Secret Manager driver, or use secretKeyRef.",
    url=links.SECRETS,
    refs=[links.trivy("KSV-0109"), links.checkov("CKV_K8S_35")],
    guards=[
        Guard("env", [{"name": "HF_TOKEN", "value": "not-a-real-token"}]),
        Guard("env", [{"name": "OTHER", "value": "hf_" + "x" * 34}]),
        Guard("args", ["--api-key", "hf_" + "x" * 34]),
        Guard("command", ["sh", "-c", "set -x; vllm serve"]),
        Guard("command", ["sh", "-c", "echo $HF_TOKEN"]),
    ],
)
def no_token_in_text(container: Container) -> Iterator[str]:
    for variable in container.each("env"):
        name = variable.text("name") or ""
        if not variable.has("value"):
            continue
        value = variable.text("value") or ""
        if name in TOKEN_NAMES and value:
            yield f"{container.title}: {name} has a literal value; use valueFrom or a mounted file"
        elif looks_secret_for(name, value):
            yield f"{container.title}: {name} looks like a secret; use valueFrom or a mounted file"
    for field in ("command", "args"):
        if any(looks_secret(word) for word in container.texts(field)):
            yield f"{container.title}: {field} holds a secret; mount it as a file"
    if re.search(r"\bset\s+-\w*x", container.words):
        yield f"{container.title}: the command traces itself (set -x) and would print secrets"
    names = "|".join(TOKEN_NAMES)
    if re.search(rf"\b(echo|printf)\b[^;&|]*\$\{{?({names})\b", container.words):
        yield f"{container.title}: the command prints a token; remove it"
    for key, note in container.pod.template.fields("metadata.annotations"):
        if looks_secret(note.text() or ""):
            yield f"the annotation {key} holds a secret; mount it as a file"


def _buckets(pod: Pod) -> dict[str | None, Node]:
    """Volumes of a pod that are buckets, by name."""
    return {
        volume.text("name"): volume
        for volume in pod.each("volumes")
        if volume.text("csi.driver") == "gcsfuse.csi.storage.gke.io"
    }


def _writable(spec: Any) -> Any:
    """The pod spec with every mount writable."""
    if isinstance(spec, dict):
        return {k: False if k == "readOnly" else _writable(v) for k, v in spec.items()}
    return [_writable(item) for item in spec] if isinstance(spec, list) else spec


@rule(
    "TPU-14",
    "Weights are mounted read-only and kept apart from the compile cache.",
    severity=Severity.HIGH,
    on=MODEL_SERVER,
    fix="Mount the weights with readOnly true and give the cache a bucket or volume of its own.",
    url=links.STORAGE,
    guards=[
        Guard(
            (),
            _writable,
            on=TPU_POD,
            when=lambda p: any(c.serves_model for c in p.containers) and bool(_buckets(p)),
        ),
    ],
)
def weights_read_only(container: Container) -> Iterator[str]:
    mounts = {m.text("name"): m for m in container.each("volumeMounts")}
    variables = {e.text("name"): e for e in container.each("env")}
    cache_variable = variables.get("VLLM_XLA_CACHE_PATH")
    cache = (cache_variable.text("value") or "") if cache_variable else ""
    for name, volume in _buckets(container.pod).items():
        mount = mounts.get(name)
        if mount is None:
            continue
        path = mount.text("mountPath") or ""
        holds_cache = bool(cache) and (cache + "/").startswith(path.rstrip("/") + "/")
        read_only = mount.flag("readOnly") is True or volume.flag("csi.readOnly") is True
        if not holds_cache and not read_only:
            yield (
                f"{container.title}: {mount.at('readOnly')} is not true on a bucket of weights; "
                "set it"
            )
        if holds_cache and (flag(container, "download-dir") or "").startswith(path):
            yield f"{container.title}: weights and compile cache share {path}; give each its own"


@rule(
    "TPU-37",
    "TPU pods that are queued tolerate the TPU taint themselves.",
    severity=Severity.HIGH,
    on=TPU_POD,
    fix="Add a toleration for google.com/tpu to the pod template.",
    url=links.KUEUE,
    guards=[Guard("tolerations", [], when=lambda p: bool(label(p.resource, QUEUE_LABEL)))],
)
def tolerates_tpu(pod: Pod) -> Iterator[str]:
    if not label(pod.resource, QUEUE_LABEL):
        return
    for toleration in pod.each("tolerations"):
        if toleration.text("key") in {"google.com/tpu", None}:
            return
    yield f"{pod.at('tolerations')} lacks google.com/tpu: Kueue evicts the group for node taints"


@rule(
    "TPU-39",
    "Workloads carry the recommended labels, and queued ones their queue.",
    severity=Severity.LOW,
    on=TPU_WORKLOAD,
    fix="Set app.kubernetes.io/name and app.kubernetes.io/part-of, and the queue-name label.",
    url=links.KUEUE,
    settings={
        "labels": Setting(
            "array", ["app.kubernetes.io/name", "app.kubernetes.io/part-of"], "labels"
        )
    },
    guards=[
        Guard(("metadata", "labels"), DROP),
        Guard(("metadata", "labels", QUEUE_LABEL), DROP, on=DYNAMIC_LWS),
    ],
)
def workload_labels(workload: Resource, settings: dict[str, Any]) -> Iterator[str]:
    missing = [key for key in settings["labels"] if not label(workload, key)]
    if missing:
        yield f"metadata.labels lacks {', '.join(missing)}: add them"
    dynamic = any(p.annotation(SLICE_TOPOLOGY) for p in pods(workload))
    if dynamic and not label(workload, QUEUE_LABEL):
        yield f"metadata.labels lacks {QUEUE_LABEL}: without it no slice is ever formed"


RULES = [
    whole_host,
    selectors,
    group_size,
    no_token_in_text,
    weights_read_only,
    tolerates_tpu,
    workload_labels,
]

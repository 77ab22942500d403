"""Pods: images, resources, probes and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules import links
from rules.images import has_digest, loose_reference, registry_path
from rules.kinds import (
    BARE_POD,
    CONTAINER,
    DEPLOYMENT,
    MODEL_SERVER,
    POD,
    TPU_POD,
    Container,
    Pod,
)
from rules.model import DROP, Guard, Reference, Resource, Setting, Severity, Stack, rule

SERVED = ("Deployment", "StatefulSet", "LeaderWorkerSet")


@rule(
    "POD-12",
    "Containers say what they need.",
    severity=Severity.MEDIUM,
    on=CONTAINER,
    fix="Set CPU and memory requests and a memory limit.",
    url=links.POD_SECURITY,
    refs=[links.checkov("CKV_K8S_10"), links.trivy("KSV-0011"), links.trivy("KSV-0018")],
    guards=[
        Guard("resources", DROP),
        Guard("resources.limits.memory", DROP),
    ],
)
def resources_set(container: Container) -> Iterator[str]:
    limits, requests = "resources.limits", "resources.requests"
    if not container.has(f"{limits}.memory"):
        yield f"{container.title}: set {limits}.memory"
    for kind in ("cpu", "memory"):
        if not container.has(f"{requests}.{kind}") and not container.has(f"{limits}.{kind}"):
            yield f"{container.title}: set {requests}.{kind}"


@rule(
    "POD-13",
    "Images have an exact version.",
    severity=Severity.HIGH,
    on=CONTAINER,
    fix="Use an exact version, best with @sha256:...",
    url=links.IMAGES,
    refs=[links.cis("5.1.4"), links.checkov("CKV_K8S_14"), links.trivy("KSV-0013")],
    guards=[
        Guard("image", "docker.io/vllm/vllm-tpu:latest"),
        Guard("image", "docker.io/vllm/vllm-tpu"),
        Guard("image", "docker.io/vllm/vllm-tpu:nightly-20260430"),
        Guard("image", "ghcr.io/llm-d/x:v0"),
    ],
)
def exact_image(container: Container) -> Iterator[str]:
    image = container.text("image")
    why = loose_reference(image) if image else "it is missing; name one"
    if why:
        yield f"{container.title} has the image {image}: {why}"


@rule(
    "TPU-11",
    "Images are named by digest.",
    severity=Severity.HIGH,
    on=CONTAINER,
    fix="Add @sha256:... to the image.",
    url=links.IMAGES,
    refs=[links.checkov("CKV_K8S_43"), Reference("Kyverno", "", "require-image-checksum")],
    guards=[Guard("image", "docker.io/vllm/vllm-tpu:v0.32.0")],
)
def image_by_digest(container: Container) -> Iterator[str]:
    image = container.text("image")
    if image and not has_digest(image):
        yield f"{container.title} has the image {image}: add its @sha256:... digest"


def below(name: str, allowed: str) -> bool:
    """Whether an image is the allowed repository itself, or lies in the allowed folder."""
    return name == allowed or name.startswith(f"{allowed.rstrip('/')}/")


@rule(
    "POD-14",
    "Images come from registries the platform trusts.",
    severity=Severity.MEDIUM,
    on=CONTAINER,
    fix="Use an allowed registry, or add it to the rule's `registries`.",
    url=links.IMAGES,
    refs=[links.cis("5.1.4"), links.trivy("KSV-0125")],
    settings={
        "registries": Setting(
            "array",
            [
                "docker.io/vllm/",
                "docker.io/library/python",
                "ghcr.io/llm-d/",
                "registry.k8s.io/",
                "docker.io/tpuongke/",
                "gcr.io/gke-release/",
                "gke.gcr.io/",
                "gcr.io/google.com/cloudsdktool/",
                "us-docker.pkg.dev/",
                "europe-docker.pkg.dev/",
                "asia-docker.pkg.dev/",
            ],
            "repositories, or folders of them, that may be used; Artifact Registry always may",
        )
    },
    guards=[
        Guard("image", "quay.example.com/someone/image:1.0.0"),
        Guard("image", "docker.io/library/python-of-another:3.13.15"),
    ],
)
def trusted_registry(container: Container, settings: dict[str, Any]) -> Iterator[str]:
    image = container.text("image")
    if image is None:
        return
    name = registry_path(image)
    own = name.partition("/")[0].endswith(("-docker.pkg.dev", ".pkg.dev"))
    if not own and not any(below(name, each) for each in settings["registries"]):
        yield f"{container.title} pulls {name}: mirror it to Artifact Registry, or allow its prefix"


@rule(
    "POD-15",
    "Pods that serve say when they are ready.",
    severity=Severity.MEDIUM,
    on=POD.where("pods that serve", lambda p: p.kind in SERVED and p.role != "worker"),
    fix="Set readinessProbe; without one the pod counts as ready at once.",
    url=links.PROBES,
    refs=[links.checkov("CKV_K8S_9"), Reference("Kyverno", "", "require-pod-probes")],
    guards=[
        Guard(
            "containers",
            lambda all_: [{k: v for k, v in c.items() if k != "readinessProbe"} for c in all_],
        )
    ],
)
def readiness(pod: Pod) -> Iterator[str]:
    running = [c for c in pod.containers if not c.init]
    for container in running:
        if container.serves_model and not container.has("readinessProbe"):
            yield f"{container.title}: set readinessProbe, or requests reach it while it loads"
    if running and not any(c.has("readinessProbe") for c in running):
        yield f"{pod.at('containers')}: set a readinessProbe; the pod counts as ready at once"


@rule(
    "POD-16",
    "A served model has more than one replica.",
    severity=Severity.LOW,
    on=DEPLOYMENT,
    fix="Set spec.replicas to 2 or more, or let an autoscaler keep two.",
    url=links.DISRUPTIONS,
    whole_stack=True,
    guards=[Guard("spec.replicas", 1)],
)
def more_than_one(deployment: Resource, stack: Stack) -> Iterator[str]:
    servers = [s for s in stack.of(MODEL_SERVER) if s.resource is deployment]
    if servers and (deployment.number("spec.replicas") or 1) < 2:
        yield "spec.replicas is 1: a node's maintenance stops the model; two cost twice the chips"


@rule(
    "POD-17",
    "Pods belong to a controller.",
    severity=Severity.LOW,
    on=BARE_POD,
    fix="Use a Deployment, Job or LeaderWorkerSet.",
    url=links.POD_SECURITY,
)
def no_bare_pods(pod: Resource) -> Iterator[str]:
    yield f"{pod.title} is a bare Pod: nothing brings it back; use a Deployment or a Job"


@rule(
    "POD-18",
    "Scratch volumes have a size limit.",
    severity=Severity.LOW,
    on=POD,
    fix="Set emptyDir.sizeLimit; in memory it counts against the memory limit.",
    url=links.POD_SECURITY,
    refs=[Reference("Kyverno", "", "require-emptydir-requests-limits")],
    guards=[Guard("volumes", [{"name": "scratch", "emptyDir": {}}])],
)
def scratch_limit(pod: Pod) -> Iterator[str]:
    for volume in pod.each("volumes"):
        if volume.has("emptyDir") and not volume.has("emptyDir.sizeLimit"):
            yield f"{volume.at('emptyDir.sizeLimit')} is missing: set it"


@rule(
    "POD-22",
    "Model servers ignore the service variables of their namespace.",
    severity=Severity.MEDIUM,
    on=TPU_POD,
    fix="Set enableServiceLinks to false: a Service called vllm would set VLLM_PORT to a URL.",
    url=links.VLLM_SERVE,
    guards=[Guard("enableServiceLinks", DROP), Guard("enableServiceLinks", True)],
)
def no_service_links(pod: Pod) -> Iterator[str]:
    if pod.flag("enableServiceLinks") is not False:
        yield f"{pod.at('enableServiceLinks')} is on: a Service named vllm stops vLLM; set false"


RULES = [
    resources_set,
    exact_image,
    image_by_digest,
    trusted_registry,
    readiness,
    more_than_one,
    no_bare_pods,
    scratch_limit,
    no_service_links,
]

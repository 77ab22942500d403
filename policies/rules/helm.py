"""Charts, manifests and commands that bring code from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules import links
from rules.images import loose_reference
from rules.kinds import COMMANDS, CONTAINER, HELM, HELM_RELEASE, YAML_FILES, Container
from rules.model import DROP, Guard, Node, Resource, Setting, Severity, rule
from rules.secret_text import secret_places

_SEMVER = re.compile(r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


@rule(
    "HELM-01",
    "Chart versions are exact.",
    severity=Severity.HIGH,
    on=HELM,
    fix="Set version to one full version.",
    url=links.HELM_RELEASE,
    guards=[
        Guard("version", DROP),
        Guard("version", "~0.17"),
        Guard("version", "v0"),
        Guard("version", ">=1.0.0"),
    ],
)
def exact_chart(chart: Resource) -> Iterator[str]:
    number = chart.text("version")
    if number is None:
        yield "version is missing, which means the newest: set one full version"
    elif not _SEMVER.fullmatch(number):
        yield f"version is {number}, which moves: set one full version such as 0.18.6"


@rule(
    "HELM-02",
    "Charts come from places the platform trusts.",
    severity=Severity.HIGH,
    on=HELM,
    fix="Use an allowed chart address, or add it to the rule's `sources`.",
    url=links.HELM_RELEASE,
    settings={
        "sources": Setting(
            "array",
            ["oci://registry.k8s.io/", "oci://ghcr.io/llm-d/charts/"],
            "prefixes of chart addresses that may be used",
        )
    },
    guards=[Guard("chart", "oci://registry.example.com/chart")],
)
def trusted_chart(chart: Resource, settings: dict[str, Any]) -> Iterator[str]:
    name, repository = chart.text("chart") or "", chart.text("repositoryOpts.repo") or ""
    source = name if name.startswith("oci://") else repository or name
    if source.startswith((".", "/")):
        return  # reviewed with the program
    if not source.startswith(tuple(settings["sources"])):
        yield f"the chart comes from {source}: use one of {', '.join(settings['sources'])}"


def _images(node: Node) -> Iterator[tuple[str, str]]:
    """Images named in chart values: `image: text`, or repository with tag or digest."""
    if not isinstance(node.value, dict):
        if isinstance(node.value, list):
            for child in node.each():
                yield from _images(child)
        return
    repository, image = node.value.get("repository"), node.value.get("image")
    if isinstance(image, str):
        yield node.at("image"), image
    if isinstance(repository, str):
        tag, digest = node.value.get("tag"), node.value.get("digest")
        if isinstance(tag, str | int | float) or isinstance(digest, str):
            reference = f"{repository}:{tag}" if tag is not None else repository
            yield node.at(), f"{reference}@{digest}" if digest else reference
    for _, child in node.fields():
        yield from _images(child)


@rule(
    "HELM-03",
    "Chart values pin the images they name and hold no secret.",
    severity=Severity.HIGH,
    on=HELM,
    fix="Give images an exact tag or a digest; keep secrets in Secret Manager.",
    url=links.HELM_RELEASE,
    guards=[
        Guard(("values", "image"), "example/image:latest"),
        Guard(("values", "token"), "hf_" + "x" * 34),
    ],
)
def pinned_values(chart: Resource) -> Iterator[str]:
    values = chart.node("values")
    for place, image in _images(values):
        why = loose_reference(image)
        if why:
            yield f"{place} names the image {image}: {why}"
    for place in secret_places(values):
        yield f"{place} looks like a secret: keep it in Secret Manager"


@rule(
    "HELM-04",
    "A failed chart is cleaned up, and a chart is awaited.",
    severity=Severity.LOW,
    on=HELM_RELEASE,
    fix="Set atomic or cleanupOnFail, and leave skipAwait off.",
    url=links.HELM_RELEASE,
    guards=[
        Guard((), lambda r: {k: v for k, v in r.items() if k not in {"atomic", "cleanupOnFail"}}),
        Guard("skipAwait", True),
    ],
)
def awaited_chart(chart: Resource) -> Iterator[str]:
    if chart.flag("atomic") is not True and chart.flag("cleanupOnFail") is not True:
        yield (
            "neither atomic nor cleanupOnFail is set: a failed install stays half done; set atomic"
        )
    if chart.flag("skipAwait") is True:
        yield "skipAwait is on: what follows would start before the chart is ready; turn it off"


@rule(
    "HELM-05",
    "A release has a fixed name.",
    severity=Severity.MEDIUM,
    on=HELM_RELEASE,
    fix="Set name; the operators' charts own cluster-wide names and cannot be installed twice.",
    url=links.HELM_RELEASE,
    guards=[Guard("name", DROP)],
)
def named_release(chart: Resource) -> Iterator[str]:
    if not chart.has("name"):
        yield "name is missing: a replacement would install the chart twice; set a fixed name"


@rule(
    "TPU-12",
    "No code comes from a place that moves.",
    severity=Severity.HIGH,
    on=YAML_FILES | CONTAINER | COMMANDS,
    fix="Name a commit or an exact version.",
    url=links.IMAGES,
    settings={
        "hosts": Setting(
            "array",
            ["https://github.com/", "https://raw.githubusercontent.com/"],
            "prefixes of manifest addresses that may be used",
        )
    },
    guards=[
        Guard("args", ["curl -s https://example.com/install.sh | bash"], on=CONTAINER),
        Guard("command", ["sh", "-c", "pip install vllm"], on=CONTAINER),
        Guard("file", "https://raw.githubusercontent.com/a/b/main/x.yaml", on=YAML_FILES),
    ],
)
def no_moving_code(thing: Node, settings: dict[str, Any]) -> Iterator[str]:
    if isinstance(thing, Container):
        for why in _moving(thing.words):
            yield f"{thing.title}: {why}"
        return
    for path in ("create", "update", "delete"):
        for why in _moving(thing.text(path) or ""):
            yield f"{thing.at(path)}: {why}"
    for url in [thing.text("file"), *thing.texts("files")]:
        if url is None or not url.startswith("http"):
            continue
        if not url.startswith(tuple(settings["hosts"])):
            yield f"a manifest comes from {_host(url)}: use one of {', '.join(settings['hosts'])}"
        pinned = re.search(r"\b[0-9a-f]{40}\b", url) or "/releases/download/" in url
        if re.search(r"/(main|master|latest|HEAD)/", url) or not pinned:
            yield f"a manifest address on {_host(url)} moves: name a 40-digit commit or a release"


def _host(url: str) -> str:
    return "/".join(url.split("/")[:3])


_MOVING = (
    (
        re.compile(r"\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?(ba|z|da)?sh\b"),
        "pipes a download to a shell",
    ),
    (
        re.compile(r"\bkubectl\s+(apply|create)\b[^;&|]*-f\s*http"),
        "applies a manifest from the web",
    ),
    (re.compile(r"\bpip3?\s+install\b[^;&|]*--pre\b"), "installs pre-releases"),
    (
        re.compile(r"\bpip3?\s+install\b(?![^;&|]*(==|--require-hashes|\.whl\b))"),
        "installs packages without an exact version",
    ),
    (
        re.compile(r"\bgit\s+clone\b(?!.*\bcheckout\s+[0-9a-f]{40}\b)", re.S),
        "clones without a commit",
    ),
)


def _moving(words: str) -> Iterator[str]:
    for pattern, why in _MOVING:
        if pattern.search(words):
            yield f"the command {why}: build it into the image, or name an exact version"


RULES = [
    exact_chart,
    trusted_chart,
    pinned_values,
    awaited_chart,
    named_release,
    no_moving_code,
]

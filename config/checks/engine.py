"""Rules on what a server is started with, and on who reaches it."""

import re
from collections.abc import Iterator

from catalog.compatibility import parse as version
from catalog.disaggregated import flag_of
from catalog.images import version_of
from catalog.serving import FILE_OF_FLAGS, OWNED_ENVIRONMENT, OWNED_FLAGS, SECRET_FLAGS
from catalog.source import READ, Source, docs
from catalog.vllm import environment_error, flag_error, release
from config.checks.pinned import stays
from config.checks.serving import VLLM_SECURITY
from config.checks.sizes import PATH
from config.cluster import Cluster
from config.images import Images
from config.problem import Problem
from config.serving import Public, RegionalPublic, ServedModel, SingleHost, needs_adapter

LOOKS_SECRET = re.compile(r"hf_\w{20,}|sk-[\w-]{20,}|ya29\.|AIza[\w-]{30,}|gh[pousr]_\w{20,}")

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

STREAMING = (0, 21)
"""First vLLM release whose TPU image streams from Cloud Storage, without asking the hub."""


def flags_exist_and_are_free(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in serving.items():
        for index, argument in enumerate(said.extra_args):
            path = f"{PATH}.{key}.extraArgs[{index}]"
            flag = flag_of(argument).replace("_", "-")
            if LOOKS_SECRET.search(argument) or flag in SECRET_FLAGS:
                yield _secret(path)
            elif flag == FILE_OF_FLAGS:
                yield Problem(
                    path=path,
                    value=argument,
                    rule="a file of flags that nobody checks, the program's own among them",
                    fix="write its flags here, one by one",
                    source=Source("vLLM docs, 'Configuration file' of vllm serve", READ),
                )
            elif flag in OWNED_FLAGS:
                yield Problem(
                    path=path,
                    value=argument,
                    rule="the program sets this flag itself, or decides it by other means",
                    fix="remove it; a field of this schema decides it where it is to be chosen",
                    source="catalog/serving.py",
                )
            elif rule := flag_error(argument):
                yield Problem(
                    path=path,
                    value=argument.partition("=")[0],
                    rule=rule,
                    fix="correct or remove it; vLLM ends at start on a flag it does not know",
                    source=release().source,
                )


def environment_exists_and_is_free(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in serving.items():
        for name, value in said.extra_env.items():
            path = f"{PATH}.{key}.extraEnv.{name}"
            if LOOKS_SECRET.search(value):
                yield _secret(path)
            elif not VARIABLE.fullmatch(name):
                yield Problem(
                    path=path,
                    value=None,
                    rule="a variable's name has letters, digits and underscores, and does not "
                    "begin with a digit",
                    fix="correct the name",
                    source=Source("POSIX, 'Environment Variables'", READ),
                )
            elif name in OWNED_ENVIRONMENT:
                yield Problem(
                    path=path,
                    value=None,
                    rule="the program sets this name itself, or keeps it out of pod specs",
                    fix="remove it; apiKeySecret and huggingFaceToken are the ways for secrets",
                    source="catalog/serving.py",
                )
            elif rule := environment_error(name):
                yield Problem(
                    path=path,
                    value=value,
                    rule=rule,
                    fix="correct or remove it",
                    source=release().source,
                )


def the_internet_needs_a_key(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    hosts: dict[str, str] = {}
    for key, said in serving.items():
        if not isinstance(said.exposure, Public | RegionalPublic):
            continue
        path = f"{PATH}.{key}.exposure"
        if said.api_key_secret is None:
            yield Problem(
                path=path,
                value="public",
                rule="vLLM asks nobody who they are: whoever finds the address uses the TPUs",
                fix=f"set {PATH}.{key}.apiKeySecret, or exposure: {{kind: internal}}",
                source=VLLM_SECURITY,
            )
        host = said.exposure.host
        if host in hosts:
            yield Problem(
                path=f"{path}.host",
                value=host,
                rule=f"is already the host of {hosts[host]}, and a name has one address",
                fix="give each model a host name of its own",
                source=docs("Deploying Gateways"),
            )
        hosts[host] = key


def images_stay_the_same(
    images: Images, serving: dict[str, ServedModel], cluster: Cluster, protect: bool
) -> Iterator[Problem]:
    for path, image in _images(images, serving, cluster).items():
        yield from stays(path, image, protect=protect)


def the_image_is_the_one_that_is_checked(
    images: Images, serving: dict[str, ServedModel]
) -> Iterator[Problem]:
    for key, said in serving.items():
        image = said.image or images.model_server
        path = f"{PATH}.{key}.image" if said.image else "tpuserve:images.modelServer"
        found = version_of(image)
        if found is None and isinstance(said, SingleHost):
            yield Problem(
                path=path,
                value=image,
                rule="its tag states no release: flags, metrics and streaming are unchecked",
                fix=f"use a tag that begins with a release, v{release().vllm} say",
                source=release().source,
                severity="warning",
            )
        elif found and found != version(release().vllm):
            yield Problem(
                path=path,
                value=image,
                rule=f"flags, environment and metrics are checked against vLLM {release().vllm}",
                fix="read that release's notes for renamed flags and metrics",
                source=release().source,
                severity="warning",
            )


def the_image_can_stream(images: Images, serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in serving.items():
        image = said.image or images.model_server
        found = version_of(image)
        mounted = isinstance(said, SingleHost) and said.loader == "fuse"
        if mounted or found is None:
            continue
        if found < STREAMING:
            yield Problem(
                path=f"{PATH}.{key}.image" if said.image else "tpuserve:images.modelServer",
                value=image,
                rule=f"images before v{STREAMING[0]}.{STREAMING[1]} have no streamer for gs://",
                fix="take a newer image"
                + (", or set loader: fuse" if isinstance(said, SingleHost) else ""),
                source=Source("requirements of vllm-tpu 0.21.0; vllm-project/vllm PR 39155", READ),
            )


def _images(images: Images, serving: dict[str, ServedModel], cluster: Cluster) -> dict[str, str]:
    """Images that will run, by the field that names them."""
    used = {}
    for key, said in serving.items():
        if said.image is not None:
            used[f"{PATH}.{key}.image"] = said.image
        else:
            used["tpuserve:images.modelServer"] = images.model_server
        used["tpuserve:images.staging"] = images.staging
    if needs_adapter(serving, cluster):
        used["tpuserve:images.metricsAdapter"] = images.metrics_adapter
    return used


def _secret(path: str) -> Problem:
    return Problem(
        path=path,
        value=None,
        rule="looks like a secret, and would stand in plain text in state and pod spec",
        fix="revoke it; apiKeySecret and huggingFaceToken are the ways for secrets",
        source="Kubernetes docs, 'Good practices for Kubernetes Secrets'",
    )


CHECKS = (
    flags_exist_and_are_free,
    environment_exists_and_is_free,
    the_internet_needs_a_key,
    images_stay_the_same,
    the_image_is_the_one_that_is_checked,
    the_image_can_stream,
)

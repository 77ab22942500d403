"""Where a model is served: from a stack's outputs, or from an address given by hand."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from catalog import models, sizing

API_KEY_VARIABLE = "TPUSERVE_API_KEY"
"""The only way to hand over a key: an option would end in shell history and process lists."""

_DEFAULT_WAIT_SECONDS = 1800


class EndpointError(Exception):
    """There is no endpoint to talk to; the message says what to do."""


class Service(BaseModel):
    """A Kubernetes Service reached by `kubectl port-forward`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str
    name: str
    port: int = Field(ge=1, le=65535)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `namespace/name:port`. Raises EndpointError."""
        path, _, port = text.rpartition(":")
        namespace, _, name = path.partition("/")
        if not (namespace and name and port.isdigit() and 1 <= int(port) <= 65535):
            msg = f"service {text!r} is not of the form namespace/name:port"
            raise EndpointError(msg)
        return cls(namespace=namespace, name=name, port=int(port))


class Groups(BaseModel):
    """How a model's groups of servers are found and counted, where it has some."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    namespace: str
    gateway: str
    pool: str
    member: str
    """`label=value` of the pods that serve HTTP."""
    prefill: int
    decode: int
    engine_ports: dict[str, int]
    """Where vLLM itself answers, by role."""
    max_model_len: int
    local_prefill_tokens: int = 0


class Endpoint(BaseModel):
    """One served model, as the stack output `endpoints` describes it.

    `url` is the address without the API path; `model` the served model name, None when unknown.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    name: str
    url: str | None = None
    base_path: str = "/v1"
    service: Service | None = None
    context: str | None = None
    """kubectl context; the current one when None."""
    model: str | None = None
    chat: bool | None = None
    """Whether the model has a chat template; None when nobody knows."""
    startup_seconds: int | None = None
    groups: Groups | None = None
    """Prefill and decode on slices of their own, behind a Gateway."""
    address: str | None = None
    """Of that Gateway, as the stack knows it."""
    needs_proof: bool = False
    """Whether nobody has published this model's answers when it is served like this."""

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.url is None and self.service is None:
            msg = "neither url nor service is given"
            raise ValueError(msg)
        if self.url is not None:
            _check_url(self.url)
        return self

    @property
    def expects_chat(self) -> bool | None:
        """Whether chat must work, from the endpoint itself or from the model catalogue."""
        if self.chat is not None or self.model is None:
            return self.chat
        profile = models.MODELS.get(self.model)
        return profile.chat_template if profile else None

    @property
    def wait_seconds(self) -> int:
        """How long the model may take to load before it counts as broken."""
        if self.startup_seconds is not None:
            return self.startup_seconds
        profile = models.MODELS.get(self.model or "")
        return sizing.startup_budget_seconds(profile) if profile else _DEFAULT_WAIT_SECONDS


def choose(
    *,
    stack: str | None,
    url: str | None,
    service: str | None,
    context: str | None,
    endpoint: str | None,
    model: str | None,
) -> list[Endpoint]:
    """The endpoints the options name. Raises EndpointError."""
    if (stack, url, service).count(None) != 2:
        msg = "say what to verify: exactly one of --stack, --url, --service"
        raise EndpointError(msg)
    changes = {"context": context, "model": model}
    given = {name: value for name, value in changes.items() if value is not None}
    if stack is not None:
        found = endpoints_of(read_stack_outputs(stack), endpoint)
        return [each.model_copy(update=given) for each in found]
    target: dict[str, object] = (
        {"url": url.rstrip("/").removesuffix("/v1")}
        if url is not None
        else {"service": Service.parse(service or "")}
    )
    try:
        return [Endpoint.model_validate({"name": "address", **target, **given})]
    except ValidationError as error:
        raise EndpointError(error.errors(include_url=False)[0]["msg"]) from None


def read_stack_outputs(stack: str, folder: Path | None = None) -> dict[str, Any]:
    """What `pulumi stack output --json` prints, secrets masked. Raises EndpointError."""
    command = ["pulumi", "stack", "output", "--json", "--non-interactive", "--stack", stack]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    except FileNotFoundError:
        msg = "pulumi is not on PATH: install it, or give the address with --url"
        raise EndpointError(msg) from None
    except subprocess.TimeoutExpired:
        msg = f"`{' '.join(command)}` gave no answer in 120 s"
        raise EndpointError(msg) from None
    if done.returncode:
        msg = f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}"
        raise EndpointError(msg)
    outputs = json.loads(done.stdout or "{}")
    if not isinstance(outputs, dict):
        msg = f"`{' '.join(command)}` printed no JSON object"
        raise EndpointError(msg)
    return outputs


def endpoints_of(outputs: Mapping[str, Any], only: str | None = None) -> list[Endpoint]:
    """The served models of a stack, all or the one called `only`. Raises EndpointError."""
    table = outputs.get("endpoints")
    if not isinstance(table, Mapping) or not table:
        known = ", ".join(sorted(outputs)) or "none"
        msg = (
            "the stack has no output `endpoints`, so nothing is served yet. "
            f"Outputs present: {known}. Run `pulumi up` to the end, or give --url"
        )
        raise EndpointError(msg)
    if only is not None and only not in table:
        msg = f"the stack serves no endpoint {only!r}; it has {', '.join(sorted(table))}"
        raise EndpointError(msg)
    context = _kubectl_context(outputs.get("cluster"))
    found, problems = [], []
    for name in sorted(table) if only is None else [only]:
        row = table[name] if isinstance(table[name], Mapping) else {}
        try:
            found.append(Endpoint.model_validate({"context": context, **row, "name": name}))
        except ValidationError as error:
            problems += [
                f"endpoints.{name}{''.join(f'.{p}' for p in e['loc'])}: {e['msg']}"
                for e in error.errors(include_url=False)
            ]
    if problems:
        raise EndpointError("; ".join(problems))
    return found


def public_url(url: str) -> str:
    """The address without user, password, query and fragment, fit for logs and evidence."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query:
        msg = f"url {public_url(url)!r} is not of the form http(s)://host[:port][/path]"
        raise ValueError(msg)


def _kubectl_context(cluster: object) -> str | None:
    """The context `gcloud container clusters get-credentials` writes for this cluster."""
    if not isinstance(cluster, Mapping):
        return None
    if isinstance(cluster.get("context"), str):
        return str(cluster["context"])
    parts = [cluster.get(key) for key in ("project", "location", "name")]
    if all(isinstance(part, str) for part in parts):
        return "gke_" + "_".join(str(part) for part in parts)
    return None

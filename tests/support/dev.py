"""The dev stack's graph, as shipped or with changes."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.support.files import stack_config
from tests.support.recorder import Graph, Registered, record
from tests.support.variants import REMOVED, changed

TOKEN_KEY = "tpuserve:huggingFaceToken"
TOKEN = "hf_" + "s3cr3t" * 6

AUTOPILOT = {
    "tpuserve:cluster.mode": "autopilot",
    "tpuserve:cluster.systemPool": REMOVED,
    "tpuserve:tpuPools.trillium.slices.min": 0,
}
OLDER_GKE = {"tpuserve:cluster.version": "1.34.0-gke.1000000"}
"""A version that does not hand metrics to autoscalers."""
WITH_TOKEN = {"tpuserve:storage": {}, TOKEN_KEY: TOKEN}
INTERNAL = {"tpuserve:serving.llama.exposure": {"kind": "internal"}}
PUBLIC = {
    "tpuserve:serving.llama.exposure": {
        "kind": "public",
        "host": "llm.example.com",
        "certificateMap": "my-map",
    },
    "tpuserve:serving.llama.apiKeySecret": "llama-key",
}


def dev(*changes: Mapping[str, Any], **serving: Any) -> Graph:
    """Pulumi.dev.yaml with changes by dotted path, and fields of the served model by name."""
    fields = {f"tpuserve:serving.llama.{key}": value for key, value in serving.items()}
    every = {key: value for each in (*changes, fields) for key, value in each.items()}
    return _recorded(json.dumps(every, sort_keys=True))


@cache
def _recorded(changes: str) -> Graph:
    config = changed(stack_config("dev"), json.loads(changes))
    secrets = [TOKEN_KEY] if TOKEN_KEY in config else []
    return record(config, secrets=secrets)


def pod(resource: Registered) -> dict[str, Any]:
    """The pod template's spec of a Deployment or a Job."""
    return dict(resource.inputs["spec"]["template"]["spec"])


def container(resource: Registered, name: str) -> dict[str, Any]:
    spec = pod(resource)
    every = [*spec.get("initContainers", ()), *spec["containers"]]
    return next(each for each in every if each["name"] == name)

"""Event logs made by hand, for what no recording holds."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ops.preview.events import EventLog, parse, read
from ops.preview.plan import Plan, build
from ops.preview.redact import Redactor

EVENTS = Path(__file__).with_name("events")
SECRET = {
    "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
    "ciphertext": "[secret]",
}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
STACK_URN = "urn:pulumi:prod::tpuserve::pulumi:pulumi:Stack::tpuserve-prod"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def recorded(name: str, redactor: Redactor | None = None) -> Plan:
    path = EVENTS / (name if "." in name else f"{name}.jsonl")
    return build(read(path), redactor)


def urn(kind: str, name: str, stack: str = "prod") -> str:
    return f"urn:pulumi:{stack}::tpuserve::{kind}::{name}"


def state(
    kind: str, name: str, inputs: dict[str, Any], *, stack: str = "prod", **more: Any
) -> dict[str, Any]:
    return {
        "type": kind,
        "urn": urn(kind, name, stack),
        "custom": True,
        "id": "",
        "parent": STACK_URN,
        "inputs": inputs,
        "outputs": {},
        "provider": "",
        **more,
    }


def step(
    op: str,
    kind: str,
    name: str,
    *,
    old: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
    forced: Iterable[str] = (),
    detail: dict[str, str] | None = None,
    stack: str = "prod",
    old_options: dict[str, Any] | None = None,
    new_options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One resourcePreEvent; `detail` maps property paths to kinds of difference."""
    return {
        "resourcePreEvent": {
            "planning": True,
            "metadata": {
                "op": op,
                "urn": urn(kind, name, stack),
                "type": kind,
                "old": old and state(kind, name, old, stack=stack, **(old_options or {})),
                "new": new and state(kind, name, new, stack=stack, **(new_options or {})),
                "keys": list(forced) or None,
                "diffs": None,
                "detailedDiff": detail
                and {path: {"diffKind": d, "inputDiff": True} for path, d in detail.items()},
                "provider": "",
            },
        }
    }


def policy(name: str, level: str, message: str, kind: str, resource: str) -> dict[str, Any]:
    return {
        "policyEvent": {
            "resourceUrn": urn(kind, resource),
            "message": message,
            "policyName": name,
            "policyPackName": "tpuserve",
            "enforcementLevel": level,
        }
    }


def ended(result: str = "succeeded") -> list[dict[str, Any]]:
    return [{"summaryEvent": {"result": result, "isPreview": True}}, {"cancelEvent": {}}]


def log(*events: dict[str, Any], end: bool = True) -> EventLog:
    return parse(json.dumps(event) for event in [*events, *(ended() if end else [])])


def plan(*events: dict[str, Any], redactor: Redactor | None = None, end: bool = True) -> Plan:
    return build(log(*events, end=end), redactor)


def pool_inputs(**changes: Any) -> dict[str, Any]:
    """A single-host Trillium pool of one node, four chips, on demand."""
    node = {"machineType": "ct6e-standard-4t", **changes.pop("node", {})}
    return {
        "name": "trillium",
        "location": "us-central1",
        "nodeLocations": ["us-central1-b"],
        "nodeCount": 1,
        "nodeConfig": node,
        **changes,
    }

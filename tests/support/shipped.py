"""Every stack file that ships, and the shapes of prod that a page offers."""

from functools import cache
from typing import Any

import yaml

from tests.support.files import ROOT, stack_config
from tests.support.recorder import Graph, record
from tests.support.variants import changed

EXAMPLES = {file.parent.name: file for file in sorted(ROOT.glob("examples/*/Pulumi.*.yaml"))}

QWEN = "tpuserve:serving.qwen"
OF_PROD: dict[str, dict[str, Any]] = {
    "two hosts": {f"{QWEN}.slice": "2x2x2"},
    "public": {
        f"{QWEN}.apiKeySecret": "key",
        f"{QWEN}.exposure": {"kind": "public", "host": "llm.example.com", "certificate": "mine"},
    },
}
NAMES = ("dev", "prod", *EXAMPLES, *OF_PROD)


def example(name: str) -> dict[str, Any]:
    """The `config:` mapping of an example's stack file."""
    return dict(yaml.safe_load(EXAMPLES[name].read_text())["config"])


@cache
def shipped(name: str) -> Graph:
    """The graph of a stack file, an example or a variant of prod."""
    if name in EXAMPLES:
        return record(example(name))
    if name in OF_PROD:
        return record(changed(stack_config("prod"), OF_PROD[name]))
    return record(stack_config(name))

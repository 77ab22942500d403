"""The slicing lab, the stack with everything of queues in it."""

from typing import Any

import yaml

from tests.support.files import ROOT

FILE = ROOT / "examples" / "slicing-lab" / "Pulumi.lab.yaml"


def lab_config() -> dict[str, Any]:
    """The `config:` mapping of the lab's stack file."""
    return dict(yaml.safe_load(FILE.read_text())["config"])

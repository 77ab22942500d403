"""An object of a custom kind, sent as it is written."""

from collections.abc import Mapping
from typing import Any

import pulumi


class Manifest(pulumi.CustomResource):
    """Any custom kind: kubernetes.apiextensions.CustomResource takes no field but `spec`, and a
    priority class keeps its value beside it."""

    metadata: pulumi.Output[Any]

    def __init__(
        self, name: str, body: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        token = f"kubernetes:{body['apiVersion']}:{body['kind']}"
        super().__init__(token, name, dict(body), opts)

    @property
    def name(self) -> pulumi.Output[str]:
        """The object's name, once it exists: what refers to it goes before it and comes after."""
        name: pulumi.Output[str] = self.metadata["name"]
        return name


def waiting_for(condition: str, seconds: int) -> dict[str, str]:
    """Annotations by which the provider waits; by itself it waits for no custom kind."""
    return {"pulumi.com/waitFor": condition, "pulumi.com/timeoutSeconds": str(seconds)}

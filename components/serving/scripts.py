"""The staging package in a namespace of the queues, for the containers beside a server."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from components import pods


@dataclass(frozen=True, kw_only=True)
class ServerScriptsArgs:
    namespace: pulumi.Input[str]


class ServerScripts(pulumi.ComponentResource):
    """One copy a namespace, however many models are served in it."""

    scripts: k8s.core.v1.ConfigMap

    def __init__(
        self, name: str, args: ServerScriptsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:ServerScripts", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.scripts = pods.scripts(f"{name}-scripts", args.namespace, child)
        self.register_outputs({})

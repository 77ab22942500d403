"""What model servers need once in a namespace of the queues, however many models it has."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from components import pods


@dataclass(frozen=True, kw_only=True)
class ServerHomeArgs:
    namespace: pulumi.Input[str]


class ServerHome(pulumi.ComponentResource):
    """The staging package for the containers beside a server, and closed doors for all pods."""

    scripts: k8s.core.v1.ConfigMap

    def __init__(
        self, name: str, args: ServerHomeArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:ServerHome", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.scripts = pods.scripts(f"{name}-scripts", args.namespace, child)
        pods.deny_all(f"{name}-deny-all", args.namespace, child, physical="servers-deny-all")
        self.register_outputs({})

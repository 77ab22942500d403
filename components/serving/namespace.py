"""A namespace for model servers: nobody comes in but by name."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from components import pods


@dataclass(frozen=True, kw_only=True)
class ServingNamespaceArgs:
    namespace: str


class ServingNamespace(pulumi.ComponentResource):
    """A namespace whose pods are closed to the network until a policy opens them."""

    namespace: pulumi.Output[str]
    scripts: k8s.core.v1.ConfigMap
    """The staging package, for the containers beside a server."""

    def __init__(
        self, name: str, args: ServingNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:ServingNamespace", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)

        # vLLM's image runs as root, which the restricted level refuses.
        home = pods.namespace(f"{name}-namespace", args.namespace, level="baseline", opts=child)
        self.namespace = home.metadata.name
        pods.deny_all(f"{name}-deny-all", self.namespace, child)
        self.scripts = pods.scripts(f"{name}-scripts", self.namespace, child)
        self.register_outputs({"namespace": self.namespace})

"""The way from a Gateway to a Service: what counts as healthy, and how long an answer may take."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from catalog.serving import API_PATH, FINISH_SECONDS, PORT

ANSWER_SECONDS = 3600
"""The load balancer's default of 30 s cuts long answers off."""


@dataclass(frozen=True, kw_only=True)
class ServiceRouteArgs:
    namespace: pulumi.Input[str]
    gateway: pulumi.Input[str]
    service: pulumi.Input[str]
    health_path: str
    security_policy: str | None
    """Cloud Armor policy of a public route."""
    after: Sequence[pulumi.Resource]
    """The Gateway; the route comes last, for errors of an early one stick."""


class ServiceRoute(pulumi.ComponentResource):
    """Requests of a Gateway to the API of one Service, and to nothing beside it."""

    def __init__(
        self, name: str, args: ServiceRouteArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:ServiceRoute", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        target = {"group": "", "kind": "Service", "name": args.service}
        metadata = k8s.meta.v1.ObjectMetaArgs(name=name, namespace=args.namespace)

        health = k8s.apiextensions.CustomResource(
            f"{name}-health",
            api_version="networking.gke.io/v1",
            kind="HealthCheckPolicy",
            metadata=metadata,
            spec={
                "targetRef": target,
                "default": {
                    "checkIntervalSec": 10,
                    "timeoutSec": 5,
                    "healthyThreshold": 1,
                    "unhealthyThreshold": 3,
                    "config": {
                        "type": "HTTP",
                        # GKE's own check asks for `/`, which vLLM answers with 404.
                        "httpHealthCheck": {"port": PORT, "requestPath": args.health_path},
                    },
                },
            },
            opts=child,
        )
        backend: dict[str, object] = {
            "timeoutSec": ANSWER_SECONDS,
            "connectionDraining": {"drainingTimeoutSec": FINISH_SECONDS},
            "logging": {"enabled": True},
        }
        if args.security_policy is not None:
            backend["securityPolicy"] = args.security_policy
        policy = k8s.apiextensions.CustomResource(
            f"{name}-backend",
            api_version="networking.gke.io/v1",
            kind="GCPBackendPolicy",
            metadata=metadata,
            spec={"targetRef": target, "default": backend},
            opts=child,
        )
        k8s.apiextensions.CustomResource(
            f"{name}-route",
            api_version="gateway.networking.k8s.io/v1",
            kind="HTTPRoute",
            metadata=metadata,
            spec={
                "parentRefs": [{"name": args.gateway}],
                "rules": [
                    {
                        "matches": [{"path": {"type": "PathPrefix", "value": API_PATH}}],
                        "backendRefs": [{"name": args.service, "port": PORT}],
                    }
                ],
            },
            opts=child.merge(pulumi.ResourceOptions(depends_on=[health, policy, *args.after])),
        )
        self.register_outputs({})

"""The way from a Gateway to an InferencePool: what is healthy, and how long an answer may take."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from catalog.router import POOL_GROUP
from catalog.serving import API_PATH, FINISH_SECONDS, PORT


@dataclass(frozen=True, kw_only=True)
class PoolRouteArgs:
    namespace: pulumi.Input[str]
    gateway: pulumi.Input[str]
    pool: pulumi.Input[str]
    health_path: str
    answer_seconds: int
    security_policy: str | None
    router: pulumi.Resource
    """Pool and picker exist with it: a route that comes before them keeps its errors."""
    programmed: pulumi.Resource


class PoolRoute(pulumi.ComponentResource):
    """Requests of a Gateway to the API of one pool; policies first, the route last."""

    route: pulumi.Resource

    def __init__(
        self, name: str, args: PoolRouteArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:PoolRoute", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        after_pool = child.merge(pulumi.ResourceOptions(depends_on=[args.router]))
        target = {"group": POOL_GROUP, "kind": "InferencePool", "name": args.pool}
        metadata = k8s.meta.v1.ObjectMetaArgs(name=name, namespace=args.namespace)

        health = k8s.apiextensions.CustomResource(
            f"{name}-health",
            api_version="networking.gke.io/v1",
            kind="HealthCheckPolicy",
            metadata=metadata,
            spec={
                "targetRef": target,
                "default": {
                    "checkIntervalSec": 5,
                    "timeoutSec": 5,
                    "healthyThreshold": 1,
                    "unhealthyThreshold": 3,
                    "config": {
                        "type": "HTTP",
                        # A decode server's sidecar answers /health while the model still loads.
                        "httpHealthCheck": {"port": PORT, "requestPath": args.health_path},
                    },
                },
            },
            opts=after_pool,
        )
        backend: dict[str, object] = {
            "timeoutSec": args.answer_seconds,
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
            opts=after_pool,
        )
        self.route = k8s.apiextensions.CustomResource(
            f"{name}-route",
            api_version="gateway.networking.k8s.io/v1",
            kind="HTTPRoute",
            metadata=metadata,
            spec={
                "parentRefs": [{"name": args.gateway}],
                "rules": [
                    {
                        "matches": [{"path": {"type": "PathPrefix", "value": API_PATH}}],
                        "backendRefs": [target],
                    }
                ],
            },
            opts=child.merge(
                pulumi.ResourceOptions(depends_on=[health, policy, args.router, args.programmed])
            ),
        )
        self.register_outputs({})

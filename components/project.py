"""The project's APIs, and the preview feature that shows AI zones."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

SERVICES = (
    "cloudresourcemanager",
    "compute",
    "container",
    "iam",
    "iamcredentials",
    "logging",
    "monitoring",
    "secretmanager",
    "storage",
)
"""Short names: `compute` stands for compute.googleapis.com."""


@dataclass(frozen=True, kw_only=True)
class ProjectServicesArgs:
    project: str
    ai_zones: bool


class ProjectServices(pulumi.ComponentResource):
    """The APIs the stack calls; they stay on when it is destroyed, for others may use them."""

    def __init__(
        self,
        name: str,
        args: ProjectServicesArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("tpuserve:project:ProjectServices", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)

        self.services = {
            service: gcp.projects.Service(
                f"{name}-{service}",
                project=args.project,
                service=f"{service}.googleapis.com",
                disable_on_destroy=False,
                disable_dependent_services=False,
                opts=child,
            )
            for service in SERVICES
        }
        if args.ai_zones:
            gcp.compute.PreviewFeature(
                f"{name}-ai-zones",
                project=args.project,
                # The feature cannot be switched off through the provider: delete only forgets it.
                name="ai-zones-visibility",
                activation_status="ENABLED",
                rollout_operation=gcp.compute.PreviewFeatureRolloutOperationArgs(
                    rollout_input=gcp.compute.PreviewFeatureRolloutOperationRolloutInputArgs(
                        predefined_rollout_plan="ROLLOUT_PLAN_FAST_ROLLOUT",
                    )
                ),
                opts=child.merge(pulumi.ResourceOptions(depends_on=[self.services["compute"]])),
            )
        self.register_outputs({})

"""The home of tpuserve's stacks: state, secrets, identities. Brought up once, by a person."""

import pulumi
import pulumi_gcp as gcp
from federation import Federation, FederationArgs, Identity
from settings import Home
from stack_home import StackHome, StackHomeArgs

SERVICES = ("cloudkms", "cloudresourcemanager", "iam", "iamcredentials", "storage", "sts")

# This project is apart from the one whose configuration config/load.py reads.
config = pulumi.Config()
home = Home.model_validate(config.require_object("home"))
project = pulumi.Config("gcp").require("project")

services = [
    gcp.projects.Service(
        f"api-{service}",
        project=project,
        service=f"{service}.googleapis.com",
        disable_on_destroy=False,
    )
    for service in SERVICES
]
after_services = pulumi.ResourceOptions(depends_on=services)
ring = gcp.kms.KeyRing(
    "secrets",
    name="tpuserve",
    project=project,
    location=home.location,
    opts=pulumi.ResourceOptions(depends_on=services, protect=home.protect),
)
homes = {
    stack: StackHome(
        stack,
        StackHomeArgs(
            project=project,
            location=home.location,
            stack=stack,
            key_ring=ring.id,
            people=home.people,
            preview_roles=home.preview_roles,
            apply_roles=home.apply_roles,
            protect=home.protect,
        ),
        after_services,
    )
    for stack in home.stacks
}
pulumi.export(
    "stacks",
    {
        stack: {
            "backend": pulumi.Output.concat("gs://", each.bucket),
            "secretsProvider": pulumi.Output.concat("gcpkms://", each.key),
            "environments": {
                f"preview-{stack}": each.preview.email,
                stack: each.apply_.email,
            },
        }
        for stack, each in homes.items()
    },
)
if home.github:
    federation = Federation(
        "github",
        FederationArgs(
            project=project,
            repository=home.github.repository,
            owner=home.github.owner,
            branch=home.github.branch,
            identities=tuple(
                Identity(name=f"{role}-{stack}", environment=environment, account=account.name)
                for stack, each in homes.items()
                for role, environment, account in (
                    ("preview", f"preview-{stack}", each.preview),
                    ("apply", stack, each.apply_),
                )
            ),
        ),
        after_services,
    )
    pulumi.export("workloadIdentityProvider", federation.provider)

"""GitHub Actions takes Google identities without a stored key."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

ISSUER = "https://token.actions.githubusercontent.com"
USER = "roles/iam.workloadIdentityUser"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A service account and the GitHub environment whose jobs may be it."""

    name: str
    environment: str
    account: pulumi.Output[str]


@dataclass(frozen=True, kw_only=True)
class FederationArgs:
    project: str
    repository: int
    owner: int
    branch: str
    identities: tuple[Identity, ...]


class Federation(pulumi.ComponentResource):
    """One pool that trusts one repository, and for each environment one identity."""

    provider: pulumi.Output[str]

    def __init__(
        self, name: str, args: FederationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:bootstrap:Federation", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)

        pool = gcp.iam.WorkloadIdentityPool(
            f"{name}-pool",
            workload_identity_pool_id="tpuserve-github",
            project=args.project,
            display_name="tpuserve on GitHub Actions",
            opts=child,
        )
        provider = gcp.iam.WorkloadIdentityPoolProvider(
            f"{name}-provider",
            workload_identity_pool_id=pool.workload_identity_pool_id,
            workload_identity_pool_provider_id="github",
            project=args.project,
            display_name="GitHub Actions",
            attribute_mapping={
                "google.subject": "assertion.sub",
                "attribute.repository_id": "assertion.repository_id",
                "attribute.environment": "assertion.environment",
            },
            attribute_condition=condition(args.repository, args.owner, args.branch),
            oidc=gcp.iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=ISSUER),
            opts=child,
        )
        for identity in args.identities:
            gcp.serviceaccount.IAMMember(
                f"{name}-{identity.name}",
                service_account_id=identity.account,
                role=USER,
                member=pulumi.Output.format(
                    "principalSet://iam.googleapis.com/{0}/attribute.environment/{1}",
                    pool.name,
                    identity.environment,
                ),
                opts=child,
            )

        self.provider = provider.name
        self.register_outputs({"provider": self.provider})


def condition(repository: int, owner: int, branch: str) -> str:
    """Whose tokens the pool takes, in CEL.

    Numeric ids, for names can change hands. A token without an environment has no
    `assertion.environment`, and CEL answers that with an error, which refuses it. Only previews
    may come from anywhere but the branch.
    """
    return (
        f"assertion.repository_id == '{repository}'"
        f" && assertion.repository_owner_id == '{owner}'"
        " && (assertion.environment.startsWith('preview-')"
        f" || assertion.ref == 'refs/heads/{branch}')"
    )

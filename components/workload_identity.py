"""Pods as principals of IAM: no key, no service account to borrow."""

import pulumi


def principal(
    project: str, number: pulumi.Input[str], *, namespace: str, account: str
) -> pulumi.Output[str]:
    """A service account's member name (GKE docs, 'About Workload Identity Federation for GKE')."""
    return pulumi.Output.concat(
        "principal://iam.googleapis.com/projects/",
        number,
        f"/locations/global/workloadIdentityPools/{project}.svc.id.goog"
        f"/subject/ns/{namespace}/sa/{account}",
    )

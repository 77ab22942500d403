"""IAM, APIs, secrets and keys of the project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules import links
from rules.kinds import (
    BUCKET_BINDING,
    BUCKET_MEMBER,
    BUCKET_POLICY,
    CRYPTO_KEY,
    PROJECT_BINDING,
    PROJECT_MEMBER,
    PROJECT_POLICY,
    SA_KEY,
    SA_MEMBER,
    SECRET,
    SECRET_BINDING,
    SECRET_MEMBER,
    SERVICE,
)
from rules.model import DROP, Guard, Reference, Resource, Selector, Setting, Severity, Stack, rule
from rules.ranges import known

PROJECT_GRANTS = PROJECT_MEMBER | PROJECT_BINDING
ALL_GRANTS = PROJECT_GRANTS | BUCKET_MEMBER | BUCKET_BINDING | SECRET_MEMBER | SA_MEMBER
GOOGLE_CLOUD = Selector("Google Cloud resources", lambda t: t.startswith("gcp:"))

# Which API answers for a resource type; the prefix is Pulumi's module name.
APIS = {
    "gcp:compute/": "compute.googleapis.com",
    "gcp:container/": "container.googleapis.com",
    "gcp:secretmanager/": "secretmanager.googleapis.com",
    "gcp:monitoring/": "monitoring.googleapis.com",
    "gcp:kms/": "cloudkms.googleapis.com",
}


def _members(grant: Resource) -> list[str]:
    return [m for m in [grant.text("member"), *grant.texts("members")] if m]


@rule(
    "IAM-01",
    "No primitive roles.",
    severity=Severity.HIGH,
    on=PROJECT_GRANTS,
    fix="Grant the narrow roles that are needed.",
    url=links.IAM,
    refs=[links.gcp_cis("1.5"), links.checkov("CKV_GCP_49"), links.checkov("CKV_GCP_117")],
    guards=[Guard("role", "roles/editor"), Guard("role", "roles/owner")],
)
def no_primitive_roles(grant: Resource) -> Iterator[str]:
    role = grant.text("role")
    if role in {"roles/owner", "roles/editor", "roles/viewer"}:
        yield f"role is {role}: grant the narrow roles that are needed"


@rule(
    "IAM-02",
    "Impersonation is granted on one account, not on the project.",
    severity=Severity.HIGH,
    on=PROJECT_GRANTS,
    fix="Grant the role on the service account.",
    url=links.IAM,
    refs=[links.gcp_cis("1.6"), links.checkov("CKV_GCP_41"), links.trivy("GCP-0011")],
    guards=[
        Guard("role", "roles/iam.serviceAccountTokenCreator"),
        Guard("role", "roles/iam.serviceAccountUser"),
    ],
)
def no_project_impersonation(grant: Resource) -> Iterator[str]:
    role = grant.text("role")
    if role in {"roles/iam.serviceAccountTokenCreator", "roles/iam.serviceAccountUser"}:
        yield f"{role} on the project reaches every account: grant it on the one account"


@rule(
    "IAM-03",
    "Default service accounts get nothing.",
    severity=Severity.HIGH,
    on=ALL_GRANTS,
    fix="Grant the role to an account made for the purpose.",
    url=links.IAM,
    refs=[links.checkov("CKV_GCP_46"), links.trivy("GCP-0006")],
    guards=[Guard("member", "serviceAccount:1-compute@developer.gserviceaccount.com")],
)
def not_default_accounts(grant: Resource) -> Iterator[str]:
    for member in _members(grant):
        if member.endswith(
            ("-compute@developer.gserviceaccount.com", "@appspot.gserviceaccount.com")
        ):
            yield "the member is a default service account: make one for the purpose"


@rule(
    "IAM-04",
    "Roles go to groups and workloads, not to single people.",
    severity=Severity.MEDIUM,
    on=ALL_GRANTS,
    fix="Grant the role to a group.",
    url=links.IAM,
    refs=[links.trivy("GCP-0003")],
    guards=[Guard("member", "user:someone@example.com")],
)
def no_single_people(grant: Resource) -> Iterator[str]:
    if any(member.startswith("user:") for member in _members(grant)):
        yield "the member is one person: grant the role to a group"


@rule(
    "IAM-05",
    "Grants add members and never take over a whole policy.",
    severity=Severity.HIGH,
    on=PROJECT_POLICY | PROJECT_BINDING | BUCKET_POLICY,
    fix="Use IAMMember resources; IAMPolicy and IAMBinding wipe what others granted.",
    url=links.IAM,
)
def members_only(grant: Resource) -> Iterator[str]:
    yield f"{grant.title} is authoritative and wipes others' grants: use IAMMember"


@rule(
    "IAM-06",
    "No service-account keys.",
    severity=Severity.HIGH,
    on=SA_KEY,
    fix="Use Workload Identity or federation.",
    url=links.IAM,
    refs=[links.gcp_cis("1.4"), links.checkov("CKV2_GCP_3")],
)
def no_account_keys(key: Resource) -> Iterator[str]:
    yield f"{key.title} is a long-lived secret: use Workload Identity or federation"


@rule(
    "IAM-08",
    "Pods are granted roles directly, as Workload Identity principals.",
    severity=Severity.MEDIUM,
    on=SA_MEMBER,
    fix="Grant the role to principal://iam.googleapis.com/.../subject/ns/NAMESPACE/sa/NAME.",
    url=links.WORKLOAD_IDENTITY,
    guards=[Guard("role", "roles/iam.workloadIdentityUser")],
)
def direct_principals(grant: Resource) -> Iterator[str]:
    if grant.text("role") == "roles/iam.workloadIdentityUser":
        yield "the pod borrows a service account: grant its own principal:// the role instead"


@rule(
    "API-01",
    "Destroying the stack leaves the project's APIs on.",
    severity=Severity.HIGH,
    on=SERVICE,
    fix="Leave disableOnDestroy unset or false.",
    url=links.IAM,
    guards=[Guard("disableOnDestroy", True)],
)
def apis_stay_on(service: Resource) -> Iterator[str]:
    if service.flag("disableOnDestroy") is True:
        yield "disableOnDestroy is on: destroying this stack would break others; set it to false"


@rule(
    "API-02",
    "What an API answers for is made after the API is on.",
    severity=Severity.MEDIUM,
    on=GOOGLE_CLOUD.where("resources of an API", lambda r: _api(r) is not None),
    whole_stack=True,
    fix="Let it depend on the Service resource, directly or through what it uses.",
    url=links.RESOURCE_OPTIONS,
)
def after_its_api(resource: Resource, stack: Stack) -> Iterator[str]:
    urns = stack.urns()
    if not any(r.dependencies for r in urns.values()):
        return
    services = {s.urn for s in stack.of(SERVICE) if known(s, "service") == _api(resource)}
    if services and not services & _reaches(resource, urns):
        yield f"it does not depend on the Service {_api(resource)}: a first `up` may fail"


def _api(resource: Resource) -> str | None:
    return next((a for prefix, a in APIS.items() if resource.type.startswith(prefix)), None)


def _reaches(resource: Resource, urns: dict[str, Resource]) -> set[str]:
    """Everything a resource waits for: what it and its components depend on, and so on."""
    seen: set[str] = set()
    todo = [resource.urn]
    while todo:
        urn = todo.pop()
        if urn in seen or urn not in urns:
            continue
        seen.add(urn)
        found = urns[urn]
        todo += [*found.dependencies, *([found.parent] if found.parent else [])]
    return seen


@rule(
    "KMS-01",
    "Keys rotate within 90 days and are protected.",
    severity=Severity.MEDIUM,
    on=CRYPTO_KEY,
    fix="Set rotationPeriod to 7776000s or less, and protect.",
    url=links.KMS,
    refs=[links.gcp_cis("1.10")],
    guards=[
        Guard("rotationPeriod", DROP),
        Guard("rotationPeriod", "31536000s"),
        Guard("@protect", False),
    ],
)
def keys_rotate(key: Resource) -> Iterator[str]:
    period = (key.text("rotationPeriod") or "").removesuffix("s")
    if not period.isdigit() or int(period) > 90 * 24 * 3600:
        yield "rotationPeriod is longer than 90 days or missing: set 7776000s"
    if not key.options.protect:
        yield "the key is not protected: what it encrypts is lost with it; set protect"


@rule(
    "SEC-02",
    "Secrets have a rotation reminder and are protected from deletion.",
    severity=Severity.LOW,
    on=SECRET,
    fix="Set rotation and deletionProtection.",
    url=links.SECRETS,
    refs=[Reference("GKE golden path", "2026-08", "")],
    guards=[
        Guard("rotation", DROP),
        Guard("deletionProtection", False),
        Guard("deletionProtection", DROP),
    ],
)
def secrets_rotate(secret: Resource) -> Iterator[str]:
    if not secret.has("rotation"):
        yield "rotation is missing: set a rotation period, with a topic that reminds"
    if secret.flag("deletionProtection") is not True:
        yield "deletionProtection is off: set it to true"


@rule(
    "SEC-03",
    "A secret is read by one named principal.",
    severity=Severity.HIGH,
    on=SECRET_MEMBER | SECRET_BINDING,
    fix="Grant roles/secretmanager.secretAccessor to one workload.",
    url=links.SECRETS,
    settings={
        "roles": Setting(
            "array",
            ["roles/secretmanager.secretAccessor"],
            "roles a secret may be granted with",
        )
    },
    guards=[
        Guard("member", "allUsers"),
        Guard("member", "allAuthenticatedUsers"),
        Guard("member", "domain:example.com"),
        Guard("member", "projectEditor:p"),
        Guard("role", "roles/secretmanager.admin"),
    ],
)
def one_reader(grant: Resource, settings: dict[str, Any]) -> Iterator[str]:
    role = grant.text("role")
    if role is not None and role not in settings["roles"]:
        yield f"role is {role}: use one of {', '.join(settings['roles'])}"
    wide = ("allUsers", "allAuthenticatedUsers", "domain:", "project", "principalSet:")
    for member in _members(grant):
        if member.startswith(wide):
            yield "the secret is granted to many: grant it to one workload"


RULES = [
    no_primitive_roles,
    no_project_impersonation,
    not_default_accounts,
    no_single_people,
    members_only,
    no_account_keys,
    direct_principals,
    apis_stay_on,
    after_its_api,
    keys_rotate,
    secrets_rotate,
    one_reader,
]

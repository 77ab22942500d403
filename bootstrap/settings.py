"""What the bootstrap's stack file may say."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

# A service account's id has at most 30 characters, `tpuserve-preview-` takes 17 of them.
StackName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,11}[a-z0-9]$")]
Member = Annotated[str, StringConstraints(pattern=r"^(user|group|serviceAccount|domain):\S+$")]
Role = Annotated[str, StringConstraints(pattern=r"^(roles|projects|organizations)/\S+$")]

PREVIEW_ROLES = (
    "roles/browser",
    "roles/compute.viewer",
    "roles/container.viewer",
    "roles/iam.securityReviewer",
    "roles/monitoring.viewer",
    "roles/secretmanager.viewer",
    "roles/serviceusage.serviceUsageViewer",
)
# These reach every account of the project (policy IAM-02 says so of serviceAccountUser): nodes run
# as an account the stack itself makes, so there is none to name here. Give tpuserve a project of
# its own.
APPLY_ROLES = (
    "roles/browser",
    "roles/compute.admin",
    "roles/container.admin",
    "roles/iam.serviceAccountAdmin",
    "roles/iam.serviceAccountUser",
    "roles/monitoring.editor",
    "roles/resourcemanager.projectIamAdmin",
    "roles/secretmanager.admin",
    "roles/serviceusage.serviceUsageAdmin",
    "roles/storage.admin",
)


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class GitHub(_Section):
    """The one repository whose workflows may take the identities, by its numeric ids."""

    repository: PositiveInt
    owner: PositiveInt
    branch: Annotated[str, StringConstraints(pattern=r"^[\w./-]+$")] = "main"


class Home(_Section):
    """Where state lives, for which stacks, and who may come near it."""

    location: Annotated[str, StringConstraints(pattern=r"^[a-z]+-[a-z]+\d+$")]
    stacks: tuple[StackName, ...] = Field(min_length=1)
    people: tuple[Member, ...] = ()
    github: GitHub | None = None
    preview_roles: tuple[Role, ...] = PREVIEW_ROLES
    apply_roles: tuple[Role, ...] = APPLY_ROLES
    protect: bool = True

    @model_validator(mode="after")
    def _stacks_are_named_once(self) -> Self:
        if len(set(self.stacks)) < len(self.stacks):
            msg = f"stacks: a name stands twice in {', '.join(self.stacks)}"
            raise ValueError(msg)
        return self

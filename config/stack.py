"""A whole stack file: its sections, read and checked together."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from catalog.names import ACCOUNTS, LONGEST_STACK_NAME
from config import translate
from config.checks import CHECKS
from config.cluster import Cluster
from config.fields import (
    LabelKey,
    LabelValue,
    ProjectId,
    ResourceName,
    Section,
    UnreadError,
    matching,
)
from config.images import Images
from config.location import Location
from config.network import Network
from config.observability import Observability
from config.problem import ConfigError, Problem, nearest
from config.queueing import Queueing
from config.serving import ServedModel
from config.storage import Storage
from config.tpu_pools import DynamicPool, TpuPool

NAMESPACE = "tpuserve"
PROJECT_KEY = "gcp:project"

HUGGING_FACE_TOKEN = "huggingFaceToken"  # noqa: S105  the name of a key
SECRETS = (HUGGING_FACE_TOKEN,)
"""Keys that hold a secret beside the sections; only whether they are there is looked at."""

StackName = Annotated[
    ResourceName,
    matching(
        rf".{{3,{LONGEST_STACK_NAME}}}",
        f"3 to {LONGEST_STACK_NAME} characters, for the id of the nodes' account is made from it",
        ACCOUNTS,
    ),
]


class Stack(Section):
    """Everything a stack file says."""

    project: ProjectId
    """The Google Cloud project; it must exist and be billed."""
    name: StackName
    """Name of the cluster and prefix of the rest; without it `tpuserve-STACK`."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels on everything that is billed, beside `managed-by` and `stack`."""
    protect: bool = False
    """Refuse to delete or replace network, cluster and pools, and lock the cluster itself."""
    location: Location
    network: Network
    cluster: Cluster
    tpu_pools: dict[ResourceName, TpuPool] = Field(default_factory=dict)
    images: Images = Images()
    storage: Storage = Storage()
    serving: dict[ResourceName, ServedModel] = Field(default_factory=dict)
    observability: Observability = Observability()
    queueing: Queueing | None = None
    """Left out, nothing is installed for queues."""

    @property
    def slices_dynamically(self) -> bool:
        return any(isinstance(pool, DynamicPool) for pool in self.tpu_pools.values())

    @property
    def resource_labels(self) -> dict[str, str]:
        """Labels of everything that is billed; the stack's own words win."""
        return {"managed-by": NAMESPACE, "stack": self.name, **self.labels}


@dataclass(frozen=True)
class Report:
    """A stack where the file allows one, and all that is wrong or doubtful."""

    stack: Stack | None
    problems: list[Problem]

    @property
    def errors(self) -> list[Problem]:
        return [each for each in self.problems if each.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        return [each for each in self.problems if each.severity == "warning"]

    def require(self) -> Stack:
        """The stack, or every error at once."""
        if self.stack is None or self.errors:
            raise ConfigError(self.errors)
        return self.stack


def check(config: Mapping[Any, Any], *, name: str, today: date) -> Report:
    """Read the `config:` mapping of a stack file; `name` stands in where the file gives none."""
    sections, secrets, problems = _split(config, name)
    values: dict[str, Any] = {}
    for field, info in Stack.model_fields.items():
        value, found = _read(field, info, sections)
        problems += found
        if value is not None or not found:
            values[field] = value
    beside = {
        "today": today,
        "secrets": secrets,
        "named_pools": _named(sections, "tpu_pools"),
        "named_models": _named(sections, "serving"),
    }
    problems += _cross_checks({**values, **beside})
    if any(each.severity == "error" for each in problems):
        return Report(None, problems)
    by_alias = {_alias(field): value for field, value in values.items()}
    return Report(Stack.model_validate(by_alias), problems)


def _named(sections: Mapping[str, Any], field: str) -> frozenset[str]:
    """Keys of a section that is a map, those of wrong entries too."""
    raw = sections.get(_alias(field))
    return frozenset(map(str, raw) if isinstance(raw, Mapping) else ())


def _split(
    config: Mapping[Any, Any], name: str
) -> tuple[dict[str, Any], frozenset[str], list[Problem]]:
    """Sections by key, the secrets that are given, and the keys that no program reads."""
    known = {_alias(field) for field in Stack.model_fields} - {"project"}
    sections: dict[str, Any] = {"name": name}
    secrets, problems = set(), []
    for key, value in config.items():
        if not isinstance(key, str):
            fix = f"put it in quotes, or remove it; keys here are like {NAMESPACE}:network"
            problems.append(Problem(path=f"config.{key}", value=None, rule="is no text", fix=fix))
            continue
        namespace, _, rest = key.partition(":")
        if key == PROJECT_KEY:
            sections["project"] = value
        elif namespace == NAMESPACE and rest in known:
            sections[rest] = value
        elif namespace == NAMESPACE and rest in SECRETS:
            secrets.add(rest)
            if not (isinstance(value, Mapping) and "secure" in value):
                problems.append(_plain(key))
        elif namespace == NAMESPACE:
            fix = nearest(rest, {*known, *SECRETS})
            problems.append(Problem(path=key, value=None, rule="no such section exists", fix=fix))
        elif namespace in ("gcp", "kubernetes"):
            problems.append(
                Problem(
                    path=key,
                    value=value,
                    rule="every provider here is explicit, so this setting reaches nothing",
                    fix=f"remove it; {NAMESPACE}:location says where things stand",
                    severity="warning",
                )
            )
    return sections, frozenset(secrets), problems


def _plain(key: str) -> Problem:
    return Problem(
        path=key,
        value=None,
        rule="stands in plain text in the stack file",
        fix=f"revoke it, make a new one, and set it with: pulumi config set --secret {key}",
        source="Pulumi docs, 'Secrets handling'",
    )


def _read(field: str, info: FieldInfo, sections: Mapping[str, Any]) -> tuple[Any, list[Problem]]:
    """One section's value, without what is wrong in it, and what that is."""
    key = _alias(field)
    path = PROJECT_KEY if field == "project" else f"{NAMESPACE}:{key}"
    if key not in sections:
        if not info.is_required():
            return info.get_default(call_default_factory=True), []
        return None, [Problem(path=path, value=None, rule="is required", fix="add it")]
    found: list[Problem] = []
    raw = sections[key]
    # What is taken out may bring to light what could not be seen beside it.
    while True:
        try:
            return _adapter(field).validate_python(raw), found
        except ValidationError as error:
            told = translate.problems(path, info.annotation, error)
            found += [each for each in told if each not in found]
            raw = translate.usable(info.annotation, raw, error)
            if raw is None:
                return None, found


def _cross_checks(known: Mapping[str, Any]) -> Iterator[Problem]:
    for rule in CHECKS:
        needs = _parameters(rule)
        if all(need in known for need in needs):
            # A rule goes as far as the fields it looks at could be read.
            with contextlib.suppress(UnreadError):
                yield from rule(**{need: known[need] for need in needs})


@functools.cache
def _parameters(rule: Callable[..., Iterable[Problem]]) -> tuple[str, ...]:
    return tuple(inspect.signature(rule).parameters)


@functools.cache
def _adapter(field: str) -> TypeAdapter[Any]:
    info = Stack.model_fields[field]
    typed: Any = Annotated[(info.annotation, *info.metadata, None)]
    return TypeAdapter(typed)


def _alias(field: str) -> str:
    return translate.alias(Stack.model_fields[field], field)

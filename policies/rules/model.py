"""What a rule reads and what a rule is: plain data, no Pulumi."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

Step = str | int
Path = tuple[Step, ...]


class Unknown(Enum):
    """Stands for a value the engine learns only when it creates something."""

    UNKNOWN = "unknown until created"


UNKNOWN: Final = Unknown.UNKNOWN

# The engine writes one of these in place of each unknown value
# (pulumi/sdk: go/common/resource/plugin/rpc.go; also in pulumi_policy.proxy).
SENTINELS: Final = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # boolean
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


def plain(value: Any) -> Any:
    """The same value as dicts, lists, whole numbers and UNKNOWN, whatever it was wrapped in."""
    if isinstance(value, str):
        return UNKNOWN if value in SENTINELS else value
    if isinstance(value, bool) or value is None or value is UNKNOWN:
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {str(key): _guarded(value, key) for key in value.keys()}  # noqa: SIM118 - items() of pulumi-policy's proxy raises on unknowns
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_guarded(value, index) for index in range(len(value))]
    if isinstance(value, int):
        return value
    kind = type(value).__name__  # Pulumi's own Unknown, or an asset or archive
    return UNKNOWN if kind == "Unknown" else kind


def _guarded(holder: Any, key: Any) -> Any:
    try:
        item = holder[key]
    except Exception as error:
        if type(error).__name__ == "UnknownValueError":
            return UNKNOWN
        raise
    return plain(item)


class UndecidedError(Exception):
    """A rule needs a value that is not known yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(show(path))
        self.path = path


def show(path: Path) -> str:
    """A path as people write it: `spec.containers[0].image`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w-]+", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text


def _steps(path: str | Path) -> Path:
    return tuple(path.split(".")) if isinstance(path, str) else path


@dataclass(frozen=True, eq=False)
class Node:
    """A place in a resource's inputs. Reading an unknown value raises UndecidedError.

    A path is dotted text, or a tuple where a key has dots of its own (`("labels", "a.b/c")`).
    A getter of the wrong type answers None, so a rule never fails on odd input.
    """

    value: Any
    path: Path = ()

    def node(self, path: str | Path) -> Node:
        value, steps = self.value, _steps(path)
        for depth, step in enumerate(steps):
            if value is UNKNOWN:
                raise UndecidedError(self.path + steps[:depth])
            if isinstance(step, int):
                inside = isinstance(value, list) and 0 <= step < len(value)
                value = value[step] if inside else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return Node(value, self.path + steps)

    def raw(self, path: str | Path = ()) -> Any:
        """The value, or None where there is none."""
        found = self.node(path)
        _known(found.value, found.path)
        return found.value

    def text(self, path: str | Path = ()) -> str | None:
        value = self.raw(path)
        return value if isinstance(value, str) else None

    def flag(self, path: str | Path = ()) -> bool | None:
        """A boolean; also "TRUE" and "false", which some Google Cloud fields and providers take."""
        value = self.raw(path)
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            return value.lower() == "true"
        return value if isinstance(value, bool) else None

    def number(self, path: str | Path = ()) -> int | None:
        """A whole number; also one written as text, which Kubernetes quantities allow."""
        value = self.raw(path)
        if isinstance(value, bool):
            return None
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
            return int(value)
        return value if isinstance(value, int) else None

    def texts(self, path: str | Path = ()) -> list[str]:
        value = self.raw(path)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    def each(self, path: str | Path = ()) -> list[Node]:
        """The elements of a list, each still to be read."""
        found = self.node(path)
        if found.value is UNKNOWN:
            raise UndecidedError(found.path)
        items = found.value if isinstance(found.value, list) else []
        return [Node(item, (*found.path, index)) for index, item in enumerate(items)]

    def fields(self, path: str | Path = ()) -> list[tuple[str, Node]]:
        """The entries of an object, each still to be read."""
        found = self.node(path)
        if found.value is UNKNOWN:
            raise UndecidedError(found.path)
        items = found.value if isinstance(found.value, dict) else {}
        return [(key, Node(item, (*found.path, key))) for key, item in items.items()]

    def mapping(self, path: str | Path = ()) -> dict[str, Any]:
        value = self.raw(path)
        return value if isinstance(value, dict) else {}

    def has(self, path: str | Path) -> bool:
        """Whether something is set there; an unknown value is set."""
        return self.node(path).value is not None

    def at(self, path: str | Path = ()) -> str:
        return show(self.path + _steps(path))


def _known(value: Any, path: Path) -> None:
    if value is UNKNOWN:
        raise UndecidedError(path)
    if isinstance(value, dict):
        for key, item in value.items():
            _known(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _known(item, (*path, index))


@dataclass(frozen=True)
class Options:
    """The resource options that reach a policy."""

    protect: bool = False
    delete_before_replace: bool | None = None
    ignore_changes: tuple[str, ...] = ()
    create_timeout_seconds: float = 0


@dataclass(frozen=True, eq=False)
class Resource(Node):
    """One resource of the stack, as declared."""

    type: str = ""
    name: str = ""
    urn: str = ""
    options: Options = Options()
    parent: str | None = None
    dependencies: frozenset[str] = frozenset()

    @property
    def resource(self) -> Resource:
        return self

    @property
    def title(self) -> str:
        return f"{self.type.rpartition(':')[2]} {self.name}"


@dataclass(frozen=True, eq=False)
class Part(Node):
    """A place inside a resource that a rule judges on its own."""

    resource: Resource = field(default_factory=lambda: Resource({}))


@dataclass(frozen=True, eq=False)
class Stack:
    """All resources of the stack."""

    resources: tuple[Resource, ...] = ()
    _found: dict[Selector, list[Any]] = field(default_factory=dict)

    def of(self, *selectors: Selector) -> list[Any]:
        """The parts the selectors find. Raises UndecidedError where one cannot be told yet."""
        return [part for selector in selectors for part in self._of(selector)]

    def _of(self, selector: Selector) -> list[Any]:
        if selector not in self._found:
            self._found[selector] = [p for r in self.resources for p in selector.pick(r)]
        for part in self._found[selector]:
            if isinstance(part, UndecidedError):
                raise part
        return self._found[selector]

    def urns(self) -> dict[str, Resource]:
        return {r.urn: r for r in self.resources}


@dataclass(frozen=True, eq=False)
class Selector:
    """Which resources a rule looks at, and which parts of them."""

    title: str
    fits: Callable[[str], bool]
    parts: Callable[[Resource], Iterable[Any]] = lambda resource: (resource,)
    _answers: dict[str, bool] = field(default_factory=dict)

    def matches(self, type_: str) -> bool:
        answer = self._answers.get(type_)
        if answer is None:
            answer = self._answers[type_] = self.fits(type_)
        return answer

    def pick(self, resource: Resource) -> Iterable[Any]:
        return self.parts(resource) if self.matches(resource.type) else ()

    def where(self, title: str, keep: Callable[[Any], bool]) -> Selector:
        """The parts that also satisfy a condition; where that is unknown, the doubt itself."""

        def parts(resource: Resource) -> Iterator[Any]:
            for part in self.parts(resource):
                if isinstance(part, UndecidedError):
                    yield part
                    continue
                try:
                    if keep(part):
                        yield part
                except UndecidedError as doubt:
                    yield doubt

        return Selector(title, self.matches, parts)

    def __or__(self, other: Selector) -> Selector:
        def parts(resource: Resource) -> Iterator[Any]:
            yield from self.pick(resource)
            yield from other.pick(resource)

        return Selector(
            f"{self.title}, {other.title}", lambda t: self.matches(t) or other.matches(t), parts
        )


def gcp(token: str) -> Selector:
    """A Google Cloud resource type, e.g. `container/nodePool:NodePool`."""
    full = f"gcp:{token}"
    return Selector(token.rpartition(":")[2], lambda t: t == full)


def kube(group: str, *kinds: str) -> Selector:
    """Kubernetes kinds of one API group in any version, e.g. `apps`, `Deployment`."""
    wanted = frozenset((group, kind) for kind in kinds)
    return Selector(", ".join(kinds), lambda t: _kube_kind(t) in wanted)


def _kube_kind(token: str) -> tuple[str, str]:
    provider, _, rest = token.partition(":")
    api, _, kind = rest.rpartition(":")
    return (api.partition("/")[0], kind) if provider == "kubernetes" else ("", "")


class Severity(Enum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


@dataclass(frozen=True)
class Reference:
    """Where a framework asks for the same."""

    framework: str
    version: str
    item: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.framework, self.version, self.item) if part)


@dataclass(frozen=True)
class Setting:
    """A value a profile may set for one rule."""

    type: str
    default: Any
    help: str


class _Drop(Enum):
    DROP = "removed"


DROP: Final = _Drop.DROP


@dataclass(frozen=True)
class Guard:
    """One way to break what a rule guards; the mutation proof applies it and the rule must see it.

    `path` is relative to the part; `@protect` and its kin name a resource option, and an empty path
    the whole resource. `bad` is a value, DROP, or a function of the present value. `needs` names
    what the graph must hold besides, for the rule to care.
    """

    path: str | Path
    bad: Any
    on: Selector | None = None
    when: Callable[[Any], bool] | None = None
    needs: Selector | None = None


Check = Callable[..., Iterable[str]]


@dataclass(frozen=True, eq=False)
class Rule:
    """One requirement. `check` yields a message for each thing to change."""

    id: str
    title: str
    severity: Severity
    fix: str
    url: str
    on: Selector
    check: Check
    guards: tuple[Guard, ...] = ()
    refs: tuple[Reference, ...] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    whole_stack: bool = False

    @property
    def area(self) -> str:
        return self.id.partition("-")[0]

    def defaults(self) -> dict[str, Any]:
        return {key: setting.default for key, setting in self.settings.items()}


def rule(
    id: str,
    title: str,
    *,
    severity: Severity,
    on: Selector,
    fix: str,
    url: str,
    guards: Sequence[Guard] = (),
    refs: Sequence[Reference] = (),
    settings: Mapping[str, Setting] | None = None,
    whole_stack: bool = False,
) -> Callable[[Check], Rule]:
    """Makes a function a rule: `check(part[, stack][, settings])` yields what to change."""

    def register(check: Check) -> Rule:
        return Rule(
            id=id,
            title=title,
            severity=severity,
            fix=fix,
            url=url,
            on=on,
            check=check,
            guards=tuple(guards),
            refs=tuple(refs),
            settings=settings or {},
            whole_stack=whole_stack,
        )

    return register

"""What may go wrong on purpose: the faults the simulated cloud injects.

`SIM_FAULTS="create NodePool#2=quota; delete Network=in-use; create Cluster=crash"`
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from simcloud.cloud import RefusedError, Request
from simcloud.store import Store
from simcloud.values import nearest

VARIABLE = "SIM_FAULTS"

OPERATIONS = ("create", "update", "delete", "read")

MESSAGES = {
    "error": "googleapi: Error 500: Internal error encountered., backendError",
    "conflict": "googleapi: Error 409: The resource '{id}' already exists, alreadyExists",
    "busy": "googleapi: Error 409: '{id}' has an operation in progress, aborted",
    "quota": "googleapi: Error 403: Quota 'TPUS_PER_PROJECT' exceeded. Limit: 0.0., quotaExceeded",
    "stockout": "googleapi: Error 503: The zone does not have enough resources available to fulfill"
    " the request., ZONE_RESOURCE_POOL_EXHAUSTED",
    "in-use": "googleapi: Error 400: The resource '{id}' is already being used by another resource,"
    " resourceInUseByAnotherResource",
    "denied": "googleapi: Error 403: Permission denied on resource '{id}', forbidden",
    "missing": "googleapi: Error 404: The resource '{id}' was not found, notFound",
    "unavailable": "googleapi: Error 503: The service is currently unavailable., backendError",
    "partial": "'{id}' was created but did not become ready",
}
"""Faults that answer with an error; "partial" leaves the object behind, not ready."""

ACTIONS = {
    "crash": "the engine is killed while the operation runs; the object exists afterwards",
    "crash-before": "the engine is killed before the cloud has the request",
    "provider-crash": "the provider process ends",
    "slow": "the operation takes this many times as long: slow(3)",
}

NOTHING = "nothing"

_PATTERN = re.compile(r"[*?\[]")

_SPEC = re.compile(
    r"(?P<operation>\w+)\s+(?P<type>[^\s#@=]+)(?:@(?P<name>[^\s#=]+))?(?:#(?P<nth>\d+))?"
    r"\s*=\s*(?P<kind>[\w-]+)(?:\((?P<argument>[^)]*)\))?(?:\*(?P<times>\d+))?"
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`operation type[@name][#nth]=kind[(argument)][*times]`.

    `type` is a full token, its last part or a pattern; `name` the logical name; `nth` counts the
    matching operations from 1; `times` says how often it strikes, 0 for ever.
    """

    operation: str
    type: str
    kind: str
    name: str = "*"
    nth: int = 1
    argument: str = ""
    times: int = 1

    def matches(self, operation: str, type_: str, name: str) -> bool:
        return (
            self.operation == operation
            and any(fnmatchcase(word, self.type) for word in (type_, type_.rpartition(":")[2]))
            and fnmatchcase(name, self.name)
        )

    def strikes(self, count: int) -> bool:
        """Whether the `count`th matching operation is hit."""
        return count >= self.nth and (self.times == 0 or count < self.nth + self.times)

    def message(self, id_: str) -> str:
        return self.argument or MESSAGES[self.kind].format(id=id_)

    def refuse(self, id_: str) -> None:
        """RefusedError if this fault is one the cloud answers with."""
        if self.kind in MESSAGES and not self.partial:
            raise RefusedError(self.message(id_))

    @property
    def partial(self) -> bool:
        return self.kind == "partial"

    @property
    def kills(self) -> bool:
        return self.kind == "crash"

    @property
    def kills_before(self) -> bool:
        return self.kind == "crash-before"

    @property
    def slower(self) -> float:
        """How many times as long the operation takes."""
        return float(self.argument or 3) if self.kind == "slow" else 1.0

    def __str__(self) -> str:
        argument = f"({self.argument})" if self.argument else ""
        target = f"{self.type}@{self.name}#{self.nth}"
        return f"{self.operation} {target}={self.kind}{argument}*{self.times}"


def parse(text: str, types: Collection[str] = ()) -> list[Fault]:
    """The faults a text names; every mistake of the text is told at once.

    A type that is not among `types`, if there are any, would never be struck: a mistake too, unless
    it is a pattern.
    """
    faults, mistakes = [], []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = _SPEC.fullmatch(part)
        if match is None:
            mistakes.append(f"{part!r} is not 'operation type[@name][#n]=kind[(argument)][*times]'")
            continue
        found = match.groupdict()
        kinds = (*MESSAGES, *ACTIONS)
        for word, known in ((found["operation"], OPERATIONS), (found["kind"], kinds)):
            if word not in known:
                hint = nearest(word, known) or f" Known: {', '.join(known)}."
                mistakes.append(f"{part!r}: unknown {word!r}.{hint}")
        type_ = found["type"]
        if types and type_ not in types and not _PATTERN.search(type_):
            hint = nearest(type_, types)
            mistakes.append(
                f"{part!r}: no type is called {type_!r}.{hint} A kind of your own is named by a "
                f"pattern: {type_ + '*'!r}."
            )
        faults.append(
            Fault(
                operation=found["operation"],
                type=found["type"],
                kind=found["kind"],
                name=found["name"] or "*",
                nth=int(found["nth"] or 1),
                argument=found["argument"] or "",
                times=int(found["times"] or 1),
            )
        )
    if mistakes:
        message = f"{VARIABLE}: " + "; ".join(mistakes)
        raise ValueError(message)
    return faults


class Faults:
    """The faults set in a store, each counting the operations it matches."""

    def __init__(self, store: Store, kill: Callable[[], None]) -> None:
        self._store = store
        self.kill = kill

    def next(self, operation: str, request: Request) -> Fault:
        """The fault that strikes this operation, one of kind "nothing" if none does."""
        struck: Fault | None = None
        for position, spec in self._store.faults():
            fault = _one(spec)
            if fault.matches(operation, request.type, request.name):
                count = self._store.next(f"fault|{position}")
                if struck is None and fault.strikes(count):
                    struck = fault
        if struck is not None and struck.kind == "provider-crash":
            os._exit(1)
        return struck or Fault(operation=operation, type=request.type, kind=NOTHING)


@lru_cache(maxsize=256)
def _one(spec: str) -> Fault:
    (fault,) = parse(spec)
    return fault

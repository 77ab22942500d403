"""What both halves of the simulated cloud share: their contract, refusals and stamps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from simcloud.plan import Plan
from simcloud.store import Record, Store
from simcloud.values import Props

STAMP = "simulated/"
"""Every id begins with it: no real provider can resolve such an id."""

STAMPED = "__simulated"
STAMPED_TEXT = "tpuserve simulated cloud: nothing real was touched"
"""Every set of outputs carries this pair."""

DOMAIN = "simulated.invalid"
"""Every host name ends in it; `.invalid` never resolves (RFC 6761)."""


def stamp(id_: str) -> str:
    return id_ if id_.startswith(STAMP) else STAMP + id_


def unstamp(id_: str) -> str:
    return id_.removeprefix(STAMP)


class RefusedError(Exception):
    """The cloud's answer to a request it does not carry out."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One object as the engine names it, with its provider's configuration."""

    urn: str
    type: str
    name: str
    config: Mapping[str, Any]
    store: Store
    timeout: float = 0
    """Minutes the program allows for the operation, 0 for the provider's own limit."""
    scale: float = 0
    """Seconds a simulated minute lasts."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """One object as the cloud names it; `id` has no stamp, `scope` is the object it lives in."""

    key: str
    id: str
    name: str
    scope: str = ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Inputs as the engine stores them, and every mistake in what the program gave."""

    inputs: Props
    failures: list[str]


class Package(Protocol):
    """What the engine's service asks of one half of the cloud.

    Operations that the cloud does not carry out end in RefusedError.
    """

    name: str
    version: str

    def check(self, request: Request, news: Props, olds: Props, seed: bytes) -> Checked: ...

    def diff(
        self, request: Request, old_inputs: Props, state: Props, news: Props, ignored: list[str]
    ) -> Plan: ...

    def diff_config(self, olds: Props, news: Props) -> Plan: ...

    def preview(self, request: Request, inputs: Props, state: Props | None) -> Props:
        """The outputs a plan knows; `state` is None for an object that does not exist yet."""

    def identify(self, request: Request, inputs: Props, serial: int) -> Identity:
        """The name under which a new object will exist."""

    def locate(self, request: Request, id_: str) -> str:
        """The key of the object with this id."""

    def conflict(self, request: Request, record: Record) -> None:
        """Asked when an object of the new one's name is there already."""

    def admit(self, request: Request, identity: Identity, inputs: Props, *, new: bool) -> list[str]:
        """The keys of the objects the inputs refer to."""

    def outputs(
        self, request: Request, identity: Identity, inputs: Props, serial: int
    ) -> Props: ...

    def minutes(self, request: Request, operation: str, inputs: Props) -> float:
        """How long the cloud takes."""

    def lasts(self, request: Request, operation: str, inputs: Props) -> float:
        """Minutes that `held` goes on after that, when nothing stands in the way."""

    def limit(self, request: Request, operation: str, inputs: Props) -> tuple[float, str]:
        """How long the provider waits, and what it says when that is over."""

    def held(self, request: Request, record: Record, operation: str) -> str:
        """What the provider says if it gives up now; empty when the operation is over."""

    def appeared(self, request: Request, record: Record) -> None:
        """Called when an object is ready or changed: what else comes with it."""

    def releases(self, request: Request, record: Record, state: Props) -> bool:
        """Whether a delete removes the object; False if it only forgets it."""

    def vanished(self, request: Request, record: Record) -> None:
        """Called before an object goes: what else goes with it."""

    def read_inputs(self, request: Request, inputs: Props, live: Props) -> Props:
        """The inputs a refresh stores; those of an import if there were none."""

    def invoke(self, token: str, args: Props, config: Props, store: Store) -> Props: ...

"""Creating, changing, reading and deleting objects: what every type goes through."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from simcloud.clock import Clock
from simcloud.cloud import (
    STAMP,
    STAMPED,
    STAMPED_TEXT,
    Identity,
    Package,
    RefusedError,
    Request,
    stamp,
)
from simcloud.faults import Faults
from simcloud.store import Record, Store
from simcloud.values import Props, has_unknown

_POLL = 0.002


class NotReadyError(Exception):
    """The object exists but did not become ready: the engine keeps it and repairs it later."""

    def __init__(self, reason: str, id_: str, outputs: Props, inputs: Props) -> None:
        super().__init__(reason)
        self.id = id_
        self.outputs = outputs
        self.inputs = inputs


@dataclass(frozen=True, kw_only=True)
class Done:
    """The answer to an operation and the simulated minutes it took."""

    id: str = ""
    outputs: Props | None = None
    inputs: Props | None = None
    minutes: float = 0.0


class Operations:
    """The life of objects of one package. `kill` ends the engine that asks."""

    def __init__(
        self, package: Package, store: Store, clock: Clock, kill: Callable[[], None]
    ) -> None:
        self.package = package
        self.store = store
        self.clock = clock
        self.faults = Faults(store, kill)

    def create(self, request: Request, inputs: Props) -> Done:
        _known(inputs)
        package, started = self.package, time.monotonic()
        fault = self.faults.next("create", request)
        if fault.kills_before:
            self.faults.kill()
        serial = self.store.next("serial")
        with self.store.transaction():
            identity = package.identify(request, inputs, serial)
            fault.refuse(identity.id)
            if present := self._settled(request, identity.key):
                package.conflict(request, present)
            targets = package.admit(request, identity, inputs, new=True)
            outputs = self._outputs(request, identity, inputs, serial)
            minutes = package.minutes(request, "create", inputs) * fault.slower
            now = time.time()
            record = Record(
                key=identity.key,
                package=package.name,
                type=request.type,
                name=identity.name,
                id=identity.id,
                scope=identity.scope,
                status="creating",
                props=outputs,
                serial=serial,
                created=now,
                ready=now + minutes * self.clock.scale,
            )
            self.store.put(record, targets)
        if fault.kills:
            self.faults.kill()
        # Waiting happens outside every lock: creations overlap.
        if late := self._wait(request, "create", inputs, minutes, started):
            raise NotReadyError(late, stamp(identity.id), outputs, inputs)
        self._ready(request, record, targets)
        if late := self._held(request, "create", record, started):
            raise NotReadyError(late, stamp(identity.id), outputs, inputs)
        if fault.partial:
            reason = fault.message(identity.id)
            raise NotReadyError(reason, stamp(identity.id), outputs, inputs)
        minutes += package.lasts(request, "create", inputs)
        return Done(id=stamp(identity.id), outputs=outputs, minutes=minutes)

    def update(self, request: Request, id_: str, inputs: Props) -> Done:
        _known(inputs)
        _ours(id_)
        package, started = self.package, time.monotonic()
        record = self._settled(request, package.locate(request, id_))
        if record is None:
            message = f"googleapi: Error 404: The resource '{id_}' was not found, notFound"
            raise RefusedError(message)
        fault = self.faults.next("update", request)
        if fault.kills or fault.kills_before:
            self.faults.kill()
        fault.refuse(record.id)
        identity = Identity(key=record.key, id=record.id, name=record.name, scope=record.scope)
        with self.store.lock:
            targets = package.admit(request, identity, inputs, new=False)
            outputs = self._outputs(request, identity, inputs, record.serial)
        minutes = package.minutes(request, "update", inputs) * fault.slower
        if late := self._wait(request, "update", inputs, minutes, started):
            raise NotReadyError(late, id_, outputs, inputs)
        changed = Record(**{**vars(record), "props": outputs})
        self._ready(request, changed, targets)
        if late := self._held(request, "update", changed, started):
            raise NotReadyError(late, id_, outputs, inputs)
        if fault.partial:
            raise NotReadyError(fault.message(record.id), id_, outputs, inputs)
        return Done(id=id_, outputs=outputs, minutes=minutes)

    def read(self, request: Request, id_: str, state: Props, inputs: Props) -> Done:
        if state and inputs:
            _ours(id_)
        self.faults.next("read", request).refuse(id_)
        record = self._settled(request, self.package.locate(request, id_))
        if record is None:
            return Done()
        live = self.store.unseal(record.props, state)
        given = self.package.read_inputs(request, inputs, live)
        return Done(id=stamp(record.id), outputs=live, inputs=given)

    def delete(self, request: Request, id_: str, state: Props) -> Done:
        _ours(id_)
        package, started = self.package, time.monotonic()
        record = self._settled(request, package.locate(request, id_))
        if record is None:
            # Deleting what is gone already succeeds in both providers.
            return Done()
        fault = self.faults.next("delete", request)
        if fault.kills or fault.kills_before:
            self.faults.kill()
        fault.refuse(record.id)
        with self.store.lock:
            goes = package.releases(request, record, state)
        if not goes:
            return Done()
        minutes = package.minutes(request, "delete", record.props) * fault.slower
        if late := self._wait(request, "delete", record.props, minutes, started):
            raise RefusedError(late)
        if late := self._held(request, "delete", record, started):
            raise RefusedError(late)
        with self.store.transaction():
            package.vanished(request, record)
            self.store.drop(record.key)
        return Done(minutes=minutes)

    def _wait(
        self, request: Request, operation: str, inputs: Props, minutes: float, started: float
    ) -> str:
        """Wait for the operation; what the provider says if it gives up first, else nothing."""
        limit, message = self.package.limit(request, operation, inputs)
        limit = request.timeout or limit
        self.clock.wait(min(minutes, limit), started)
        return message.format(limit=_spoken(limit)) if minutes > limit else ""

    def _held(self, request: Request, operation: str, record: Record, started: float) -> str:
        """Wait while other objects keep the operation from ending; the provider's words if in vain.

        What it waits for takes its own time, which `minutes` does not know.
        """
        limit, _ = self.package.limit(request, operation, record.props)
        end = started + (request.timeout or limit) * self.clock.scale
        while late := self.package.held(request, record, operation):
            if time.monotonic() >= end:
                return late
            time.sleep(_POLL)
        return ""

    def _outputs(self, request: Request, identity: Identity, inputs: Props, serial: int) -> Props:
        outputs = self.package.outputs(request, identity, inputs, serial)
        outputs[STAMPED] = STAMPED_TEXT
        return outputs

    def _ready(self, request: Request, record: Record, targets: list[str]) -> None:
        with self.store.transaction():
            ready = Record(**{**asdict(record), "props": record.props, "status": "ready"})
            self.store.put(ready, targets)
            self.package.appeared(request, self.store.get(record.key) or ready)

    def _settled(self, request: Request, key: str) -> Record | None:
        """The live object; a creation its engine did not live to see ends by the clock."""
        record = self.store.get(key)
        if record is None or record.status == "ready" or time.time() < record.ready:
            return record
        settled = Record(**{**vars(record), "status": "ready"})
        with self.store.transaction():
            self.store.set_ready(key)
            self.package.appeared(request, settled)
        return settled


def _spoken(minutes: float) -> str:
    """90.0 -> 1h30m0s, as Go writes a duration."""
    seconds = round(minutes * 60)
    hours, rest = divmod(seconds, 3600)
    return f"{hours}h{rest // 60}m{rest % 60}s" if hours else f"{rest // 60}m{rest % 60}s"


def _known(inputs: Props) -> None:
    if has_unknown(inputs):
        message = "the engine sent an unknown value for a real operation"
        raise RefusedError(message)


def _ours(id_: str) -> None:
    if not id_.startswith(STAMP):
        message = (
            f"{id_} is not an object of the simulated cloud. The engine that asks works on a real "
            "stack; unset PULUMI_DEBUG_PROVIDERS there."
        )
        raise RefusedError(message)

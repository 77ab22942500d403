"""Drives the real Pulumi engine against the simulated cloud, in one scratch folder."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pulumi import automation as auto
from pulumi.automation.errors import CommandError

from simcloud import language, slicing
from simcloud.clock import scale_from_env
from simcloud.errors import OperationFailed, SimError
from simcloud.faults import Fault, parse
from simcloud.known import known_types
from simcloud.provider_process import ProviderProcess
from simcloud.pulumi_cli import ScratchCli
from simcloud.stack_file import StackFile
from simcloud.store import Call, Record, Store

__all__ = ["Cloud", "OperationFailed", "Sim", "SimError"]

OnEvent = Callable[[auto.events.EngineEvent], Any]
OnOutput = Callable[[str], Any]
Packs = Sequence[Path | str]

_SETTINGS: Mapping[str, Any] = {
    # The CLI's own default is four operations at a time for each CPU thread of the machine (8 on
    # two threads), which would make a simulated duration depend on where it is simulated.
    "parallel": 256,
    # Of the configuration in the summary, which takes the CLI as long as a small update.
    "show_secrets": False,
}


class Cloud:
    """The simulated cloud from outside: what exists, what was asked, what shall go wrong."""

    def __init__(self, folder: Path) -> None:
        self._store = Store(folder)

    def resources(self, type_: str | None = None) -> list[Record]:
        """The live objects, of one type or all; the cloud's own bookkeeping left out."""
        return [each for each in self._store.all(type_) if not each.type.startswith("simcloud:")]

    def find(self, type_: str, name: str) -> Record:
        """The one object of a type with a name."""
        found = self._store.find(type_, name)
        if len(found) != 1:
            message = f"{len(found)} objects of {type_} are called {name!r}"
            raise LookupError(message)
        return found[0]

    def slicing(self) -> list[slicing.Row]:
        """Queues and the workloads on slices, as the simulated cluster has them."""
        return slicing.rows(self._store)

    def count(self, type_: str | None = None) -> int:
        return len(self.resources(type_))

    def log(self, after: int = 0) -> list[Call]:
        """The engine's requests in order, those after a sequence number."""
        return self._store.calls(after)

    def set_faults(self, faults: str | Sequence[Fault]) -> None:
        """What goes wrong from now on, in place of what was set before; "" for nothing."""
        chosen = parse(faults, known_types()) if isinstance(faults, str) else faults
        self._store.set_faults(map(str, chosen))

    def drift(self, type_: str, name: str, path: str, value: Any) -> None:
        """Change one property of a live object behind the engine's back.

        `path` is dotted; the number of an element stands for it: `nodeConfig.taints.0.effect`.
        """
        record = self.find(type_, name)
        *parents, last = path.split(".")
        target: Any = record.props
        for key in parents:
            target = target[int(key)] if isinstance(target, list) else target.setdefault(key, {})
        target[int(last) if isinstance(target, list) else last] = value
        self._store.change(record.key, record.props)

    def lose(self, type_: str, name: str) -> None:
        """Delete a live object behind the engine's back."""
        self._store.drop(self.find(type_, name).key)

    def close(self) -> None:
        self._store.close()


class Sim:
    """One scratch project: a simulated cloud, its state and a private CLI home below `root`.

    `program` is a file, or a function that declares resources. `config_file` is copied, `config`
    laid over it: keys without a colon belong to the project. `scale` is the seconds a simulated
    minute lasts, None for what SIM_SCALE says. `env` reaches the provider process. Without
    `checkpoints` the state is written once, when an operation ends: it takes half as long, and what
    an engine that is killed has made is lost.
    A later project at the same root finds the cloud and the state as they were left.
    """

    cloud: Cloud

    def __init__(
        self,
        root: Path,
        *,
        stack: str,
        config_file: Path | None = None,
        config: Mapping[str, Any] | None = None,
        program: Path | Callable[[], None] = Path("__main__.py"),
        scale: float | None = None,
        env: Mapping[str, str] | None = None,
        project: str = "tpuserve",
        checkpoints: bool = True,
    ) -> None:
        if refused := sorted(key for key in env or {} if key.startswith("PULUMI_")):
            message = f"env: {', '.join(refused)} would reach the engine; none is accepted"
            raise SimError(message)
        self.root = root.resolve()
        self.stack_name = stack
        self.project = project
        self.program = program.resolve() if isinstance(program, Path) else program
        self._file = StackFile(self.root / "project", stack, project)
        self._sources = (config_file, config or {})
        self._checkpoints = checkpoints
        seconds = scale_from_env() if scale is None else scale
        self._provider = ProviderProcess(self.root, {**(env or {}), "SIM_SCALE": str(seconds)})
        self._stack: auto.Stack | None = None
        self._loops: list[asyncio.AbstractEventLoop] = []

    # Start and end

    def __enter__(self) -> Sim:
        for folder in ("cloud", "home", "state", "project"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.cloud = Cloud(self.root / "cloud")
        file, config = self._sources
        try:
            self._file.copy(file)
            self._file.set(config)
            self._provider.start()
            self._stack = self._select()
            self._file.encrypt(self._stack)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._provider.stop()
        self.cloud.close()
        self._stack = None

    @property
    def backend(self) -> str:
        return f"file://{self.root / 'state'}"

    @property
    def stack(self) -> auto.Stack:
        if self._stack is None:
            message = "use the project as a context manager: `with Sim(...) as sim:`"
            raise SimError(message)
        return self._stack

    # Operations; further keywords go to the method of that name in the Automation API

    def preview(
        self,
        *,
        policy_packs: Packs = (),
        on_event: OnEvent | None = None,
        on_output: OnOutput | None = None,
        **kw: Any,
    ) -> auto.PreviewResult:
        """What an update would do."""
        with self._operation("preview", on_event) as watch:
            return self.stack.preview(
                policy_packs=_paths(policy_packs), on_event=watch, on_output=on_output, **kw
            )

    def up(
        self,
        *,
        policy_packs: Packs = (),
        on_event: OnEvent | None = None,
        on_output: OnOutput | None = None,
        **kw: Any,
    ) -> auto.UpResult:
        """Make what the program declares."""
        with self._operation("up", on_event) as watch:
            return self.stack.up(
                policy_packs=_paths(policy_packs),
                on_event=watch,
                on_output=on_output,
                **{**_SETTINGS, **kw},
            )

    def refresh(
        self, *, on_event: OnEvent | None = None, on_output: OnOutput | None = None, **kw: Any
    ) -> auto.RefreshResult:
        """Take over what changed in the cloud."""
        with self._operation("refresh", on_event) as watch:
            return self.stack.refresh(on_event=watch, on_output=on_output, **{**_SETTINGS, **kw})

    def destroy(
        self, *, on_event: OnEvent | None = None, on_output: OnOutput | None = None, **kw: Any
    ) -> auto.DestroyResult:
        """Delete everything."""
        with self._operation("destroy", on_event) as watch:
            return self.stack.destroy(on_event=watch, on_output=on_output, **{**_SETTINGS, **kw})

    def import_object(self, *arguments: str) -> None:
        """`pulumi import` with these arguments: take an object of the cloud into the state."""
        given = ("import", *arguments, "--yes", "--skip-preview")
        variables: Any = self.stack.workspace.env_vars
        with self._operation("import", None), language.attached() as port:
            variables[language.PORTS] = port
            try:
                # The SDK's own method takes a file in place of the arguments.
                self.stack._run_pulumi_cmd_sync(list(given))  # noqa: SLF001
            finally:
                del variables[language.PORTS]

    def outputs(self) -> auto.OutputMap:
        return self.stack.outputs()

    def export(self) -> dict[str, Any]:
        """The deployment in the state: `resources`, `pending_operations`, ..."""
        return dict(self.stack.export_stack().deployment or {})

    def cancel(self) -> None:
        """Give up the lock a killed engine left behind."""
        self.stack.cancel()

    def set_config(self, config: Mapping[str, Any]) -> None:
        """Replace these keys for the next operation; None removes one.

        An `auto.ConfigValue` marked secret is encrypted, everything else written as it is.
        """
        self._file.set(config)
        self._file.encrypt(self.stack)

    # Inside

    @contextmanager
    def _operation(self, name: str, on_event: OnEvent | None) -> Iterator[OnEvent]:
        """Around one operation: the cloud up, the engine's complaints in one exception."""
        self._provider.start()
        # A provider that was started again listens elsewhere.
        ports = {_PORTS: self._provider.ports}
        self.stack.workspace.env_vars.update(ports)  # type: ignore[attr-defined]
        diagnostics: list[str] = []

        def watch(event: auto.events.EngineEvent) -> None:
            # What ends the program the SDK logs, and the engine says it once more.
            complaints = (each.removeprefix(_ONCE_MORE) for each in _complaints(event))
            diagnostics.extend(each for each in complaints if each not in diagnostics)
            if on_event is not None:
                on_event(event)

        try:
            with _quiet_server():
                yield watch
        except CommandError as error:
            output = str(error)
            if "code: -9" in output:
                diagnostics.append("the engine was killed; `cancel` gives up its lock")
            raise OperationFailed(name, diagnostics, output) from None
        finally:
            loops, self._loops = self._loops, []
            for loop in loops:
                _close(loop)

    def _declare(self) -> None:
        """Run the program as Pulumi would: its folder first on the module path."""
        self._loops.append(asyncio.get_running_loop())
        if not isinstance(self.program, Path):
            self.program()
            return
        folder = str(self.program.parent)
        sys.path.insert(0, folder)
        try:
            runpy.run_path(str(self.program), run_name="__main__")
        finally:
            sys.path.remove(folder)

    def _select(self) -> auto.Stack:
        workspace = _Workspace(
            work_dir=str(self.root / "project"),
            pulumi_home=str(self.root / "home"),
            pulumi_command=ScratchCli(self.backend),
            project_settings=auto.ProjectSettings(name=self.project, runtime="python"),
            env_vars=self._environment(),
            program=self._declare,
        )
        return auto.Stack.create_or_select(self.stack_name, workspace)

    def _environment(self) -> dict[str, str]:
        """For the engine's own process alone; nothing of it is ever exported."""
        return {
            "PULUMI_BACKEND_URL": self.backend,
            "PULUMI_CONFIG_PASSPHRASE": "simulated",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
            # The engine writes its whole state at every step; it is short-lived, so let it collect
            # less often: a seventh of its time at 124 resources (measured 2026-11-30).
            "GOGC": "400",
            _PORTS: self._provider.ports,
            **({} if self._checkpoints else _WITHOUT_CHECKPOINTS),
        }


class _Workspace(auto.LocalWorkspace):
    """Has secrets decrypted only where there are some: that takes the CLI most of its time."""

    def stack_outputs(self, stack_name: str) -> auto.OutputMap:
        arguments = ["stack", "output", "--json", "--stack", stack_name]
        masked = json.loads(self._run_pulumi_cmd_sync(arguments).stdout)
        if _MASKED in masked.values():
            return super().stack_outputs(stack_name)
        return {key: auto.OutputValue(value, secret=False) for key, value in masked.items()}


_MASKED = "[secret]"
"""What the CLI shows in place of a secret output."""

_PORTS = "PULUMI_DEBUG_PROVIDERS"
_WITHOUT_CHECKPOINTS = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}

_ONCE_MORE = "an unhandled error occurred: "


def _paths(packs: Packs) -> list[str] | None:
    return [str(pack) for pack in packs] or None


_COLOURS = re.compile(r"<\{%.*?%\}>")


def _complaints(event: auto.events.EngineEvent) -> Iterator[str]:
    """Errors and mandatory violations, each with the name of its resource."""
    if (found := event.diagnostic_event) and found.severity == "error":
        text = _COLOURS.sub("", found.message).strip()
        name = found.urn.split("::")[-1] if found.urn else ""
        if text:
            yield f"{name}: {text}" if name else text
    if (policy := event.policy_event) and policy.enforcement_level == "mandatory":
        name = policy.resource_urn.split("::")[-1] if policy.resource_urn else ""
        text = " ".join(_COLOURS.sub("", policy.message).split())
        yield f"{name}: policy {policy.policy_name}: {text}"


@contextmanager
def _quiet_server() -> Iterator[None]:
    """Keep gRPC from printing a traceback when the engine dies while the program runs in here."""
    logger = logging.getLogger("grpc._server")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close the event loop of a program whose engine was killed; the SDK leaves it open."""
    patience = time.monotonic() + 5
    while not loop.is_closed() and time.monotonic() < patience:
        time.sleep(0.05)  # the SDK's own turn to close it
        if not (loop.is_closed() or loop.is_running()):
            # Refused while the SDK is at it once more, or obeys a stop it asked for before.
            with suppress(RuntimeError):
                _drain(loop)


def _drain(loop: asyncio.AbstractEventLoop) -> None:
    # The SDK's handler would stop the loop at the next failed call.
    loop.set_exception_handler(lambda *_: None)
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks) if tasks else asyncio.sleep(0))
    loop.close()

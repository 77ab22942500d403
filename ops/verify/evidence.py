"""What was checked and seen, as a file another person can judge."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

SCHEMA = 1


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(StrEnum):
    """The verdict on a whole run; the command's exit code follows from it."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_READY = "not ready"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check: its verdict in a sentence, the fix when it failed, and what was observed."""

    name: str
    status: Status
    detail: str
    fix: str = ""
    seconds: float = 0
    observed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Subject:
    """One endpoint under test and its checks so far."""

    name: str
    address: str
    model: str | None
    checks: list[Check] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return any(c.name == "ready" and c.status is Status.PASSED for c in self.checks)


@dataclass(kw_only=True)
class Evidence:
    """All endpoints of one run."""

    stack: str | None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished: datetime | None = None
    interrupted: bool = False
    endpoints: list[Subject] = field(default_factory=list)

    @property
    def result(self) -> Result:
        if self.interrupted:
            return Result.INTERRUPTED
        if not self.endpoints or not all(subject.ready for subject in self.endpoints):
            return Result.NOT_READY
        checks = [check for subject in self.endpoints for check in subject.checks]
        failed = any(check.status is Status.FAILED for check in checks)
        return Result.FAILED if failed else Result.PASSED

    def as_json(self, secrets: tuple[str, ...] = ()) -> str:
        """The evidence file; every occurrence of a secret is masked."""
        finished = self.finished or datetime.now(UTC)
        table = {
            "schema": SCHEMA,
            "command": "ops verify",
            "stack": self.stack,
            "result": self.result,
            "started": self.started.isoformat(timespec="seconds"),
            "finished": finished.isoformat(timespec="seconds"),
            "seconds": round((finished - self.started).total_seconds(), 3),
            "endpoints": [asdict(subject) for subject in self.endpoints],
        }
        return json.dumps(masked(table, secrets), indent=2, ensure_ascii=False) + "\n"


def masked(value: Any, secrets: tuple[str, ...]) -> Any:
    """The value with each secret replaced by `***`, in keys and strings at any depth."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "***")
        return value
    if isinstance(value, Mapping):
        return {masked(k, secrets): masked(v, secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, secrets) for item in value]
    return value


def write_atomically(path: Path, text: str) -> None:
    """Writes a whole file or nothing, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

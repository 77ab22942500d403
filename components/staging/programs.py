"""Compiled programs: fetched before a server starts, published once the first one is ready.

Each pod has its own folder, so nothing is ever written by two. The bucket takes whole objects, and
the pod's role can create them but neither replace nor delete. The manifest that appears first names
what all later replicas read; two that compile at once publish under names of their own.
"""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .bucket import PIECE, Bucket
from .model import say
from .web import BROKEN, RefusedError

MANIFEST = "complete.json"
WARM = ".warm"
"""Beside the folder, in a pod that has fetched its programs and publishes none."""
WORKERS = 16
POLL_SECONDS = 5
SETTLE_SECONDS = 10
"""After the server is ready, for the last entries to be written."""


def fetch(bucket: Bucket, prefix: str, folder: Path) -> int:
    """Fill a pod's folder; 0 when nobody has published yet or the bucket cannot be read.

    A server without programs compiles them, so no fault here keeps it from starting.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        manifest = bucket.read(f"{prefix}/{MANIFEST}")
        if manifest is None:
            say("no compiled programs yet: this replica compiles them, then publishes")
            return 0
        rows = json.loads(manifest)["files"]
        with ThreadPoolExecutor(WORKERS) as pool:
            bodies = list(pool.map(lambda row: _entry(bucket, row), rows))
    except (RefusedError, KeyError, ValueError, *BROKEN) as error:
        say(f"compiled programs not fetched, this replica compiles its own: {error}")
        return 0
    for row, body in zip(rows, bodies, strict=True):
        path = folder / row["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (folder.parent / WARM).touch()
    say(f"fetched {len(rows)} compiled programs, {sum(map(len, bodies)) / 1e6:.1f} MB")
    return len(rows)


def publish(bucket: Bucket, prefix: str, folder: Path, ready: str) -> int:
    """Wait until the server answers, then publish what it compiled; 0 when another was first."""
    if (folder.parent / WARM).exists():
        say("this replica started warm: nothing to publish")
        return 0
    _wait(ready)
    time.sleep(SETTLE_SECONDS)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    if not paths:
        say(f"{folder} is empty: the server keeps no compiled programs there")
        return 0
    if bucket.read(f"{prefix}/{MANIFEST}") is not None:
        say("another replica has published its programs")
        return 0
    own = f"{prefix}/{uuid.uuid4()}"
    with ThreadPoolExecutor(WORKERS) as pool:
        rows = list(pool.map(lambda path: _publish(bucket, own, folder, path), paths))
    body = json.dumps({"files": rows}, indent=1).encode()
    if bucket.put(f"{prefix}/{MANIFEST}", len(body), [body], only_new=True) is None:
        say("another replica has published its programs")
        return 0
    say(f"published {len(rows)} compiled programs for later replicas")
    return len(rows)


def stay() -> None:
    """Until the pod ends: a sidecar that returns would be started again."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.wait(3600):
        pass


def _entry(bucket: Bucket, row: dict[str, str]) -> bytes:
    body = bucket.read(row["object"])
    if body is None or hashlib.sha256(body).hexdigest() != row["sha256"]:
        msg = f"{row['name']} is not what was published"
        raise ValueError(msg)
    return body


def _publish(bucket: Bucket, own: str, folder: Path, path: Path) -> dict[str, str]:
    name = path.relative_to(folder).as_posix()
    digest = hashlib.sha256()
    for piece in _pieces(path):
        digest.update(piece)
    bucket.put(f"{own}/{name}", path.stat().st_size, _pieces(path), only_new=True)
    return {"name": name, "object": f"{own}/{name}", "sha256": digest.hexdigest()}


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _wait(url: str) -> None:
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310
                return
        except (urllib.error.URLError, *BROKEN):
            time.sleep(POLL_SECONDS)

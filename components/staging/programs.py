"""Compiled programs: fetched before a server starts, published once the first one is ready.

Each pod has its own folder, so nothing is ever written by two. The bucket takes whole objects, and
the pod's role can create them but neither replace nor delete. Objects are named by their content;
the manifest that appears first names what all later replicas read.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .bucket import Bucket
from .model import say
from .web import BROKEN

MANIFEST = "complete.json"
WARM = ".warm"
"""Beside the folder, in a pod that has fetched its programs and publishes none."""
WORKERS = 4
"""Each holds a few pieces in memory, of a pod whose server has nearly all of the host's."""
READ = 2**20
POLL_SECONDS = 5
SETTLE_SECONDS = 10
"""After the server is ready, for the last entries to be written."""
RETRY_SECONDS = 30
LONGEST_RETRY_SECONDS = 3600


def fetch(bucket: Bucket, prefix: str, folder: Path) -> int:
    """Fill a pod's folder; 0 when nobody has published yet or the bucket cannot be read.

    The folder gets all programs or none. A server without programs compiles them, so no fault here
    keeps it from starting.
    """
    part = folder.with_name(f"{folder.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            say("this pod has compiled programs already")
            return 0
        manifest = bucket.read(f"{prefix}/{MANIFEST}")
        if manifest is None:
            say("no compiled programs yet: this replica compiles them, then publishes")
            return 0
        rows = json.loads(manifest)["files"]
        shutil.rmtree(part, ignore_errors=True)
        with ThreadPoolExecutor(WORKERS) as pool:
            sizes = list(pool.map(lambda row: _fetch(bucket, row, part), rows))
        part.rename(folder)
        (folder.parent / WARM).touch()
    except Exception as error:
        shutil.rmtree(part, ignore_errors=True)
        say(f"compiled programs not fetched, this replica compiles its own: {error}")
        return 0
    say(f"fetched {len(rows)} compiled programs, {sum(sizes) / 1e6:.1f} MB")
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
    with ThreadPoolExecutor(WORKERS) as pool:
        rows = list(pool.map(lambda path: _publish(bucket, prefix, folder, path), paths))
    body = json.dumps({"files": rows}, indent=1).encode()
    if bucket.put(f"{prefix}/{MANIFEST}", len(body), [body], only_new=True) is None:
        say("another replica has published its programs")
        return 0
    say(f"published {len(rows)} compiled programs for later replicas")
    return len(rows)


def publish_until_done(bucket: Bucket, prefix: str, folder: Path, ready: str) -> None:
    """Publish, again and again while it fails; what the bucket has is not sent twice."""
    wait = RETRY_SECONDS
    while True:
        try:
            publish(bucket, prefix, folder, ready)
        except Exception as error:
            why = str(error) or type(error).__name__
            say(f"compiled programs not published, tried again in {wait} s: {why}")
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_RETRY_SECONDS)
        else:
            return


def _fetch(bucket: Bucket, row: dict[str, str], part: Path) -> int:
    path, digest = part / row["name"], hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for piece in bucket.pieces(row["object"]):
            digest.update(piece)
            file.write(piece)
    if digest.hexdigest() != row["sha256"]:
        msg = f"{row['name']} is not what was published"
        raise ValueError(msg)
    return path.stat().st_size


def _publish(bucket: Bucket, prefix: str, folder: Path, path: Path) -> dict[str, str]:
    digest = hashlib.sha256()
    for piece in _pieces(path):
        digest.update(piece)
    name = f"{prefix}/{digest.hexdigest()}"
    bucket.put(name, path.stat().st_size, _unchanged(path, digest.hexdigest()), only_new=True)
    return {
        "name": path.relative_to(folder).as_posix(),
        "object": name,
        "sha256": digest.hexdigest(),
    }


def _unchanged(path: Path, expected: str) -> Iterator[bytes]:
    """A file's bytes; OSError at their end when they are not those that gave the digest."""
    digest = hashlib.sha256()
    for piece in _pieces(path):
        digest.update(piece)
        yield piece
    if digest.hexdigest() != expected:
        msg = f"{path} changes while it is read"
        raise OSError(msg)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(READ):
            yield piece


def _wait(url: str) -> None:
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310
                return
        except (urllib.error.URLError, *BROKEN):
            time.sleep(POLL_SECONDS)

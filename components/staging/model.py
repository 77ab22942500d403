"""Copies one revision of a model from the hub to a bucket: once, checked, and seen to move."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .bucket import PIECE, Bucket, Object
from .hub import File, Hub

WORKERS = 8
REPORT_SECONDS = 10
DIGEST = "hub-digest"
"""Note on each object: what the hub calls its content."""


@dataclass
class Progress:
    """How far the copy is, said every few seconds."""

    files: int
    total: int
    done_files: int = 0
    copied: int = 0
    present: int = 0
    started: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, copied: int = 0, present: int = 0, files: int = 0) -> None:
        with self._lock:
            self.copied += copied
            self.present += present
            self.done_files += files

    def __str__(self) -> str:
        done = self.copied + self.present
        rate = self.copied / max(time.monotonic() - self.started, 1e-3)
        left = f", about {_time((self.total - done) / rate)} left" if rate else ""
        share = 100 * done // self.total if self.total else 100
        return (
            f"{self.done_files} of {self.files} files, {_size(done)} of {_size(self.total)} "
            f"({share} %), {_size(rate)}/s{left}"
        )


def stage(hub: Hub, bucket: Bucket, model: str, revision: str) -> Progress:
    """Have every file of a revision in the bucket, then a manifest that says so."""
    folder, manifest = f"models/{model}/{revision}", f"manifests/{model}/{revision}.json"
    present = bucket.objects(folder)
    if (known := _complete(bucket.read(manifest), present)) is not None:
        total = sum(known.values())
        say(f"{model} at {revision[:12]} is staged: {len(known)} files, {_size(total)}")
        return Progress(len(known), total, done_files=len(known), present=total)

    files = hub.files(model, revision)
    progress = Progress(len(files), sum(file.size for file in files))
    say(f"staging {model} at {revision[:12]}: {len(files)} files, {_size(progress.total)}")

    def copy(file: File) -> dict[str, Any]:
        name = f"{folder}/{file.path}"
        found = present.get(name)
        if found and found.size == file.size and found.notes.get(DIGEST) == file.expected:
            progress.add(present=file.size, files=1)
            md5 = found.md5
        else:
            pieces = _counted(hub.read(model, revision, file, PIECE), progress)
            md5 = bucket.put(name, file.size, pieces, notes={DIGEST: file.expected}) or ""
            progress.add(files=1)
        return {"name": name, "size": file.size, "md5": md5, "digest": file.expected}

    with _reported(progress), ThreadPoolExecutor(WORKERS) as pool:
        # The largest first, so that none is left to the end alone.
        copies = [pool.submit(copy, file) for file in sorted(files, key=lambda file: -file.size)]
        try:
            rows = [each.result() for each in copies]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    body = json.dumps({"model": model, "revision": revision, "files": rows}, indent=1).encode()
    bucket.put(manifest, len(body), [body])
    say(f"staged {model}: {progress}")
    return progress


def _complete(manifest: bytes | None, present: dict[str, Object]) -> dict[str, int] | None:
    """Sizes by name when the bucket holds all that a manifest lists, unchanged."""
    if manifest is None:
        return None
    rows = json.loads(manifest)["files"]
    for row in rows:
        found = present.get(row["name"])
        if found is None or (found.size, found.md5) != (row["size"], row["md5"]):
            say(f"{row['name']} is missing or changed: it is copied again")
            return None
    return {row["name"]: row["size"] for row in rows}


def _counted(pieces: Iterator[bytes], progress: Progress) -> Iterator[bytes]:
    for piece in pieces:
        progress.add(copied=len(piece))
        yield piece


@contextmanager
def _reported(progress: Progress) -> Iterator[None]:
    stop = threading.Event()

    def report() -> None:
        while not stop.wait(REPORT_SECONDS):
            say(str(progress))

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        stop.set()
        reporter.join()


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} TB"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def say(text: str) -> None:
    print(text, flush=True)

"""A bucket of Cloud Storage, through its JSON API, as the pod's own identity."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from .web import BROKEN, PATIENCE, RefusedError, get_json, pause, request

STORAGE = "https://storage.googleapis.com"
METADATA = "http://metadata.google.internal"
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105

GRANT_SECONDS = 300
"""A new IAM grant is honoured within minutes, not at once."""
PIECE = 8 * 2**20
"""Of a resumable upload: a multiple of 256 KiB, but for the last. An upload holds a few of them."""


@dataclass(frozen=True)
class Object:
    """What a bucket says of one of its objects."""

    name: str
    size: int
    md5: str
    notes: Mapping[str, str]


@dataclass
class Token:
    """The pod's access token, renewed before it ends."""

    metadata: str = METADATA
    _text: str = ""
    _until: float = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def headers(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._until:
                url = f"{self.metadata}{TOKEN_PATH}"
                answer, _ = get_json(url, {"Metadata-Flavor": "Google"})
                self._text = answer["access_token"]
                self._until = time.monotonic() + answer["expires_in"] - 120
            return {"Authorization": f"Bearer {self._text}"}


@dataclass
class Bucket:
    """Objects appear whole or not at all."""

    name: str
    storage: str = STORAGE
    token: Token = field(default_factory=Token)
    grant_seconds: float = GRANT_SECONDS

    def objects(self, folder: str) -> dict[str, Object]:
        """Every object below a folder, by name. Waits while a fresh grant is still refused."""
        found: dict[str, Object] = {}
        query = {
            "prefix": f"{folder}/",
            "fields": "nextPageToken,items(name,size,md5Hash,metadata)",
        }
        until = time.monotonic() + self.grant_seconds
        while True:
            url = f"{self.storage}/storage/v1/b/{quote(self.name)}/o?{urlencode(query)}"
            try:
                answer, _ = get_json(url, self.token.headers())
            except RefusedError as error:
                if error.code not in (401, 403) or time.monotonic() >= until:
                    raise
                time.sleep(self.grant_seconds / 30)
                continue
            for item in answer.get("items", ()):
                found[item["name"]] = Object(
                    item["name"],
                    int(item["size"]),
                    _hex(item.get("md5Hash", "")),
                    item.get("metadata", {}),
                )
            if "nextPageToken" not in answer:
                return found
            query["pageToken"] = answer["nextPageToken"]

    def read(self, name: str) -> bytes | None:
        """A small object's bytes; None when there is no such object."""
        try:
            with request(f"{self._object(name)}?alt=media", headers=self.token.headers()) as answer:
                return bytes(answer.read())
        except RefusedError as error:
            if error.code == 404:
                return None
            raise

    def pieces(self, name: str) -> Iterator[bytes]:
        """An object's bytes, never many of them at once; fewer when the connection breaks."""
        with request(f"{self._object(name)}?alt=media", headers=self.token.headers()) as answer:
            while piece := answer.read(2**20):
                yield piece

    def put(
        self,
        name: str,
        size: int,
        pieces: Iterable[bytes],
        *,
        notes: Mapping[str, str] | None = None,
        only_new: bool = False,
    ) -> str | None:
        """Write an object and return its MD5; None when it exists and `only_new` leaves it.

        The last piece is sent only after `pieces` has ended well, so an iterator that raises on a
        wrong checksum leaves no object behind.
        """
        sent = hashlib.md5(usedforsecurity=False)
        try:
            upload = self._begin(name, size, notes or {}, only_new=only_new)
            held = b""
            for piece in _even(pieces):
                if held:
                    upload.send(held)
                sent.update(piece)
                held = piece
            stored = upload.send(held)
        except RefusedError as error:
            if only_new and error.code == 412:
                return None
            raise
        if stored != sent.hexdigest():
            msg = f"{name}: the bucket holds MD5 {stored}, sent was {sent.hexdigest()}"
            raise OSError(msg)
        return stored

    def delete(self, name: str) -> None:
        request(self._object(name), method="DELETE", headers=self.token.headers()).close()

    def _begin(self, name: str, size: int, notes: Mapping[str, str], *, only_new: bool) -> Upload:
        query = {"uploadType": "resumable", "name": name}
        query |= {"ifGenerationMatch": "0"} if only_new else {}
        headers = {
            **self.token.headers(),
            "Content-Type": "application/json",
            "X-Upload-Content-Length": str(size),
        }
        url = f"{self.storage}/upload/storage/v1/b/{quote(self.name)}/o?{urlencode(query)}"
        body = json.dumps({"metadata": dict(notes)}).encode()
        with request(url, method="POST", headers=headers, body=body) as answer:
            return Upload(str(answer.headers["Location"]), size)

    def _object(self, name: str) -> str:
        return f"{self.storage}/storage/v1/b/{quote(self.name)}/o/{quote(name, safe='')}"


@dataclass
class Upload:
    """A resumable upload; its address alone gives the right to it, so it is never printed."""

    session: str
    size: int
    kept: int = 0

    def send(self, piece: bytes) -> str:
        """Pass on the next bytes; the MD5 of the whole object after the last, else empty."""
        start = self.kept
        for attempt in range(1, PATIENCE + 1):
            rest = piece[self.kept - start :]
            try:
                stored = self._put(rest)
            except BROKEN:
                pause(attempt)
                stored = self._put(b"", patience=PATIENCE)
            if stored is not None:
                return _hex(stored["md5Hash"])
            if self.kept == start + len(piece):
                return ""
            if self.kept < start:
                break
        msg = f"the bucket keeps {self.kept} of {self.size} bytes and takes no more"
        raise OSError(msg)

    def _put(self, body: bytes, *, patience: int = 1) -> dict[str, Any] | None:
        """Send bytes, or ask how many are kept; the object once it is whole."""
        span = f"{self.kept}-{self.kept + len(body) - 1}" if body else "*"
        with request(
            self.session,
            method="PUT",
            headers={"Content-Range": f"bytes {span}/{self.size}"},
            body=body,
            expected=(308,),
            patience=patience,
        ) as answer:
            if answer.status != 308:
                return dict(json.loads(answer.read()))
            kept = answer.headers.get("Range")
            self.kept = 0 if kept is None else int(kept.rpartition("-")[2]) + 1
            return None


def _even(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of PIECE, however they come; one empty piece for an empty object."""
    waiting, some = bytearray(), False
    for each in pieces:
        waiting += each
        while len(waiting) >= PIECE:
            with memoryview(waiting) as view:
                yield bytes(view[:PIECE])
            del waiting[:PIECE]
            some = True
    if waiting or not some:
        yield bytes(waiting)


def _hex(md5: str) -> str:
    return base64.b64decode(md5).hex()

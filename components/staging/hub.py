"""One revision of one model on the Hugging Face hub."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol
from urllib.parse import quote

from .web import BROKEN, PATIENCE, RefusedError, pause, request

HUB = "https://huggingface.co"

FOREIGN_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".ot")
"""Copies of the weights in forms vLLM leaves alone once there are safetensors."""
FOREIGN_FOLDERS = ("original", "metal", "onnx", "figures", "assets")
PICTURES = (".md", ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".svg")


class DeniedError(Exception):
    """The hub's no: the message says what a person has to do."""


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True)
class File:
    """A file of a revision: large ones are named by SHA-256, small ones by their git blob."""

    path: str
    size: int
    sha256: str | None
    blob: str

    def digest(self) -> Digest:
        """An empty hash of the kind the hub states for this file."""
        if self.sha256 is not None:
            return hashlib.sha256()
        found = hashlib.sha1(usedforsecurity=False)
        found.update(f"blob {self.size}\0".encode())
        return found

    @property
    def expected(self) -> str:
        return self.sha256 or self.blob


@dataclass(frozen=True)
class Hub:
    """The hub as the holder of a token sees it; `token` is read anew for each request."""

    token: Callable[[], str | None]
    url: str = HUB

    def files(self, model: str, revision: str) -> list[File]:
        """What vLLM needs of a revision. Raises DeniedError."""
        found = list(self._tree(model, revision))
        safe = any(file.path.endswith(".safetensors") for file in found)
        return [file for file in found if _needed(file.path, safetensors=safe)]

    def read(self, model: str, revision: str, file: File, piece: int) -> Iterator[bytes]:
        """The file's bytes, checked at the end; after a break it goes on where it stopped."""
        url = f"{self.url}/{model}/resolve/{revision}/{quote(file.path)}"
        digest, have, failures = file.digest(), 0, 0
        while have < file.size:
            headers = self._headers() | ({"Range": f"bytes={have}-"} if have else {})
            try:
                with self._ask(model, url, headers) as answer:
                    if have and answer.status != 206:
                        msg = f"{file.path}: the hub does not go on at byte {have}"
                        raise OSError(msg)
                    while got := answer.read(min(piece, file.size - have)):
                        have, failures = have + len(got), 0
                        digest.update(got)
                        yield got
            except BROKEN:
                if failures == PATIENCE:
                    raise
            if have < file.size:
                failures += 1
                if failures > PATIENCE:
                    msg = f"{file.path}: the hub gives {have} of {file.size} bytes"
                    raise OSError(msg)
                pause(failures)
        if digest.hexdigest() != file.expected:
            msg = f"{file.path}: has {digest.hexdigest()}, the hub says {file.expected}"
            raise OSError(msg)

    def _tree(self, model: str, revision: str) -> Iterator[File]:
        url: str | None = f"{self.url}/api/models/{model}/tree/{revision}?recursive=true"
        while url is not None:
            with self._ask(model, url, self._headers()) as answer:
                page, links = json.loads(answer.read()), str(answer.headers.get("Link", ""))
            for item in page:
                if item["type"] == "file":
                    large = item.get("lfs") or {}
                    size = int(large.get("size", item["size"]))
                    yield File(item["path"], size, large.get("oid"), item["oid"])
            following = re.search(r'<([^>]+)>;\s*rel="next"', links)
            url = following.group(1) if following else None

    def _ask(self, model: str, url: str, headers: dict[str, str]) -> Any:
        try:
            return request(url, headers=headers)
        except RefusedError as error:
            why = _told(model, error.code, given="Authorization" in headers)
            raise (DeniedError(why) if why else error) from None

    def _headers(self) -> dict[str, str]:
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {}


def _told(model: str, code: int, *, given: bool) -> str | None:
    if code == 401 and given:
        return "the hub refuses the token: make a new one and set it again"
    if code == 401:
        return f"{model} needs a token: set the secret tpuserve:huggingFaceToken"
    if code == 403:
        return (
            f"the token's owner may not read {model}: accept its licence at {HUB}/{model}, and "
            "let a fine-grained token read gated repositories"
        )
    return f"the hub has no {model} of this revision" if code == 404 else None


def _needed(path: str, *, safetensors: bool) -> bool:
    name = PurePosixPath(path)
    if name.name.startswith(".") or name.suffix in PICTURES or name.parts[0] in FOREIGN_FOLDERS:
        return False
    return not (safetensors and name.suffix in FOREIGN_WEIGHTS)

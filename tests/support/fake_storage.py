"""A model hub, a bucket and a metadata server on this machine, with faults to order."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

MODEL = "org/tiny"
REVISION = "0123456789abcdef0123456789abcdef01234567"
HUB_TOKEN = "hf_" + "x" * 34
POD_TOKEN = "ya29.pod-token-of-the-fake-metadata-server"


@dataclass
class World:
    """What the servers hold, what they were asked, and what shall go wrong."""

    files: dict[str, bytes] = field(default_factory=dict)
    large: frozenset[str] = frozenset()
    objects: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    token: str | None = None
    licence_accepted: bool = True
    page: int = 1000
    break_hub_after: int | None = None
    """Bytes of each answer before the connection is cut."""
    corrupt: str = ""
    lose_upload_bytes: int = 0
    """Of the first piece of each upload, this many are not kept."""
    failing: int = 0
    """Answers of the bucket that are 503 before it works."""
    refused: int = 0
    """Answers of the bucket that are 403 before the grant is honoured."""
    create_only: bool = False
    ready: bool = True
    asked: Counter[str] = field(default_factory=Counter)
    leaked: list[str] = field(default_factory=list)
    uploads: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""
    cdn: str = ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    world: World


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = {key: each[0] for key, each in parse_qs(parts.query).items()}
        path = unquote(parts.path)
        world = self.server.world
        if path.startswith("/computeMetadata/"):
            wanted = self.headers.get("Metadata-Flavor") == "Google"
            self._json(200 if wanted else 403, {"access_token": POD_TOKEN, "expires_in": 3600})
        elif path == "/v1/models":
            self._json(200 if world.ready else 503, {"data": []})
        elif path.startswith("/api/models/"):
            self._tree(path, query)
        elif "/resolve/" in path:
            self._resolve(path)
        elif path.startswith("/cdn/"):
            self._content(path.removeprefix("/cdn/"))
        elif path.startswith(("/storage/", "/upload/")):
            self._storage(path, query, body)
        elif path.startswith("/session/"):
            self._session(path.removeprefix("/session/"), body)
        else:
            self._json(404, {})

    # The hub

    def _allowed(self, path: str) -> bool:
        world = self.server.world
        given = self.headers.get("Authorization", "")
        if world.token and given != f"Bearer {world.token}":
            self._json(401, {"error": "Invalid credentials"})
        elif world.token and not world.licence_accepted:
            self._json(403, {"error": "Access to this model is restricted"})
        elif REVISION not in path:
            self._json(404, {"error": "Revision not found"})
        else:
            return True
        return False

    def _tree(self, path: str, query: dict[str, str]) -> None:
        world = self.server.world
        world.asked["tree"] += 1
        if not self._allowed(path):
            return
        start = int(query.get("cursor", 0))
        names = sorted(world.files)
        rows: list[dict[str, Any]] = [
            {"type": "directory", "path": "original", "size": 0, "oid": ""}
        ]
        for name in names[start : start + world.page]:
            content = world.files[name]
            blob = _blob(content)
            row: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": blob}
            if name in world.large:
                digest = hashlib.sha256(content).hexdigest()
                row["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
            rows.append(row)
        links = {}
        if start + world.page < len(names):
            following = f"{world.url}{urlsplit(self.path).path}?cursor={start + world.page}"
            links["Link"] = f'<{following}>; rel="next"'
        self._json(200, rows, links)

    def _resolve(self, path: str) -> None:
        world = self.server.world
        world.asked["resolve"] += 1
        if self._allowed(path):
            name = path.partition(f"{REVISION}/")[2]
            self.send_response(302)
            self.send_header("Location", f"{world.cdn}/cdn/{name}?signature=secret")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _content(self, name: str) -> None:
        world = self.server.world
        if "Authorization" in self.headers:
            world.leaked.append(name)
        content = world.files[name]
        if name == world.corrupt:
            content = content[:-1] + b"!"
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(found.group(1)) if found else 0
        rest = content[start:]
        self.send_response(206 if found else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        limit = world.break_hub_after
        if limit is not None and len(rest) > limit:
            self.wfile.write(rest[:limit])
            self.close_connection = True
            return
        self.wfile.write(rest)

    # The bucket

    def _storage(self, path: str, query: dict[str, str], body: bytes) -> None:
        world = self.server.world
        if self.headers.get("Authorization") != f"Bearer {POD_TOKEN}":
            return self._json(401, {})
        with world.lock:
            if world.failing:
                world.failing -= 1
                return self._json(503, {})
            if world.refused:
                world.refused -= 1
                return self._json(403, {"error": "does not have storage.objects.list access"})
        if path.startswith("/upload/"):
            world.asked["upload"] += 1
            name = query["name"]
            only_new = query.get("ifGenerationMatch") == "0"
            if only_new and name in world.objects:
                return self._json(412, {})
            if world.create_only and name in world.objects:
                return self._json(403, {"error": "does not have storage.objects.delete access"})
            with world.lock:
                key = str(len(world.uploads))
                notes = json.loads(body).get("metadata", {})
                world.uploads[key] = {
                    "name": name, "notes": notes, "data": b"", "only_new": only_new, "puts": 0,
                }  # fmt: skip
            return self._json(200, {}, {"Location": f"{world.url}/session/{key}"})
        if query.get("alt") == "media":
            world.asked["read"] += 1
            name = path.partition("/o/")[2]
            if name not in world.objects:
                return self._json(404, {})
            return self._bytes(200, world.objects[name][0])
        world.asked["list"] += 1
        items = [
            {"name": name, "size": str(len(data)), "md5Hash": _md5(data), "metadata": notes}
            for name, (data, notes) in sorted(world.objects.items())
            if name.startswith(query["prefix"])
        ]
        return self._json(200, {"items": items} if items else {})

    def _session(self, key: str, body: bytes) -> None:
        world = self.server.world
        upload = world.uploads[key]
        span, _, total = self.headers["Content-Range"].removeprefix("bytes ").partition("/")
        if span != "*":
            start, end = map(int, span.split("-"))
            assert start == len(upload["data"]), "a piece that does not follow"
            assert end - start + 1 == len(body)
            upload["puts"] += 1
            if upload["puts"] == 1 and world.lose_upload_bytes:
                body = body[: -world.lose_upload_bytes]
            final = end + 1 == int(total)
            assert final or len(body) % (256 * 1024) == 0, "a piece of a size Cloud Storage refuses"
            upload["data"] += body
        if len(upload["data"]) == int(total):
            if upload["only_new"] and upload["name"] in world.objects:
                return self._json(412, {})
            world.objects[upload["name"]] = (upload["data"], upload["notes"])
            world.asked["object"] += 1
            return self._json(200, {"name": upload["name"], "md5Hash": _md5(upload["data"])})
        have = len(upload["data"])
        return self._json(308, {}, {"Range": f"bytes=0-{have - 1}"} if have else {})

    def _json(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._bytes(code, json.dumps(body).encode(), headers)

    def _bytes(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _blob(content: bytes) -> str:
    whole = f"blob {len(content)}\0".encode() + content
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


@contextmanager
def storage(world: World) -> Iterator[World]:
    """The three servers behind one port; the hub's content is fetched under another host name."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.world = world
    port = server.server_address[1]
    world.url, world.cdn = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

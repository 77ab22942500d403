"""A GitHub that answers from memory, for clients that only use pages, comments and labels."""

import json
import re
from collections.abc import Callable
from typing import Any

import httpx

from ops.github import GitHub

REPOSITORY = "owner/name"


class FakeGitHub:
    """Comments, labels and events of one pull request; `client` is what code under test gets."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.labels: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.pulls: dict[str, list[dict[str, Any]]] = {}
        self.trees: dict[str, str] = {}
        self.requests: list[str] = []
        self.fail: Callable[[httpx.Request], httpx.Response | None] = lambda _: None
        transport = httpx.MockTransport(self._answer)
        self.client = GitHub(
            httpx.Client(transport=transport, base_url="https://api.github.test"), REPOSITORY
        )

    def say(self, author: str, body: str) -> None:
        number = len(self.comments) + 1
        self.comments.append({"id": number, "user": {"login": author}, "body": body})

    def label(self, name: str, by: str) -> None:
        self.labels.append(name)
        self.events.append({"event": "labeled", "label": {"name": name}, "actor": {"login": by}})

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        assert path.startswith(f"/repos/{REPOSITORY}/")
        path = path.removeprefix(f"/repos/{REPOSITORY}")
        self.requests.append(f"{request.method} {path}")
        if refused := self.fail(request):
            return refused
        body = json.loads(request.content) if request.content else {}
        return self._route(request, path, body)

    def _route(self, request: httpx.Request, path: str, body: dict[str, Any]) -> httpx.Response:
        lists: dict[str, list[dict[str, Any]]] = {
            r"/issues/\d+/comments": self.comments,
            r"/issues/\d+/labels": [{"name": name} for name in self.labels],
            r"/issues/\d+/events": self.events,
        }
        for pattern, items in lists.items():
            if request.method == "GET" and re.fullmatch(pattern, path):
                return _page(request, items)
        if found := re.fullmatch(r"/commits/(\w+)/pulls", path):
            return _page(request, self.pulls.get(found[1], []))
        if found := re.fullmatch(r"/git/commits/(\w+)", path):
            tree = self.trees.get(found[1])
            return httpx.Response(200, json={"tree": {"sha": tree}}) if tree else _missing()
        return self._write(request.method, path, body)

    def _write(self, method: str, path: str, body: dict[str, Any]) -> httpx.Response:
        if method == "POST" and re.fullmatch(r"/issues/\d+/comments", path):
            self.say("github-actions[bot]", body["body"])
            return httpx.Response(201, json={})
        if found := re.fullmatch(r"/issues/comments/(\d+)", path):
            (comment,) = [each for each in self.comments if each["id"] == int(found[1])]
            if method == "DELETE":
                self.comments.remove(comment)
                return httpx.Response(204)
            comment["body"] = body["body"]
            return httpx.Response(200, json={})
        if method == "POST" and re.fullmatch(r"/issues/\d+/labels", path):
            self.labels += body["labels"]
            return httpx.Response(200, json=[])
        if found := re.fullmatch(r"/issues/\d+/labels/(.+)", path):
            name = found[1].replace("%2F", "/")
            if name not in self.labels:
                return _missing()
            self.labels.remove(name)
            return httpx.Response(200, json=[])
        return _missing()


def _page(request: httpx.Request, items: list[dict[str, Any]]) -> httpx.Response:
    size, page = (int(request.url.params[key]) for key in ("per_page", "page"))
    return httpx.Response(200, json=items[(page - 1) * size : page * size])


def _missing() -> httpx.Response:
    return httpx.Response(404, json={"message": "Not Found"})

"""The little of GitHub's REST API that reports and gates need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Imported where it is used: a report without GitHub does not wait for it.
    import httpx

API = "https://api.github.com"
_PAGE = 100


class GitHubError(Exception):
    """GitHub refused; the message says what was asked and what it answered."""


@dataclass(frozen=True)
class GitHub:
    """One repository, `owner/name`, through a client that carries the token."""

    client: httpx.Client
    repository: str

    @classmethod
    def open(cls, repository: str, token: str, *, api: str = API) -> GitHub:
        import httpx  # noqa: PLC0415  see above

        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if token:
            headers["Authorization"] = f"Bearer {token}"
        transport = httpx.HTTPTransport(retries=3)
        client = httpx.Client(base_url=api, headers=headers, timeout=30, transport=transport)
        return cls(client, repository)

    def send(self, method: str, path: str, *, body: Any = None, missing_ok: bool = False) -> Any:
        """The decoded answer; None for an empty one, and for 404 where that is fine."""
        import httpx  # noqa: PLC0415  see above

        try:
            answer = self.client.request(method, f"/repos/{self.repository}{path}", json=body)
        except httpx.HTTPError as error:
            msg = f"{method} {path}: {type(error).__name__}: {error}"
            raise GitHubError(msg) from error
        if answer.status_code == httpx.codes.NOT_FOUND and missing_ok:
            return None
        if answer.is_error:
            msg = f"{method} {path}: GitHub answered {answer.status_code}: {_reason(answer)}"
            raise GitHubError(msg)
        return answer.json() if answer.content else None

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Every item of a list, over all its pages."""
        page = 1
        while True:
            joint = "&" if "?" in path else "?"
            items = self.send("GET", f"{path}{joint}per_page={_PAGE}&page={page}") or []
            yield from items
            if len(items) < _PAGE:
                return
            page += 1


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json().get("message", ""))[:300]
    except (ValueError, AttributeError):
        return answer.reason_phrase

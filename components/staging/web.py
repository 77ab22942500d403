"""HTTP with retries, on urllib: the image brings no packages."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.parse import urlsplit

PATIENCE = 6
"""Attempts without progress before something counts as broken."""
TIMEOUT_SECONDS = 60
RETRIED = (408, 429, 500, 502, 503, 504)
BROKEN = (OSError, HTTPException)
"""What a connection that fails or ends early raises."""


class RefusedError(Exception):
    """An answer that another attempt would not change."""

    def __init__(self, code: int, url: str, text: str) -> None:
        # Signed addresses carry their signature in the query.
        super().__init__(f"{url.partition('?')[0]} answered {code}: {text[:300]}")
        self.code = code


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows the hub to its content network, without handing that the token."""

    def redirect_request(  # noqa: PLR0917  urllib's signature
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            new.remove_header("Authorization")
        return new


_opener = urllib.request.build_opener(_Redirects)


def request(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    expected: tuple[int, ...] = (),
    patience: int = PATIENCE,
) -> Any:
    """An open response. Raises RefusedError, or OSError when patience is at its end."""
    for attempt in range(1, patience + 1):
        asked = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
        try:
            return _opener.open(asked, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            if error.code in expected:
                return error
            with error:
                text = error.read(2000).decode("utf-8", "replace")
            refusal = RefusedError(error.code, url, text)
            if error.code not in RETRIED:
                raise refusal from None
            failure = OSError(str(refusal))
        except BROKEN as error:
            failure = OSError(f"{urlsplit(url).netloc}: {error}")
        if attempt < patience:
            pause(attempt)
    raise failure


def get_json(url: str, headers: Mapping[str, str] | None = None) -> tuple[Any, Mapping[str, str]]:
    with request(url, headers=headers) as answer:
        return json.loads(answer.read()), dict(answer.headers.items())


def pause(attempt: int) -> None:
    time.sleep(min(30.0, 0.25 * 2**attempt))

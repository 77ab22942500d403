"""The OpenAI-compatible HTTP API as vLLM speaks it, read strictly."""

import functools
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from ops.verify.evidence import masked

_LONGEST_QUOTE = 300
_SSE_FIELDS = {"data", "event", "id", "retry"}


class ApiError(Exception):
    """The server did not do what the API promises; `fix` says what to look at."""

    def __init__(self, message: str, fix: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.fix = fix
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Event:
    """One server-sent event with JSON data, and when it came (`time.perf_counter`)."""

    data: dict[str, Any]
    at: float


class Api:
    """Requests to one server. `address` is asked anew each time: a tunnel may have moved.

    The key is masked in everything that comes back, before any of it is cut or quoted.
    """

    def __init__(
        self,
        address: Callable[[], str],
        *,
        base_path: str,
        key: str | None,
        timeout: float,
        proxy: Callable[[], str] | None = None,
    ) -> None:
        self._address = address
        self._proxy = proxy
        self._base_path = base_path.rstrip("/")
        self.timeout = timeout
        self._secrets = (key,) if key else ()
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http: httpx.Client | None = None
        self._first = threading.Lock()

    def at(self, address: str) -> "Api":
        """The same caller at another address, reached the same way."""
        other = Api(
            lambda: address,
            base_path=self._base_path,
            key=None,
            timeout=self.timeout,
            proxy=self._proxy,
        )
        other._secrets, other._headers = self._secrets, self._headers
        return other

    def close(self) -> None:
        if self._http is not None:
            self._http.close()

    def get(self, path: str, *, timeout: float | None = None) -> httpx.Response:
        """GET below the server's root, for /health and /metrics."""
        client, root = self._client()
        return client.get(f"{root}{path}", timeout=timeout or self.timeout)

    def models(self, *, timeout: float | None = None) -> dict[str, Any]:
        return self._parse(self.get(f"{self._base_path}/models", timeout=timeout))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST JSON below the API's base path; the answer must be a JSON object."""
        client, root = self._client()
        return self._parse(client.post(f"{root}{self._base_path}{path}", json=body))

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[Event]:
        """POST JSON and yield the events of the answer up to `[DONE]`.

        Raises ApiError on a malformed event, on an error event, on an end without `[DONE]`, on data
        after it, and when the whole takes longer than the timeout.
        """
        client, root = self._client()
        deadline = time.perf_counter() + self.timeout
        done = False
        with client.stream("POST", f"{root}{self._base_path}{path}", json=body) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                raise self._refusal(response)
            kind = response.headers.get("content-type", "none")
            if not kind.startswith("text/event-stream"):
                msg = f"the stream has content type {kind}, not text/event-stream"
                raise ApiError(msg, "look for a proxy that rewrites or buffers answers")
            for raw in response.iter_lines():
                line = masked(raw, self._secrets)
                if time.perf_counter() > deadline:
                    msg = f"the stream was not finished after {self.timeout:g} s"
                    raise ApiError(msg, "raise --timeout if the model is that slow")
                if not line or line.startswith(":"):
                    continue
                if done:
                    raise ApiError(f"the stream went on after [DONE]: {quote(line)}")
                name, colon, payload = line.partition(":")
                if not colon or name not in _SSE_FIELDS:
                    raise ApiError(f"not a server-sent event: {quote(line)}")
                if name != "data":
                    continue
                payload = payload.strip()
                if payload == "[DONE]":
                    done = True
                    continue
                yield Event(data=_event(payload), at=time.perf_counter())
        if not done:
            msg = "the stream ended without [DONE]"
            raise ApiError(msg, "the server or a proxy cut the answer: see timeouts and restarts")

    def _parse(self, response: httpx.Response) -> dict[str, Any]:
        """The JSON object of a 200 answer. Raises ApiError on anything else."""
        if response.status_code != httpx.codes.OK:
            raise self._refusal(response)
        path, text = response.request.url.path, masked(response.text, self._secrets)
        try:
            answer = json.loads(text)
        except ValueError:
            msg = f"{path} answered 200 without JSON: {quote(text)}"
            raise ApiError(msg, "is this the model server, or a proxy's page?") from None
        if not isinstance(answer, dict):
            msg = f"{path} answered JSON that is no object: {quote(text)}"
            raise ApiError(msg)
        return dict(masked(answer, self._secrets))

    def _refusal(self, response: httpx.Response) -> ApiError:
        """The error an answer other than 200 stands for, with the server's own words."""
        path, status = response.request.url.path, response.status_code
        fixes = {
            401: "put the server's key in TPUSERVE_API_KEY",
            403: "put the server's key in TPUSERVE_API_KEY",
            404: "check the address and, behind a Gateway, the HTTPRoute's status",
            502: "the load balancer reached no ready server: see pods and health check policy",
            503: "no server is ready behind this address, or it refuses load",
            504: "the backend timeout cut the answer: raise timeoutSec in the GCPBackendPolicy",
        }
        words = quote(_words(masked(response.text, self._secrets)))
        msg = f"{path} answered {status} {response.reason_phrase}: {words}"
        return ApiError(msg, fixes.get(status, ""), status)

    def _client(self) -> tuple[httpx.Client, str]:
        root = self._address().rstrip("/")
        with self._first:
            if self._http is None:
                # A proxy from the environment must not be asked for an address on this machine.
                local = urlsplit(root).hostname in {"127.0.0.1", "localhost", "::1"}
                self._http = httpx.Client(
                    headers=self._headers,
                    verify=_trusted(),
                    timeout=self.timeout,
                    trust_env=not local and self._proxy is None,
                    proxy=None if self._proxy is None else self._proxy(),
                )
        return self._http, root


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Whom to believe over TLS; reading the list takes longer than most requests."""
    return httpx.create_ssl_context()


def quote(text: str, longest: int = _LONGEST_QUOTE) -> str:
    """A server's words, short enough to print."""
    text = " ".join(text.split())
    return f"{text[:longest]}..." if len(text) > longest else text or "(empty)"


def _words(text: str) -> str:
    """The message of an error in the API's form, else the text itself."""
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    if isinstance(answer, dict):
        error = answer.get("error", answer)
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            return str(error["message"])
    return text


def _event(payload: str) -> dict[str, Any]:
    try:
        data = json.loads(payload)
    except ValueError:
        raise ApiError(f"an event is not JSON: {quote(payload)}") from None
    if not isinstance(data, dict):
        raise ApiError(f"an event is no JSON object: {quote(payload)}")
    if "error" in data:
        raise ApiError(f"the server broke off the stream: {quote(json.dumps(data['error']))}")
    return data

"""A tunnel to a Service in the cluster, kept by a `kubectl port-forward` process."""

import contextlib
import queue
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Self, cast

from ops.verify.endpoints import Endpoint, EndpointError, Service, public_url

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")
_START_SECONDS = 15.0
_HOPELESS = re.compile(
    r"context .* does not exist|Unauthorized|Forbidden|must be logged in|executable .* not found"
)


class PortForwardError(ConnectionError):
    """kubectl could not forward yet; the message carries what it printed."""


class PortForward:
    """Forwards a free local port; `url()` starts the process again when it has died.

    kubectl binds to one pod and ends with it, and refuses while the pod is pending, so a model that
    is still being scheduled or loaded needs several attempts.
    """

    def __init__(
        self, service: Service, context: str | None = None, *, kind: str = "service"
    ) -> None:
        self._service = service
        self._command = [
            "kubectl",
            *(["--context", context] if context else []),
            "--namespace",
            service.namespace,
            "port-forward",
            "--address",
            "127.0.0.1",
            f"{kind}/{service.name}",
            f":{service.port}",
        ]
        self._process: subprocess.Popen[str] | None = None
        self._port = 0
        self._complaints: deque[str] = deque(maxlen=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def url(self) -> str:
        """The local address. PortForwardError: not now. EndpointError: never like this."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        return f"http://127.0.0.1:{self._port}"

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        self._process = None

    def _start(self) -> None:
        self.stop()
        self._complaints.clear()
        try:
            process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        except FileNotFoundError:
            msg = "kubectl is not on PATH: install it, or give an address with --url"
            raise EndpointError(msg) from None
        self._process = process
        lines: queue.Queue[str] = queue.Queue()
        talk = _pump(cast("IO[str]", process.stdout), lines.put)
        complaints = _pump(cast("IO[str]", process.stderr), self._complaints.append)
        match = _FORWARDING.match(_first_line(lines, talk))
        if match is None:
            process.kill()
            complaints.join(1)
            self.stop()
            words = " ".join(self._complaints) or "kubectl said nothing"
            msg = f"kubectl port-forward to {self._service}: {words}"
            if _HOPELESS.search(words):
                msg += "; run `gcloud container clusters get-credentials` for this cluster"
                raise EndpointError(msg)
            raise PortForwardError(msg)
        self._port = int(match.group(1))


@contextmanager
def connect(endpoint: Endpoint, *, direct: bool) -> Iterator[Callable[[], str]]:
    """A function that gives the endpoint's address now; through kubectl where it has a Service.

    `direct` takes the endpoint's own address instead, for a caller inside its network.
    """
    service = _tunnelled(endpoint, direct=direct)
    if service is None:
        yield lambda: endpoint.url or ""
        return
    with PortForward(service, endpoint.context) as forward:
        yield forward.url


def describe(endpoint: Endpoint, *, direct: bool) -> str:
    """How the endpoint is reached, for people; without user and password."""
    if service := _tunnelled(endpoint, direct=direct):
        return f"kubectl port-forward {service}"
    return public_url(endpoint.url or "")


def _tunnelled(endpoint: Endpoint, *, direct: bool) -> Service | None:
    return None if direct and endpoint.url else endpoint.service


def _first_line(lines: queue.Queue[str], talk: threading.Thread) -> str:
    """The first line, or nothing when the process ends or stays silent."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            return lines.get(timeout=0.05)
        if not talk.is_alive() and lines.empty():
            break
    return ""


def _pump(pipe: IO[str], sink: Callable[[str], None]) -> threading.Thread:
    """Reads a pipe to its end, so that the process never blocks on a full one."""

    def run() -> None:
        # ValueError: stop() closed the pipe.
        with contextlib.suppress(ValueError):
            for line in pipe:
                sink(line.strip())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread

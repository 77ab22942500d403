"""The provider process: `python -m simcloud.server FOLDER` serves both packages until it is ended.

Prints one line, `gcp:PORT,kubernetes:PORT`, the value of PULUMI_DEBUG_PROVIDERS for the engine's
own process. FOLDER holds the cloud (`cloud/`) and the only backend it serves (`state/`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent import futures
from pathlib import Path
from typing import Any

from simcloud import wire

wire.light()  # before anything imports the protocol

import grpc  # noqa: E402
from pulumi.runtime.proto import provider_pb2_grpc  # noqa: E402

from simcloud import faults  # noqa: E402
from simcloud.clock import Clock  # noqa: E402
from simcloud.gcp import Gcp  # noqa: E402
from simcloud.guard import Guard  # noqa: E402
from simcloud.known import known_types  # noqa: E402
from simcloud.kubernetes import Kubernetes  # noqa: E402
from simcloud.provider import Service  # noqa: E402
from simcloud.store import Store  # noqa: E402

_STOP = {signal.SIGTERM, signal.SIGINT}

# One thread a request under way: a stack's creations all wait at the same time.
_THREADS = 300


def serve(folder: Path) -> dict[str, tuple[Any, int]]:
    """Start one server a package: its name, the server and its port."""
    store, guard, clock = Store(folder / "cloud"), Guard(folder / "state"), Clock()
    if text := os.environ.get(faults.VARIABLE):
        store.set_faults(map(str, faults.parse(text, known_types())))
    started = {}
    for package in (Gcp(), Kubernetes()):
        server = grpc.server(
            futures.ThreadPoolExecutor(_THREADS),
            options=[("grpc.max_receive_message_length", 400 << 20), ("grpc.so_reuseport", 0)],
        )
        service = Service(package, store, clock, guard)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        started[package.name] = (server, port)
    return started


def _follow_parent() -> None:
    """End with the process that started this one, even when that is killed outright."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main(argv: list[str]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)  # before any thread, for sigwait
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        servers = serve(Path(argv[0]))
    except ValueError as mistake:
        sys.exit(str(mistake))
    print(",".join(f"{name}:{port}" for name, (_, port) in servers.items()), flush=True)
    signal.sigwait(_STOP)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

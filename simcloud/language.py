"""A language runtime for commands that ask for one and run no program, such as `pulumi import`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

PORTS = "PULUMI_DEBUG_LANGUAGES"


class _Runtime(language_pb2_grpc.LanguageRuntimeServicer):
    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return plugin_pb2.PluginInfo()

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return language_pb2.GetRequiredPackagesResponse()


@contextmanager
def attached() -> Iterator[str]:
    """Serve it; the value of PULUMI_DEBUG_LANGUAGES for the engine's own process."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(_Runtime(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"python:{port}"
    finally:
        server.stop(None)

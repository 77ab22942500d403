"""Runs in a pod: an HTTP proxy on one port, one request or tunnel a connection.

Nothing but Python's library is there.
"""

import contextlib
import socket
import socketserver
import sys
import threading
from typing import cast
from urllib.parse import urlsplit

LONGEST_HEAD = 65536


def head(connection: socket.socket) -> tuple[bytes, bytes]:
    """A request's head and what of its body came with it."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < LONGEST_HEAD:
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    before, _, after = data.partition(b"\r\n\r\n")
    return before, after


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Relay(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        mine = cast(socket.socket, self.request)
        before, rest = head(mine)
        if not before:
            return
        first, *lines = before.split(b"\r\n")
        try:
            method, target, version = first.split(b" ")
            tunnel = method == b"CONNECT"
            url = urlsplit(f"//{target.decode()}" if tunnel else target.decode())
            theirs = socket.create_connection((url.hostname or "", url.port or 80), timeout=20)
        except (OSError, ValueError) as error:
            words = f"{error}".encode()
            mine.sendall(
                b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(words), words)
            )
            return
        theirs.settimeout(None)
        if tunnel:
            mine.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            theirs.sendall(rest)
        else:
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            dropped = (b"connection:", b"proxy-")
            kept = [line for line in lines if not line.lower().startswith(dropped)]
            start = b" ".join((method, path.encode(), version))
            theirs.sendall(b"\r\n".join((start, *kept, b"Connection: close", b"", rest)))
        threading.Thread(target=pump, args=(mine, theirs), daemon=True).start()
        pump(theirs, mine)
        theirs.close()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    Server(("0.0.0.0", int(sys.argv[1])), Relay).serve_forever()  # noqa: S104  its pod is closed

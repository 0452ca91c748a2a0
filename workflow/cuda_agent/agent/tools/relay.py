"""The inner end of the way out: runs inside the sandbox, with the standard library only. See ``agent.gateway``."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

SOCKET = ".model.sock"  # in the workspace folder
PORT = 8089
URL = f"http://127.0.0.1:{PORT}"


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_WR if end is target else socket.SHUT_RD)


def _serve(listener: socket.socket, path: str) -> None:
    while True:
        inner, _ = listener.accept()
        outer = socket.socket(socket.AF_UNIX)
        try:
            outer.connect(path)
        except OSError:
            inner.close()
            continue
        for ends in ((inner, outer), (outer, inner)):
            threading.Thread(target=_copy, args=ends, daemon=True).start()


def start(folder: str) -> None:
    """Pass connections to `PORT` on to the socket file in the workspace, if there is one."""
    path = Path(folder) / SOCKET
    if not path.is_socket():
        return
    listener = socket.create_server(("127.0.0.1", PORT))
    threading.Thread(target=_serve, args=(listener, str(path)), daemon=True).start()

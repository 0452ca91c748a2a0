"""The one way out of the sandbox, for an outside agent that needs its model: to one server, whose key stays outside.

The agent inside talks HTTP to ``tools.relay`` on its own loopback; that passes bytes to a socket file in the workspace;
this end of it, outside, sends each request on to the server that the parameters name, and to no other.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

import httpx

from cuda_agent.agent.tools.relay import SOCKET
from cuda_agent.sandbox import MachineError

_MAX_BODY = 64 * 2**20
_TIMEOUT_S = 600.0
# Of a request: what is about this connection, and credentials, which are put in here.
_DROPPED = {
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "authorization",
    "x-api-key",
    "accept-encoding",
}
_RETURNED = {"content-type", "retry-after", "retry-after-ms", "x-request-id", "request-id"}


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


def _handler(base_url: str, key: str) -> type[BaseHTTPRequestHandler]:
    client = httpx.Client(timeout=_TIMEOUT_S)

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S

        def _pass_on(self) -> None:
            self.close_connection = True
            length = self.headers.get("Content-Length", "0")
            # A path that does not start with a slash could turn the server's name into a part of another one.
            if not self.path.startswith("/") or not length.isdigit() or int(length) > _MAX_BODY:
                self.send_error(400)
                return
            body = self.rfile.read(int(length))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _DROPPED}
            if key:
                headers |= {"Authorization": f"Bearer {key}", "x-api-key": key}
            try:
                with client.stream(self.command, base_url + self.path, content=body, headers=headers) as response:
                    self.send_response(response.status_code)
                    for name in _RETURNED & set(response.headers):
                        self.send_header(name, response.headers[name])
                    self.end_headers()
                    for data in response.iter_bytes():
                        self.wfile.write(data)
                        self.wfile.flush()
            except (httpx.HTTPError, httpx.InvalidURL):
                with contextlib.suppress(OSError):
                    self.send_error(502)
            except OSError:
                return  # the agent has gone

        do_GET = do_POST = _pass_on

        def log_message(self, *_: object) -> None:
            return

    return Handler


@contextlib.contextmanager
def gateway(params: Any, workspace: Path) -> Iterator[None]:
    """Serve the way out while in the block, if the policy is a command that names a server.

    Raises:
        MachineError: the socket cannot be made.
    """
    if params.kind != "command" or params.base_url is None:
        yield
        return
    handler = _handler(params.base_url.rstrip("/"), os.environ.get(params.api_key_env, ""))
    try:
        server = _Server(str(workspace / SOCKET), handler)
    except OSError as error:
        raise MachineError(f"cannot make the socket {workspace / SOCKET}: {error}") from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="gateway")
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Length-prefixed JSON over a socket: all that processes of the pool say to each other."""

from __future__ import annotations

import json
import re
import socket
import struct
from typing import Any

MAX_BYTES = 16 * 2**20  # the longest message that is believed

# Half of a character, as only an escape can bring it; no file and no table takes it.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_HEAD = struct.Struct("!I")


class WireError(ValueError):
    """The other side sent something that is no message."""


def encode(message: Any) -> bytes:
    """One message as bytes.

    Raises:
        TypeError, ValueError: it is not JSON, or too long.
    """
    body = json.dumps(message).encode()
    if len(body) > MAX_BYTES:
        raise ValueError(f"the message has {len(body)} bytes; at most {MAX_BYTES} are allowed")
    return _HEAD.pack(len(body)) + body


def _plain(value: Any) -> Any:
    """The same value with every lone surrogate in its texts replaced."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    return value


class Reader:
    """Collects bytes until they make a message; for one end of a stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()

    def parse(self) -> dict[str, Any] | None:
        """The next message already received, or None.

        Raises:
            WireError: what was received is no message.
        """
        if len(self._buffer) < _HEAD.size:
            return None
        (length,) = _HEAD.unpack_from(self._buffer)
        if length > MAX_BYTES:
            raise WireError(f"a message of {length} bytes was announced; at most {MAX_BYTES} are allowed")
        end = _HEAD.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        try:
            message = json.loads(body)
            message = _plain(message) if b"\\u" in body else message
        except (ValueError, RecursionError) as error:
            raise WireError(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise WireError(f"a message must be an object, not {type(message).__name__}")
        return message

    def fill(self) -> bool:
        """Receive once; False if the other side has closed."""
        try:
            data = self.sock.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            return False
        self._buffer += data
        return bool(data)

    def next(self) -> dict[str, Any] | None:
        """Wait for a message; None once the other side has closed."""
        while (message := self.parse()) is None:
            if not self.fill():
                return None
        return message

"""Cutting text to what a model is shown."""

from __future__ import annotations

MAX_CHARS = 30_000  # of one tool's result
KEEP_BYTES = 4 * MAX_CHARS  # of an output while it is read; at least MAX_CHARS characters


class ToolError(Exception):
    """A call that failed; the message is for the model."""


def cut(text: str, limit: int = MAX_CHARS) -> str:
    """The beginning and the end of a text, with a line between them that says how much is missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    lost = text[half:-half]
    return f"{text[:half]}\n\n... [{lost.count(chr(10))} lines, {len(lost)} characters left out] ...\n\n{text[-half:]}"


class Tail:
    """A stream of bytes of which the beginning and the end are kept."""

    def __init__(self) -> None:
        self._head, self._end, self._lost = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take more of the stream."""
        half = KEEP_BYTES // 2
        room = half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._end += data[room:] if room > 0 else data
        over = len(self._end) - half
        if over > 0:
            self._lost += over
            del self._end[:over]

    def take(self) -> str:
        """What was kept, as text; starts anew."""
        middle = f"\n\n... [{self._lost} bytes left out] ...\n\n".encode() if self._lost else b""
        text = (bytes(self._head) + middle + bytes(self._end)).decode(errors="replace")
        self.__init__()
        return cut(text)

"""How far long work is: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Counts finished items of one job and shows how many, how fast and how long still.

    Args:
        what: name of the work, shown first.
        total: how many items there are; None if that shows only on the way.
        every_s: seconds between two lines where there is no terminal.
    """

    def __init__(self, what: str, total: int | None, stream: TextIO | None = None, every_s: float = 15.0) -> None:
        self.what, self.total, self.every_s = what, total, every_s
        self.stream = stream or sys.stderr
        self.done = self.resumed = 0
        self._start = self._last = time.monotonic()

    def __call__(self, message: str = "", *, resumed: bool = False) -> None:
        """One more item is finished; ``resumed`` if an earlier job had finished it."""
        self.done += 1
        self.resumed += resumed
        now = time.monotonic()
        live = self.stream.isatty()
        last = self.done == self.total
        if not live and now - self._last < self.every_s and not last:
            return
        self._last = now
        fresh = self.done - self.resumed
        rate = fresh / max(now - self._start, 1e-9)
        text = f"{self.what}: {self.done}" + (f"/{self.total}" if self.total else "")
        if self.resumed:
            text += f" ({self.resumed} resumed)"
        text += f", {60 * rate:.1f} a minute"
        if self.total and rate > 0:
            text += f", {(self.total - self.done) / rate:.0f} s left"
        text = f"{text} {message}".rstrip()
        if live:
            self.stream.write("\r\x1b[2K" + text + ("\n" if last else ""))
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

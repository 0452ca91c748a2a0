"""The watchdog: one thread that reads what children print, and ends those that pass a limit."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time

from cuda_agent.sandbox import processes
from cuda_agent.sandbox.limits import OUTPUT_FACTOR, Limits, Status

POLL_S = 0.05


class Capture:
    """The beginning and the end of a stream."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._half = max(limit // 2, 1)
        self._head, self._tail = bytearray(), bytearray()

    def add(self, data: bytes) -> None:
        """Take more of the stream."""
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > self._half:
            del self._tail[: -self._half]

    def take(self) -> str:
        """What was kept, as text; starts anew."""
        cut = self.total - len(self._head) - len(self._tail)
        middle = f"\n[... {cut} bytes left out ...]\n".encode() if cut > 0 else b""
        text = (bytes(self._head) + middle + bytes(self._tail)).decode(errors="replace")
        self.total = 0
        self._head.clear()
        self._tail.clear()
        return text


class Watched:
    """One tree of processes, its limits, and what became of it.

    Args:
        pid, pidfd: root of the tree. The descriptor is this object's to close.
        outputs: descriptors that it prints to, by name; this object's to close.
        skip: how many generations from the root on are the sandbox's own processes.
        stop: signal that ends the root and with it all others.
    """

    def __init__(self, pid: int, pidfd: int, outputs: dict[str, int], limits: Limits, *, skip: int, stop: int) -> None:
        self.pid, self.pidfd, self.limits, self.skip, self.stop = pid, pidfd, limits, skip, stop
        self.verdict: tuple[Status, str] | None = None
        self.peak_mb = 0.0
        self.deadline = float("inf")  # on the monotonic clock
        self.detached = False  # nobody waits: the watchdog forgets it when it has ended
        self.captures = {name: Capture(limits.output_kb * 1024) for name in outputs}
        self._outputs = {fd: self.captures[name] for name, fd in outputs.items()}
        self._printed = 0
        self._lock = threading.RLock()
        self._killed_at = 0.0
        for fd in outputs.values():
            os.set_blocking(fd, False)

    def condemn(self, status: Status, reason: str) -> None:
        """End the tree. The first reason stands."""
        with self._lock:
            if self.verdict is None:
                self.verdict = (status, reason)
            self.kill(self.stop if not self._killed_at else signal.SIGKILL)
            self._killed_at = self._killed_at or time.monotonic()

    def kill(self, number: int) -> None:
        """Signal the root."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, number)

    def ended(self, timeout_s: float = 0) -> bool:
        """Whether the root has ended; waits for it."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def descriptors(self) -> list[int]:
        """Outputs that are still open."""
        with self._lock:
            return list(self._outputs)

    def drain(self) -> None:
        """Read what was printed so far."""
        with self._lock:
            for fd, capture in list(self._outputs.items()):
                budget = 64
                while budget:
                    budget -= 1
                    try:
                        data = os.read(fd, 1 << 16)
                    except BlockingIOError:
                        break
                    if not data:
                        del self._outputs[fd]
                        os.close(fd)
                        break
                    capture.add(data)
                    self._printed += len(data)
            limit = self.limits.output_kb * 1024 * OUTPUT_FACTOR
            if self._printed > limit and self.verdict is None:
                self.condemn("output", f"more than {limit} bytes of output")

    def sample(self) -> None:
        """Look at the tree once, and end it if it is past a limit."""
        if self.verdict is not None:
            if self._killed_at and time.monotonic() - self._killed_at > 2:
                self.kill(signal.SIGKILL)
            return
        allowed = self.limits.tasks
        pids = processes.tree(self.pid, self.skip, most=allowed)
        if len(pids) > allowed:
            self.condemn("processes", f"more than {allowed} processes and threads")
            return
        memory = processes.memory_mb(pids, self.limits.memory_mb)
        self.peak_mb = max(self.peak_mb, memory)
        tasks = processes.threads(pids)
        if time.monotonic() > self.deadline:
            self.condemn("timeout", f"no end after {self.limits.timeout_s:.1f} s")
        elif memory > self.limits.memory_mb:
            self.condemn("memory", f"{memory:.0f} MiB resident; sandbox.memory_mb is {self.limits.memory_mb}")
        elif tasks > allowed:
            self.condemn("processes", f"more than {allowed} processes and threads")

    def close(self) -> None:
        """Give the descriptors back. The tree must have ended."""
        with self._lock:
            for fd in self._outputs:
                os.close(fd)
            self._outputs.clear()
            os.close(self.pidfd)


class Watchdog:
    """Watches every tree of this process from one thread, which runs while there is one."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        """Watch a tree from now on."""
        with self._lock:
            self._watched.add(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sandbox-watchdog", daemon=True)
                self._thread.start()

    def remove(self, watched: Watched) -> None:
        """Stop watching, read the rest of its output and close its descriptors."""
        with self._lock:
            self._watched.discard(watched)
            watched.drain()
            watched.close()

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                poll = select.poll()
                for watched in self._watched:
                    for fd in watched.descriptors():
                        poll.register(fd, select.POLLIN)
            poll.poll(max(due - time.monotonic(), 0.001) * 1000)
            with self._lock:
                for watched in self._watched:
                    watched.drain()
                if time.monotonic() >= due:
                    for watched in list(self._watched):
                        if watched.detached and watched.ended():
                            self._watched.discard(watched)
                            watched.close()
                        else:
                            watched.sample()
                    due = time.monotonic() + POLL_S


WATCHDOG = Watchdog()

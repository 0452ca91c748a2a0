"""One child of the pool, seen from the parent."""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_agent.sandbox import wire
from cuda_agent.sandbox.folders import remove
from cuda_agent.sandbox.limits import Limits, MachineError, Outcome, Status
from cuda_agent.sandbox.watch import WATCHDOG, Watched

if TYPE_CHECKING:
    from cuda_agent.sandbox.pool import Pool

GPU_CHECK = "cuda_agent.sandbox.child:use_gpu"

_READY_S = 60.0  # for the child to lock itself in
_END_S = 30.0  # for the kernel to end a jail
_OUT_OF_MEMORY = (
    *("can't allocate memory", "out of memory", "cannot allocate memory", "std::bad_alloc"),
    "driverapi::get()->nvmlinit",  # torch, when a GPU's memory is full, asks NVML who holds it; it is not there inside
)
_GPU_FAULTS = (
    *("no cuda-capable device", "found no nvidia driver", "driver version is insufficient", "uncorrectable ecc"),
    *("devices are busy or unavailable", "device(s) is/are busy", "system not yet initialized", "cuda unknown error"),
)


class Session:
    """A child that answers calls one after the other, and keeps its state between them. Made by `Pool.session`.

    Every call returns an `Outcome`, also when there is no child (any more): a session whose child has ended answers
    each later call with how it ended.
    """

    def __init__(self, pool: Pool, limits: Limits, folder: Path | str | None, buffers: dict[str, int]) -> None:
        self._pool, self._limits = pool, limits
        self._own_folder = folder is None
        self.folder = Path(pool.scratch() if folder is None else folder).resolve()
        self._left_s = limits.timeout_s
        self._calls = 0
        self._stage = ""
        self._end: tuple[Status, str] | None = None
        self._watched: Watched | None = None
        self._memory: dict[str, mmap.mmap] = {}
        self._oom_kills = _oom_kills()
        self._channel, self._report = socket.socket(), -1
        try:
            self._start(buffers)
        except (MachineError, OSError) as error:
            self._end = ("machine", str(error))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def buffer(self, name: str) -> memoryview:
        """Memory shared with the child, writable on both sides."""
        return memoryview(self._memory[name])

    def _start(self, buffers: dict[str, int]) -> None:
        self._channel.close()
        self._channel, theirs = socket.socketpair()
        self._reader = wire.Reader(self._channel)
        self._report, report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        output, printed = os.pipe2(os.O_CLOEXEC)
        shared: list[int] = []
        try:
            for name, size in buffers.items():
                fd, self._memory[name] = _shared_memory(name, size)
                shared.append(fd)
            given = [theirs.fileno(), report, printed, *shared]
            pid, pidfd, skip, stop = self._pool.spawn(self._limits, self.folder, buffers, given)
        except BaseException:
            os.close(output)
            raise
        finally:
            theirs.close()
            for fd in (report, printed, *shared):
                os.close(fd)
        self._watched = Watched(pid, pidfd, {"stdout": output}, self._limits, skip=skip, stop=stop)
        WATCHDOG.add(self._watched)
        ready = self._await(time.monotonic() + _READY_S)
        if ready != {"ready": True}:
            self._end_child()
            status, error = self._end or ("machine", "")
            raise MachineError(f"the child could not be locked in: {error or status}")

    def call(self, target: str, payload: Mapping[str, Any], timeout_s: float | None = None) -> Outcome:
        """Call ``module:function`` in the child.

        Args:
            target: a function ``f(context, **payload)`` that returns JSON.
            payload: its arguments, as JSON.
            timeout_s: seconds for this call; never more than what the session has left.
        """
        start = time.monotonic()
        if self._end is not None:
            status, error = self._end
            return Outcome(status, error=error, stage=self._stage)
        self._calls += 1
        self._stage = ""
        allowed = self._left_s if timeout_s is None else min(timeout_s, self._left_s)
        deadline = start + allowed
        answer = self._exchange({"call": self._calls, "target": target, "payload": dict(payload)}, deadline, allowed)
        wall = time.monotonic() - start
        self._left_s = max(self._left_s - wall, 0.0)
        watched = self._watched
        assert watched is not None
        if self._end is None:
            watched.sample()
            if watched.verdict is not None:  # what it left running is past a limit, whatever it answered
                self._end_child()
                answer = None
        watched.drain()
        stdout = watched.captures["stdout"].take()
        status, value, error = self._judge(answer)
        if status == "machine" and self._end is None and target != GPU_CHECK and self._pool.gpu_works():
            status = "error"  # the code only says so
        return Outcome(status, value, error, self._stage, stdout, wall, watched.peak_mb)

    def _exchange(self, request: dict[str, Any], deadline: float, allowed: float) -> dict[str, Any] | None:
        """Send a request; the reply, or None when the child has been or is ended, which is then noted."""
        try:
            self._channel.settimeout(max(deadline - time.monotonic(), 0.01))
            self._channel.sendall(wire.encode(request))
        except TimeoutError:
            return self._stop("timeout", f"no end after {allowed:.1f} s")
        except OSError:
            pass  # it has ended: the report says how
        answer = self._await(deadline)
        if answer is None and self._end is None:
            return self._stop("timeout", f"no end after {allowed:.1f} s")
        return answer

    def _await(self, deadline: float) -> dict[str, Any] | None:
        """The child's next message that is no stage; None after the deadline or when the child ended."""
        assert self._watched is not None
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._watched.pidfd, select.POLLIN)
        self._channel.setblocking(False)
        while True:
            try:
                message = self._reader.parse()
            except wire.WireError as error:
                return self._stop("error", f"malformed reply: {error}")
            if message is not None:
                if set(message) != {"stage"}:
                    return message
                self._stage = str(message["stage"])[:100]
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            ready = {fd for fd, _ in poll.poll(left * 1000)}
            open_ = True
            if self._channel.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    open_ = self._reader.fill()
            elif self._watched.pidfd in ready:
                open_ = False
            if not open_:
                return self._stop(None, "")

    def _judge(self, answer: dict[str, Any] | None) -> tuple[Status, Any, str]:
        if answer is None:
            status, error = self._end or ("error", "malformed reply: none")
            return status, None, error
        status = answer.get("status")
        if answer.get("call") != self._calls or status not in ("ok", "error", "memory"):
            self._stop("error", f"malformed reply: call {answer.get('call')!r}, status {status!r}"[:300])
            return self._judge(None)
        if status == "ok":
            return "ok", answer.get("value"), ""
        first = str(answer.get("error", ""))[:4000]
        error = "\n".join(part for part in (first, str(answer.get("where", ""))[:4000]) if part)
        lower = first.lower()
        if status == "memory" or any(sign in lower for sign in _OUT_OF_MEMORY):
            return "memory", None, error
        if self._pool.device == "cuda" and any(sign in lower for sign in _GPU_FAULTS):
            return "machine", None, error
        return "error", None, error

    def _stop(self, status: Status | None, reason: str) -> None:
        """End the child and note why: as given, or else as the watchdog or the kernel say."""
        assert self._watched is not None
        if status is not None:
            self._watched.condemn(status, reason)
        self._end_child()

    def _end_child(self) -> None:
        """Wait until every process of the child has ended, and note how it did."""
        watched = self._watched
        assert watched is not None
        # A child that closed its channel may still be running; one that ended takes its jail with it.
        if not watched.ended(2.0) and watched.verdict is None:
            watched.condemn("error", "malformed reply: the child closed its channel")
        if not watched.ended(_END_S):
            watched.kill(signal.SIGKILL)
            watched.ended(_END_S)
        self._end = self._end or watched.verdict or self._how_it_ended()

    def _how_it_ended(self) -> tuple[Status, str]:
        try:
            lines = os.read(self._report, 1 << 16).decode(errors="replace").splitlines()
        except BlockingIOError:
            lines = []
        if not lines:
            return "machine", "the sandbox was ended from outside"
        report = json.loads(lines[0])
        if "failed" in report:
            return "machine", report["failed"]
        if "exit" in report:
            return "exited", f"exit status {report['exit']} without an answer"
        name = _signal_name(report["signal"])
        if report["signal"] == signal.SIGKILL and _oom_kills() > self._oom_kills:
            assert self._watched is not None
            if 2 * self._watched.peak_mb < self._limits.memory_mb:
                return "machine", "this machine ran out of memory: fewer workers, or a smaller sandbox.memory_mb"
            return "memory", f"{name}: this machine ran out of memory"
        return "crashed", name

    def close(self) -> None:
        """End the child, all that it started, and remove the folder if it was made for this session."""
        pid = None
        if self._watched is not None:
            watched, self._watched = self._watched, None
            watched.kill(watched.stop)
            if not watched.ended(_END_S):
                watched.kill(signal.SIGKILL)
                watched.ended(_END_S)
            WATCHDOG.remove(watched)
            pid = watched.pid
        self._end = self._end or ("error", "the session is closed")
        self._channel.close()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1
        self._pool.reap(self, pid)
        for memory in self._memory.values():
            with contextlib.suppress(BufferError):  # somebody still looks at it; freed with the last view
                memory.close()
        if self._own_folder:
            remove(self.folder)


def _shared_memory(name: str, size: int) -> tuple[int, mmap.mmap]:
    """Memory to share with a child: a descriptor whose size nobody can change, and its mapping here."""
    fd = os.memfd_create(f"cuda-agent-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd, mmap.mmap(fd, size)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _oom_kills() -> int:
    """How often the kernel has ended a process for want of memory since it started."""
    with contextlib.suppress(OSError, ValueError), Path("/proc/vmstat").open(encoding="ascii") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0

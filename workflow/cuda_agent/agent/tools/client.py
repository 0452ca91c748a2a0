"""The trusted end of the tool server: starts it in a sandbox, asks it, and believes nothing of what it says."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.agent.tools.text import MAX_CHARS
from cuda_agent.sandbox import Limits, MachineError, popen

# Named in full, so that the hash of the project's code covers it; imported without the package above it and its torch.
_SERVER = "cuda_agent.agent.tools.server:main"
_MODULE, _MAIN = _SERVER.removeprefix("cuda_agent.agent.").split(":")
_AGENT = Path(__file__).parents[1]
_CODE = f"import sys; sys.path.insert(0, {str(_AGENT)!r}); from {_MODULE} import {_MAIN}; {_MAIN}()"
_MAX_BYTES = 16 * MAX_CHARS
_GRACE_S = 15.0
_LOOK_S = 0.5  # how often it is seen whether to stop
_DAY_S = 86_400.0  # the loop has its own clock, which does not count waiting for a device


@dataclass(frozen=True)
class Result:
    """What a tool call gave: text for the model, and whether it failed."""

    content: str
    failed: bool


class Tools:
    """The tools over one workspace folder, served from inside a sandbox.

    A server that dies or stops answering is the doing of what ran in its sandbox: the call fails, and the next call
    starts a new one over the same files.

    Args:
        folder: the workspace folder, the only one that can be written to.
        device: ``cpu`` or ``cuda``.
        sandbox: the ``sandbox`` section of the parameters.
        stop: once set, calls return without an answer.
    """

    def __init__(self, folder: Path, device: str, sandbox: Any, stop: threading.Event | None = None) -> None:
        self._folder, self._device, self._sandbox = folder, device, sandbox
        self._stop = stop or threading.Event()
        self.shown_folder = ""  # what the folder is called inside
        self._number = 0
        self._process: Any = None
        self._pending = bytearray()

    def __enter__(self) -> Tools:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        limits = Limits.of(self._sandbox, _DAY_S)
        argv = [sys.executable, "-I", "-S", "-c", _CODE]
        self._process = popen(argv, self._folder, limits=limits, device=self._device, sandbox=self._sandbox)
        self._pending.clear()
        where = {"command": "pwd", "timeout": None, "run_in_background": False}
        answer = self._ask({"tool": "Bash", "arguments": where, "timeout_s": _GRACE_S}, _GRACE_S)
        if answer is None or answer.failed:
            said = (answer.content if answer else "") + self.close()
            raise MachineError(f"the tool server does not start in the sandbox: {said or 'it said nothing'}")
        self.shown_folder = answer.content

    def close(self) -> str:
        """End the server and everything that it started; what it printed to standard error."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        os.set_blocking(process.stderr.fileno(), False)
        said = process.stderr.read(4096) or b""
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                stream.close()
        return said.decode(errors="replace").strip()

    def call(self, tool: str, arguments: dict[str, Any], timeout_s: float) -> Result:
        """Carry out one call with checked arguments.

        Raises:
            MachineError: no server can be started.
        """
        if self._process is None:
            self._start()
        answer = self._ask({"tool": tool, "arguments": arguments, "timeout_s": timeout_s}, timeout_s)
        if answer is not None:
            return answer
        self.close()
        text = (
            "Error: the sandbox was ended while this ran: it passed a limit on memory, processes or output, did not "
            "answer in time, or its server was killed. The files are still there; background commands are not."
        )
        return Result(text, True)

    def _ask(self, request: dict[str, Any], timeout_s: float) -> Result | None:
        self._number += 1
        request["id"] = self._number
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return None
        line = self._line(time.monotonic() + timeout_s + _GRACE_S)
        try:
            answer = json.loads(line) if line else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(answer, dict) or answer.get("id") != self._number:
            return None
        content, failed = answer.get("content"), answer.get("failed")
        if not isinstance(content, str) or not isinstance(failed, bool) or len(content) > 2 * MAX_CHARS:
            return None
        # Half of a surrogate pair is legal JSON, but no text that could be written to a file.
        return Result(content.encode(errors="replace").decode(), failed)

    def _line(self, deadline: float) -> bytes | None:
        """The next line; None if there is none in time, or none that is short enough."""
        fd = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or len(self._pending) > _MAX_BYTES or self._stop.is_set():
                return None
            if not select.select([fd], [], [], min(left, _LOOK_S))[0]:
                continue
            data = os.read(fd, 1 << 16)
            if not data:
                return None
            self._pending += data
        line, _, rest = bytes(self._pending).partition(b"\n")
        self._pending[:] = rest
        return line

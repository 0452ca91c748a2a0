"""Bash, BashOutput and KillBash: runs inside the sandbox, with the standard library only."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from .text import Tail, ToolError, cut

# A trap, as `exit` in the command must not keep the working directory from being noted.
_SCRIPT = """trap 'pwd >&{note}' EXIT; eval "$1\""""
_MAX_BACKGROUND = 16
_ENDING_S = 2.0  # how long what a shell left running may take to be gone once it is killed


class _Started:
    """A shell that runs a command, in a session of its own."""

    def __init__(self, command: str, folder: str) -> None:
        env = os.environ | {"PWD": folder}
        self._note = os.memfd_create("folder", 0)
        self.process = subprocess.Popen(
            ["bash", "-c", _SCRIPT.format(note=self._note), "bash", command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[self._note],
        )
        assert self.process.stdout is not None
        self.fd = self.process.stdout.fileno()
        self._output = Tail()
        self._lock = threading.Lock()
        self._open = True
        os.set_blocking(self.fd, False)

    def read(self) -> None:
        """Take what was printed so far."""
        with self._lock:
            for _ in range(256):
                if not self._open:
                    return
                try:
                    data = os.read(self.fd, 1 << 16)
                except BlockingIOError:
                    return
                self._open = bool(data)
                self._output.add(data)

    def take(self) -> str:
        """What was printed and not taken yet."""
        self.read()
        with self._lock:
            return self._output.take()

    def wait(self, deadline: float) -> bool:
        """Read until the shell has ended; whether it did before the deadline."""
        with selectors.DefaultSelector() as selector:
            if self._open:
                selector.register(self.fd, selectors.EVENT_READ)
            pidfd = os.pidfd_open(self.process.pid)
            selector.register(pidfd, selectors.EVENT_READ)
            try:
                while (left := deadline - time.monotonic()) > 0:
                    ready = {key.fd for key, _ in selector.select(left)}
                    if self.fd in ready:
                        self.read()
                        if not self._open:
                            selector.unregister(self.fd)
                    if pidfd in ready:
                        self.read()
                        return True
                return False
            finally:
                os.close(pidfd)

    def end(self) -> tuple[int, str]:
        """End what the shell left running; its exit status as bash counts, and its last folder, empty if unknown."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        # The signal is only on its way when `killpg` returns, and what it ends are no children of this process.
        deadline = time.monotonic() + _ENDING_S
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(self.process.pid, 0)
                time.sleep(0.001)
        assert self.process.stdout is not None
        with self._lock:
            self._open = False
            self.process.stdout.close()
        folder = os.pread(self._note, 4096, 0).decode(errors="replace").strip()
        os.close(self._note)
        return code if code >= 0 else 128 - code, folder


class Shells:
    """The shells of one rollout.

    Args:
        folder: the workspace folder; where the first command runs.
    """

    def __init__(self, folder: str) -> None:
        self.home = self.folder = folder
        self._background: dict[str, _Started] = {}
        self._ended: dict[str, int] = {}
        self._lock = threading.Lock()

    def run(self, command: str, timeout_s: float, background: bool) -> tuple[str, bool]:
        """Run a command; its output, and whether it failed."""
        try:
            there = Path(self.folder).is_dir()
        except (OSError, ValueError):  # e.g. a NUL in what passed itself off as the folder
            there = False
        self.folder = self.folder if there else self.home
        if background:
            return self._start(command), False
        shell = _Started(command, self.folder)
        in_time = shell.wait(time.monotonic() + timeout_s)
        code, folder = shell.end()
        self.folder = folder or self.folder
        text = shell.take().rstrip()
        if not in_time:
            return f"{text}\nThe command was ended after {timeout_s:g} s (time limit).".lstrip(), True
        if code:
            return f"{text}\nExit code {code}".lstrip(), True
        return text or "(no output)", False

    def _start(self, command: str) -> str:
        with self._lock:
            if len(self._background) - len(self._ended) >= _MAX_BACKGROUND:
                raise ToolError(f"{_MAX_BACKGROUND} commands run in the background already; end one with KillBash")
            name = f"bash_{len(self._background) + 1}"
            shell = self._background[name] = _Started(command, self.folder)
        threading.Thread(target=self._follow, args=(name, shell), daemon=True).start()
        return f"Started in the background as {name}; BashOutput shows its output, KillBash ends it."

    def _follow(self, name: str, shell: _Started) -> None:
        while not shell.wait(time.monotonic() + 3600):
            pass
        code, _ = shell.end()
        with self._lock:
            self._ended[name] = code

    def _find(self, name: str) -> _Started:
        if name not in self._background:
            known = ", ".join(self._background) or "none"
            raise ToolError(f"there is no background command {name!r}; started so far: {known}")
        return self._background[name]

    def output(self, name: str, pattern: str | None) -> str:
        """What a background command printed since the last call."""
        shell = self._find(name)
        try:
            wanted = re.compile(pattern) if pattern else None
        except re.error as error:
            raise ToolError(f"filter is not a regular expression: {error}") from None
        with self._lock:
            code = self._ended.get(name)
        text = shell.take()
        if wanted:
            text = "\n".join(line for line in text.splitlines() if wanted.search(line))
        status = "still running" if code is None else f"ended with exit code {code}"
        return f"{cut(text).rstrip()}\n[{name}: {status}]".lstrip()

    def kill(self, name: str) -> str:
        """End a background command."""
        shell = self._find(name)
        with self._lock:
            if name in self._ended:
                raise ToolError(f"{name} has ended already, with exit code {self._ended[name]}")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.process.pid, signal.SIGKILL)
        return f"{name} was ended."


def bash(shells: Shells, arguments: dict[str, Any], timeout_s: float) -> tuple[str, bool]:
    """Carry out a Bash call: the model's time limit counts, if it is shorter."""
    wanted = arguments["timeout"]
    limit = timeout_s if wanted is None else min(timeout_s, wanted / 1000)
    return shells.run(arguments["command"], limit, arguments["run_in_background"])

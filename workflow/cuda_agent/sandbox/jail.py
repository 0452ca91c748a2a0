"""Put a freshly forked process where untrusted code can do no harm, and watch over it until it ends.

Three processes come of one fork: the *keeper*, which makes the namespaces; the *init* of the new process namespace,
whose end ends everything inside; and the *worker*, in which the untrusted code runs. Without a process namespace the
keeper is the init as well, and hunts down what the worker left.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import site
import stat
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from cuda_agent.sandbox import landlock, linux, processes, seccomp
from cuda_agent.sandbox.environment import import_path
from cuda_agent.sandbox.limits import ADDRESS_SPACE_MB

# In the order in which they are tried, and written in artefacts.
FEATURES = ("userns", "netns", "ipcns", "mntns", "rofs", "pidns", "pidmax", "landlock", "seccomp")

_FLAGS = {
    "userns": linux.CLONE_NEWUSER,
    "netns": linux.CLONE_NEWNET,
    "ipcns": linux.CLONE_NEWIPC,
    "mntns": linux.CLONE_NEWNS,
    "pidns": linux.CLONE_NEWPID,
}
_PLAIN_DEVICES = ("null", "zero", "full", "random", "urandom")
_SIGNAL_SCOPE_ABI = 6
_RESERVED_PIDS = 300  # the kernel gives these numbers out once and not again


@dataclass(frozen=True)
class Plan:
    """What one jail is to be like.

    Attributes:
        features: which of `FEATURES` to use; each must work.
        folder: the one folder that may be written to.
        device: ``cpu`` or ``cuda``; for ``cuda`` the GPU's device files are open and address space is not limited.
        readable: folders to read besides the system's own: those of Python, of this package, of the compilers.
        memory_mb, file_size_mb, tasks: limits, see `Limits`.
    """

    features: tuple[str, ...]
    folder: str
    device: str
    readable: tuple[str, ...]
    memory_mb: int
    file_size_mb: int
    tasks: int

    def dumps(self) -> str:
        """JSON form."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Plan:
        """Read `dumps` back."""
        fields = json.loads(text)
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


def readable_folders() -> tuple[str, ...]:
    """What code has to read besides the system's own folders: Python, its packages, this package, CUDA."""
    paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages(), *import_path()]
    paths += [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    paths += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    found = {str(Path(p).resolve()) for p in paths if p and Path(p).is_absolute() and Path(p).exists()}
    return tuple(sorted(found))


def process_numbers(tasks: int) -> dict[str, str]:
    """What to write where, inside a process namespace, so that it has numbers for twice as many ``tasks`` (Linux 6.14).

    Root is exempt from RLIMIT_NPROC, and whoever forks without end outruns a watchdog; this holds for everybody. It is
    twice as many so that the watchdog sees that there are too many.
    """
    last = {"/proc/sys/kernel/ns_last_pid": str(_RESERVED_PIDS)}  # not in every kernel: more fit in at first then
    return last | {"/proc/sys/kernel/pid_max": str(_RESERVED_PIDS + 2 * tasks)}


def gpu_devices() -> list[str]:
    """Device files of NVIDIA's driver."""
    return sorted(str(p) for p in Path("/dev").glob("nvidia*"))


def contain(plan: Plan, report: int, keep: set[int], work: Callable[[], NoReturn]) -> NoReturn:
    """Turn this freshly forked, single-threaded process into a jail's keeper, and run ``work`` in its worker.

    Args:
        report: descriptor to write JSON lines to: ``{"failed": why}`` if the jail could not be made, and how the
            worker ended: ``{"exit": code}`` or ``{"signal": number}``. The worker does not have it.
        keep: descriptors that the worker keeps.
        work: what the worker does once it is locked in.
    """
    try:
        parent = os.getppid()
        with contextlib.suppress(PermissionError):  # it leads a session already
            os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        linux.adopt_orphans()
        _make_namespaces(plan)
        contained = "pidns" in plan.features
        if not contained:
            signal.signal(signal.SIGTERM, _end_all)
        linux.die_with_parent(signal.SIGKILL if contained else signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        if not contained:
            _watch_over_worker(plan, report, keep, work)
        alive, held = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(held)
            linux.die_with_parent()
            if select.select([alive], [], [], 0)[0]:
                os._exit(1)  # the keeper ended before the line above could tell the kernel
            linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
            if "pidmax" in plan.features:
                for path, value in process_numbers(plan.tasks).items():
                    with contextlib.suppress(FileNotFoundError):
                        Path(path).write_text(value, encoding="utf-8")
            _watch_over_worker(plan, report, keep, work)
        linux.hide_memory()
        linux.close_descriptors({held})
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    except BaseException as error:
        _report(report, {"failed": f"{type(error).__name__}: {error}"})
        os._exit(1)


def _report(fd: int, message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps(message).encode() + b"\n")


def _watch_over_worker(plan: Plan, report: int, keep: set[int], work: Callable[[], NoReturn]) -> NoReturn:
    worker = os.fork()
    if worker == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            linux.die_with_parent()
            _lock_down(plan)
            linux.close_descriptors(keep | {report})
        except BaseException as error:
            _report(report, {"failed": f"{type(error).__name__}: {error}"})
            os._exit(1)
        os.close(report)
        work()
        os._exit(0)
    linux.hide_memory()
    linux.close_descriptors({report})
    while True:
        pid, status = os.wait()
        if pid == worker:
            break
    code = os.waitstatus_to_exitcode(status)
    _report(report, {"exit": code} if code >= 0 else {"signal": -code})
    if code < 0:
        code = 128 - code  # as shells do
    if "pidns" in plan.features:
        os._exit(code)  # the kernel ends what is left inside
    _end_all(code)


def _end_all(code: int = 0, _frame: object = None) -> NoReturn:
    """End every descendant, orphans too, then this process; also a signal handler."""
    while True:
        for pid in processes.tree(os.getpid())[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            os._exit(code)


def _make_namespaces(plan: Plan) -> None:
    flags = 0
    for feature in plan.features:
        flags |= _FLAGS.get(feature, 0)
    if flags:
        uid, gid = os.getuid(), os.getgid()
        linux.unshare(flags)
        if "userns" in plan.features:
            linux.map_own_ids(uid, gid)
    if "mntns" not in plan.features:
        return
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    if "rofs" in plan.features:
        linux.mount(plan.folder, plan.folder, None, linux.MS_BIND)
        linux.set_read_only("/", True, recursive=True)
        linux.set_read_only(plan.folder, False)
    if not Path(plan.folder).is_relative_to("/dev/shm"):
        size = f"size={plan.file_size_mb}m,mode=1777"
        linux.mount("tmpfs", "/dev/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, size)


def _lock_down(plan: Plan) -> None:
    os.chdir(plan.folder)
    _limit(plan)
    linux.no_new_privileges()
    if "landlock" in plan.features:
        writable = [plan.folder, *(["/dev/shm"] if "mntns" in plan.features else [])]
        devices = [f"/dev/{name}" for name in _PLAIN_DEVICES]
        if plan.device == "cuda":
            # CUDA names its threads as it starts them, by writing to /proc/self/task/*/comm, and fails if it cannot.
            devices += [*gpu_devices(), f"/proc/{os.getpid()}/task"]
        landlock.restrict([*_system_folders(), *plan.readable], writable, devices)
    linux.drop_capabilities()
    if "seccomp" in plan.features:
        alone = "pidns" in plan.features or ("landlock" in plan.features and landlock.abi() >= _SIGNAL_SCOPE_ABI)
        seccomp.load(seccomp.program(signals_to=None if alone else os.getpid()))


def _limit(plan: Plan) -> None:
    mib = 2**20
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: plan.file_size_mb * mib}
    if plan.device == "cpu":  # CUDA reserves address space far beyond any memory there is
        mapped = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = mapped + (plan.memory_mb + ADDRESS_SPACE_MB) * mib
    if "userns" in plan.features:  # elsewhere the kernel would count all processes of this user
        limits[resource.RLIMIT_NPROC] = plan.tasks + 8
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def _system_folders() -> list[str]:
    """What everybody may read of ``/`` and ``/etc``, without home folders."""
    homes = {"/home", "/root", str(Path.home())}
    found = []
    for parent in (Path("/"), Path("/etc")):
        for path in sorted(parent.iterdir()):
            if str(path) in homes | {"/etc"} or path.is_symlink():
                continue
            with contextlib.suppress(OSError):
                if path.stat().st_mode & stat.S_IROTH:
                    found.append(str(path))
    return found

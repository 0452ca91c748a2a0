"""Jobs end with the Snakemake that started them, also where it is killed and can tell them nothing.

Otherwise a job of a killed run would work on beside the same job of the next one: both write one journal, and each
disturbs what the other times.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from pathlib import Path

_NAME = "CUDA_AGENT_WORKFLOW_PROCESS"


def _kernel() -> str:
    """Which machine and which table of processes: a job on another node knows nothing of this one's."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def _started(pid: int) -> str:
    """When a process began, in clock ticks after boot; a number that is given out again has another."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]


def announce() -> None:
    """Have the jobs that this process starts, and theirs, end with it."""
    os.environ[_NAME] = f"{_kernel()} {os.getpid()} {_started(os.getpid())}"


def follow() -> threading.Thread | None:
    """Interrupt this process, as Ctrl-C does, when the announced one is gone. To be called from the main thread.

    Not by SIGINT, which a shell has its background commands ignore.

    Returns:
        The thread that waits for it; None if nothing was announced, or not on this machine.
    """
    announced = os.environ.get(_NAME, "")
    if not announced.startswith(f"{_kernel()} "):
        return None
    pid, started = announced.split()[-2:]
    try:
        gone = os.pidfd_open(int(pid))
        if _started(int(pid)) != started:
            raise ProcessLookupError(pid)
    except (ProcessLookupError, FileNotFoundError):
        gone = None
    signal.signal(signal.SIGUSR1, signal.default_int_handler)

    def wait() -> None:
        if gone is not None:
            select.select([gone], [], [])
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    thread = threading.Thread(target=wait, daemon=True, name="lifeline")
    thread.start()
    return thread

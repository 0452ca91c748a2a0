"""One timing at a time on each device of this machine, across processes and threads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

_held = threading.local()


def user_folder(what: str) -> Path:
    """A folder that all processes of this user share: ``CUDA_AGENT_{WHAT}``, or one in the machine's temporary folder.

    Args:
        what: ``locks``, or ``cache`` for what trusted code compiles before any other runs.

    Raises:
        PermissionError: the folder is somebody else's, or open to others.
    """
    variable = f"CUDA_AGENT_{what.upper()}"
    named = os.environ.get(variable)
    path = Path(named) if named else Path(tempfile.gettempdir()) / f"cuda-agent-{what}-{os.getuid()}"
    path.mkdir(mode=0o700, parents=bool(named), exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{path} is not a folder of this user alone; remove it, or set {variable} to one that is")
    return path


@contextlib.contextmanager
def device_lock(device: str, *, exclusive: bool) -> Iterator[None]:
    """Hold a device of this machine while in the block.

    Whoever measures time takes it exclusively; work that would disturb a measurement takes it shared. A turnstile
    keeps a stream of shared holders from starving one that waits to measure. A thread that holds the lock may take it
    again; in a private ``/tmp`` the lock is local to whoever shares that.

    Args:
        device: ``cpu``, ``cuda`` or any other name without a slash.
        exclusive: alone, or together with other shared holders.

    Raises:
        RuntimeError: this thread holds it shared and asks for it exclusively, which could never be granted.
    """
    held: dict[str, tuple[bool, int]] = _held.__dict__.setdefault("devices", {})
    mode, depth = held.get(device, (exclusive, 0))
    if depth:
        if exclusive and not mode:
            raise RuntimeError(f"this thread holds {device} shared: leave that block before measuring")
        held[device] = (mode, depth + 1)
        try:
            yield
        finally:
            held[device] = (mode, depth)
        return
    folder = user_folder("locks")
    with (folder / f"{device}.lock").open("ab") as lock:
        with (folder / f"{device}.turnstile").open("ab") as turnstile:
            fcntl.flock(turnstile, fcntl.LOCK_EX)
            fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        held[device] = (exclusive, 1)
        try:
            yield
        finally:
            del held[device]

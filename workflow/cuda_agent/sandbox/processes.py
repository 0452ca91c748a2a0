"""The processes below one process: which, how many threads, how much memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 2**20
_EXACT_S = 0.3
_HAS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _children(pid: int) -> list[int]:
    if not _HAS_CHILDREN:
        import psutil

        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    found = []
    for task in _tasks(pid):
        try:
            found += [
                int(word) for word in Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="utf-8").split()
            ]
        except OSError:
            continue
    return found


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []


def tree(root: int, skip: int = 0, most: int | None = None) -> list[int]:
    """A process and all its descendants, without the ``skip`` uppermost generations.

    Looking ends once more than ``most`` are found: whoever forks without end would always be ahead.
    """
    generation, depth, found = [root], 0, []
    while generation:
        if depth >= skip:
            found += generation
        following: list[int] = []
        for pid in generation:
            if most is not None and len(found) + len(following) > most:
                return found + following
            following += _children(pid)
        generation = following
        depth += 1
    return found


def threads(pids: list[int]) -> int:
    """Threads of these processes together."""
    return sum(len(_tasks(pid)) for pid in pids)


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE / _MIB
    except (OSError, IndexError):
        return 0.0


def _proportional(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except (OSError, ValueError):
        pass
    return _resident(pid)


def memory_mb(pids: list[int], limit: float) -> float:
    """Resident memory of these processes together, MiB.

    Pages that forked processes share are counted once, but only if counting them several times would go past
    ``limit``: the exact count takes the kernel some milliseconds, and long where processes fork all the time. It stops
    when it is past the limit or takes too long; who is that busy will be looked at again.
    """
    total = sum(_resident(pid) for pid in pids)
    if total <= limit:
        return total
    exact, deadline = 0.0, time.monotonic() + _EXACT_S
    for pid in pids:
        exact += _proportional(pid)
        if exact > limit or time.monotonic() > deadline:
            break
    return exact

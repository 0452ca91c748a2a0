"""The few Linux calls that Python's standard library lacks."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_MOUNT_SETATTR, _MOUNT_ATTR_RDONLY, _AT_RECURSIVE, _AT_FDCWD = 442, 1, 0x8000, -100
_CAPSET = {"x86_64": 126, "aarch64": 91}

MACHINE = platform.machine()
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(number: int, *args: object, what: str = "") -> int:
    """Call the kernel by number; integers are passed as unsigned longs."""
    words = [ctypes.c_ulong(a & (2**64 - 1)) if isinstance(a, int) else a for a in args]
    return _check(libc.syscall(ctypes.c_long(number), *words), what or f"syscall {number}")


def prctl(option: int, argument: int = 0) -> None:
    """``prctl`` with one argument."""
    zero = ctypes.c_ulong(0)
    _check(libc.prctl(option, ctypes.c_ulong(argument), zero, zero, zero), f"prctl {option}")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send a signal when the parent ends. Set it after any change of credentials, which clears it."""
    prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Keep other processes of the same user from reading this one's memory, environment and descriptors."""
    prctl(_PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """Nothing that is executed from now on can gain privileges."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def unshare(flags: int) -> None:
    """Move into new namespaces."""
    _check(libc.unshare(ctypes.c_int(flags)), f"unshare {flags:#x}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """``mount(2)``."""
    text = kind.encode() if kind else None
    done = libc.mount(source.encode(), target.encode(), text, ctypes.c_ulong(flags), data.encode())
    _check(done, f"mount {kind or 'bind'} on {target}")


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def set_read_only(path: str, read_only: bool, recursive: bool = False) -> None:
    """Make a mount, and with ``recursive`` all below it, read-only or writable (Linux 5.12)."""
    flag = _MOUNT_ATTR_RDONLY
    attributes = _MountAttributes(set=flag if read_only else 0, clear=0 if read_only else flag)
    flags = _AT_RECURSIVE if recursive else 0
    size = ctypes.sizeof(attributes)
    arguments = (_AT_FDCWD, ctypes.c_char_p(path.encode()), flags, ctypes.byref(attributes), size)
    syscall(_MOUNT_SETATTR, *arguments, what=f"mount_setattr {path}")


def drop_capabilities() -> None:
    """Give up every capability, for this process and all that it starts."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="utf-8"))
    for capability in range(last + 1):
        libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)  # EPERM without CAP_SETPCAP: nothing to drop
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    syscall(_CAPSET[MACHINE], ctypes.byref(header), ctypes.byref(data), what="capset")


def map_own_ids(uid: int, gid: int) -> None:
    """In a new user namespace, keep the user and group id that this process had before."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text, encoding="utf-8")


def close_descriptors(keep: set[int]) -> None:
    """Close every descriptor but the standard three and those to keep."""
    low = 3
    for fd in sorted(keep - {0, 1, 2}):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 65536)

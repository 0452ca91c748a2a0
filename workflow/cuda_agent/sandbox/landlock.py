"""Landlock: which files a process may read and write, without privileges.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

from cuda_agent.sandbox import linux

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _REFER, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15
_SCOPE_ABSTRACT_SOCKET, SCOPE_SIGNAL = 1, 2

READ = EXECUTE | READ_FILE | READ_DIR
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("filesystem", "network", "scoped")]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def abi() -> int:
    """Version of Landlock in this kernel; 0 where there is none."""
    try:
        return linux.syscall(_CREATE_RULESET, 0, 0, _VERSION)
    except OSError:
        return 0


def _handled(version: int) -> int:
    bits = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    return (1 << bits) - 1


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str]) -> None:
    """Forbid this thread, and what it starts, every file but these.

    Args:
        readable: files and folders to read and execute.
        writable: files and folders to do anything in, but for making device nodes.
        devices: device files to open for reading, writing and ioctl.
    """
    version = abi()
    handled = _handled(version)
    ruleset = _Ruleset(handled, 0, _SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL)
    size = 8 if version < 4 else 16 if version < 6 else 24
    fd = linux.syscall(_CREATE_RULESET, ctypes.byref(ruleset), size, 0, what="landlock_create_ruleset")
    try:
        for path in readable:
            _allow(fd, path, READ)
        for path in writable:
            _allow(fd, path, handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))
        for path in devices:
            _allow(fd, path, handled & (READ_FILE | READ_DIR | WRITE_FILE | _TRUNCATE | _IOCTL_DEV))
        linux.syscall(_RESTRICT_SELF, fd, 0, what="landlock_restrict_self")
    finally:
        os.close(fd)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there: nothing to allow
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _ON_FILES
        rule = _PathBeneath(access, fd)
        arguments = (ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        linux.syscall(_ADD_RULE, *arguments, what=f"landlock_add_rule {path}")
    finally:
        os.close(fd)

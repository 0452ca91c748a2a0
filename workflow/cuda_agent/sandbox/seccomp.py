"""Seccomp: which system calls a process may make.

https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Iterable

from cuda_agent.sandbox import linux

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}

# Numbers for (x86_64, aarch64); None where the machine has no such call.
_DENIED = {
    # other processes
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"pidfd_getfd": (438, 438), "process_madvise": (440, 440)},
    # the kernel and the machine
    **{"bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282)},
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    **{"keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142)},
    **{"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116)},
    **{"quotactl": (179, 60), "quotactl_fd": (443, 443), "lookup_dcookie": (212, 18), "vhangup": (153, 58)},
    **{"settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171)},
    **{"sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None)},
    **{"name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265)},
}
_DENIED_NAMESPACES = {
    **{"unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41)},
    **{"mount": (165, 40), "umount2": (166, 39), "mount_setattr": (442, 442), "open_tree": (428, 428)},
    **{"move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432)},
    **{"fspick": (433, 433), "open_tree_attr": (467, 467)},
}
_CLONE, _CLONE3, _SOCKET, _CONNECT = (56, 220), (435, 435), (41, 198), (42, 203)
_SIGNALS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "pidfd_send_signal": (424, 424)}
_SIGNALS |= {"rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)}
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that clone() takes

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def _ins(code: int, k: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, k)


def _argument(i: int) -> bytes:
    return _ins(_LOAD, 16 + 8 * i)  # the low half, on little-endian machines


def _deny(code: int = errno.EPERM) -> bytes:
    return _ins(_RETURN, _ERRNO | code)


def _when(number: int | None, *body: bytes) -> bytes:
    """If the call has this number run the body, which must end in a return."""
    if number is None:
        return b""
    code = b"".join(body)
    return _ins(_EQUAL, number, 0, len(code) // 8) + code


def _unless_argument(i: int, values: Iterable[int], code: int = errno.EPERM) -> bytes:
    out = _argument(i)
    for value in values:
        out += _ins(_EQUAL, value, 0, 1) + _ins(_RETURN, _ALLOW)
    return out + _deny(code)


def program(network: bool = False, namespaces: bool = False, signals_to: int | None = None) -> bytes:
    """A filter in classic BPF that allows all but a list of calls, which fail with EPERM.

    Args:
        network: allow IP sockets and connecting: for use in a network namespace of its own.
        namespaces: allow making namespaces and mounts, so that a sandbox can be made inside this one.
        signals_to: the only process id that may be sent signals, where neither a process namespace nor Landlock
            keeps signals in.

    Raises:
        OSError: this processor's call numbers are not known.
    """
    if linux.MACHINE not in _ARCH:
        raise OSError(errno.ENOSYS, f"no seccomp filter for {linux.MACHINE}")
    column = list(_ARCH).index(linux.MACHINE)
    out = _ins(_LOAD, 4) + _ins(_EQUAL, _ARCH[linux.MACHINE], 1, 0) + _deny() + _ins(_LOAD, 0)
    if linux.MACHINE == "x86_64":
        out += _ins(_AT_LEAST, 0x40000000, 0, 1) + _deny()  # the x32 numbers of the same calls
    denied = _DENIED if namespaces else _DENIED | _DENIED_NAMESPACES
    for numbers in denied.values():
        out += _when(numbers[column], _deny())
    if not namespaces:
        flags = _argument(0) + _ins(_ANY_BIT, _NEW_NAMESPACES, 0, 1) + _deny() + _ins(_RETURN, _ALLOW)
        out += _when(_CLONE[column], flags)
        out += _when(_CLONE3[column], _deny(errno.ENOSYS))  # its flags cannot be seen; libc falls back to clone
    # Virtual-machine sockets know no namespaces, so families are listed even where there is one.
    families = [socket.AF_UNIX]
    if network:
        families += [socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK]
    else:
        out += _when(_CONNECT[column], _deny(errno.ECONNREFUSED))  # services of this machine listen on socket files
    out += _when(_SOCKET[column], _unless_argument(0, families))
    if signals_to is not None:
        for name, numbers in _SIGNALS.items():
            body = _deny() if name in ("tkill", "pidfd_send_signal") else _unless_argument(0, [signals_to])
            out += _when(numbers[column], body)
    return out + _ins(_RETURN, _ALLOW)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.c_char_p)]


def load(filter_program: bytes) -> None:
    """Install a filter for this thread and all that it starts; needs `linux.no_new_privileges`."""
    form = _Program(len(filter_program) // 8, filter_program)
    linux.syscall(_SECCOMP[linux.MACHINE], 1, 0, ctypes.byref(form), what="seccomp")

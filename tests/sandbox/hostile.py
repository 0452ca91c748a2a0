"""Targets that do what hostile code might; each runs in a sandboxed child only."""

# ruff: noqa: PTH101, PTH102, PTH107, PTH115, PTH123, PTH208, SIM115, PLW0108

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import sys
import threading


def echo(context, value=None):
    return value


def count(context):
    context.state["calls"] = context.state.get("calls", 0) + 1
    return context.state["calls"]


def half_a_character(context, raised=False):
    if raised:
        raise ValueError("\ud800")
    return {"k\ud800": ["a\udfffb"]}


def deep_answer(context, depth):
    value = "\ud800"
    for _ in range(depth):
        value = [value]
    return value


def double_buffer(context):
    buffer = context.buffer("numbers")
    for i in range(len(buffer)):
        buffer[i] = 2 * buffer[i]


def endless_loop(context):
    context.stage("loop")
    while True:
        pass


def deaf_loop(context):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def segfault(context):
    ctypes.string_at(0)


def allocate_30_gb(context):
    bytearray(30 * 2**30)


def fill_memory(context):
    blocks = []
    while True:
        blocks.append(b"x" * 2**24)


def fork_bomb(context):
    while True:  # only the first one forks, so that a sandbox that fails does not take the machine with it
        if os.fork() == 0:
            signal.pause()


def doubling(context):
    while True:
        with contextlib.suppress(OSError):
            os.fork()


def start_and_wait(context, times):
    for _ in range(times):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return times


def thread_bomb(context):
    event = threading.Event()
    while True:
        try:
            threading.Thread(target=event.wait, daemon=True).start()
        except RuntimeError:
            event.wait()


def endless_output(context):
    while True:
        print("x" * 4096)


def print_pass(context):
    print("PASS\nAll tests passed")
    raise ValueError("no")


def system_exit(context, code):
    sys.exit(code)


def os_exit(context, code):
    os._exit(code)


def kill_parent(context):
    signaled = []
    for pid in {1, os.getppid()}:
        try:
            os.kill(pid, signal.SIGKILL)
            signaled.append(pid)
        except OSError:
            continue
    return signaled


def kill_everybody(context):
    os.kill(-1, signal.SIGKILL)


def attempt(context, what, path=""):
    """Do one thing that must not work; how it failed."""
    actions = {
        "write": lambda: open(path, "w", encoding="utf-8").write("x"),
        "delete": lambda: os.remove(path),
        "mkdir": lambda: os.mkdir(path),
        "chmod": lambda: os.chmod(path, 0o777),
        "connect": lambda: socket.create_connection(("1.1.1.1", 53), 2),
        "local": lambda: socket.create_connection(("127.0.0.1", int(path or 0)), 2),
        "unix": lambda: socket.socket(socket.AF_UNIX).connect(path),
        "mount": lambda: ctypes_mount(),
        "read": lambda: open(path, "rb").read(16),
    }
    try:
        actions[what]()
    except OSError as error:
        return type(error).__name__
    return "worked"


def ctypes_mount():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/proc", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def environment(context):
    return dict(os.environ)


def visible_processes(context):
    """Whose memory, environment or descriptors can be read of the processes that can be seen."""
    readable = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            for entry in ("environ", "maps", "fd"):
                try:
                    path = f"/proc/{name}/{entry}"
                    read = os.readlink(f"{path}/0") if entry == "fd" else open(path, encoding="utf-8").read(1)
                except OSError:
                    continue
                if read:
                    readable.append(f"{name}/{entry}")
    return readable


def close_descriptors(context):
    os.closerange(0, 256)
    return "closed"


def forge(context, message):
    """Write something of its own to the channel, and hang."""
    for fd in _channels():
        os.write(fd, message.encode("latin-1"))
    while True:
        signal.pause()


def forge_result(context):
    body = json.dumps({"call": 1, "status": "ok", "value": "forged", "more": "x"}).encode()
    for fd in _channels():
        os.write(fd, struct.pack("!I", len(body)) + body)
    os._exit(0)


def _channels():
    for fd in range(3, 256):
        try:
            socket.socket(fileno=os.dup(fd)).close()
        except OSError:
            continue
        yield fd


def large_reply(context, megabytes):
    return "x" * (megabytes * 2**20)


def strange_reply(context):
    return object()


def large_file(context, megabytes):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("large", "wb", buffering=0) as file:
        try:
            while file.tell() < megabytes * 2**20:
                file.write(bytes(2**20))
        except OSError as error:
            return [type(error).__name__, file.tell()]
    return ["", megabytes * 2**20]


def leave_a_child(context, marker):
    """Leave a process behind that outlives the call."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                signal.pause()
        os._exit(0)
    return os.getpid()


def own_descriptors(context):
    return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and _open(fd))


def _open(fd):
    try:
        os.fstat(int(fd))
    except OSError:
        return False
    return True

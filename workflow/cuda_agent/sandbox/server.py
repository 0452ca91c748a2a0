"""The fork server: has torch and, if it is wanted, its compiler loaded, and forks a jail for each session.

Started as ``python -m cuda_agent.sandbox.server DESCRIPTOR DEVICE [compiles]`` with an environment that holds no
secret, since its children have a copy of its memory. It runs nothing untrusted, and ends when its parent does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NoReturn

from cuda_agent.sandbox import child, jail, linux, processes

MAX_REQUEST = 1 << 17
MAX_DESCRIPTORS = 64


def preload(device: str, compiles: bool) -> None:
    """Load what children would otherwise load one by one, and leave no thread behind, as threads do not survive a fork.

    For children that compile, on a CPU one small module is compiled, which takes most of the time of a child's first
    compilation away. For a GPU nothing is compiled: asking for the GPU's properties would start CUDA, and CUDA does not
    survive a fork either.
    """
    import torch

    torch.set_num_threads(1)
    if compiles:
        import torch._inductor.compile_fx
        import tqdm

        tqdm.tqdm.monitor_interval = 0  # the compiler's progress bars would start a thread
    if compiles and device == "cpu":
        with torch.no_grad():
            module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Softmax(-1)).eval()
            torch.compile(module)(torch.zeros(4, 8))
        torch._dynamo.reset()
    if torch.cuda.is_initialized():
        raise RuntimeError("loading torch started CUDA, so that no child could use it")
    _check_threads(device)
    gc.collect()
    gc.freeze()


def _check_threads(device: str) -> None:
    """Refuse to fork with threads that hold something children need.

    Libraries of CUDA start an idle native thread when they are loaded; children do without it. Any other thread, and
    any of Python's, could hold a lock that would stay locked for ever in a child.
    """
    tasks = {
        int(task.name): (task / "comm").read_text(encoding="utf-8").strip()
        for task in Path("/proc/self/task").iterdir()
    }
    tasks.pop(os.getpid())
    if threading.active_count() > 1 or (tasks and device == "cpu"):
        names = sorted({*tasks.values(), *(t.name for t in threading.enumerate()[1:])})
        raise RuntimeError(f"threads are running after the preload: {', '.join(names)}; a fork cannot take them along")


def _spawn(request: dict[str, Any], descriptors: list[int]) -> int:
    channel, report, output, *shared = descriptors
    plan = jail.Plan.loads(request["plan"])

    def work() -> NoReturn:
        os.environ.clear()
        os.environ.update(request["environment"])
        _forget_folders(plan.folder)
        sizes = request["buffers"]
        buffers = {name: child.map_buffer(fd, size) for (name, size), fd in zip(sizes, shared, strict=True)}
        for fd in shared:
            os.close(fd)
        child.serve(socket.socket(fileno=channel), plan.folder, buffers, output)

    pid = os.fork()
    if pid == 0:
        jail.contain(plan, report, {channel, output, *shared}, work)
    return pid


def _forget_folders(folder: str) -> None:
    """Have a child write to its own folder what libraries would write where the server did."""
    tempfile.tempdir = None
    codecache: Any = sys.modules.get("torch._inductor.codecache")
    if codecache is None:  # the server has no compiler loaded
        return
    codecache._HEADER_DIR = os.path.join(folder, ".cache", "headers")  # noqa: PTH118
    codecache._HEADER_LOCK_DIR = os.path.join(codecache._HEADER_DIR, "locks")  # noqa: PTH118


def _end_orphans(known: set[int]) -> None:
    """End what escaped from a keeper that was itself ended; only possible without process namespaces."""
    for pid in processes.tree(os.getpid())[1:]:
        if pid not in known and not known & set(_ancestors(pid)):
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            break
        found.append(pid)
    return found


def serve(control: socket.socket) -> None:
    """Fork and reap as the parent asks, until it closes the socket."""
    keepers: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST, MAX_DESCRIPTORS)
        if not data:
            return
        request = json.loads(data)
        sent: list[int] = []
        if request["op"] == "spawn":
            for fd in descriptors:
                os.set_inheritable(fd, False)
            try:
                pid = _spawn(request, descriptors)
                keepers.add(pid)
                sent = [os.pidfd_open(pid)]
                reply: dict[str, Any] = {"pid": pid}
            except OSError as error:
                reply = {"failed": f"cannot fork: {error}"}
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(request["pid"], 0)
            keepers.discard(request["pid"])
            _end_orphans(keepers)
            reply = {}
        socket.send_fds(control, [json.dumps(reply).encode()], sent)
        for fd in (*descriptors, *sent):
            os.close(fd)


def main() -> None:
    """Preload, say so, serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    linux.adopt_orphans()
    try:
        preload(sys.argv[2], "compiles" in sys.argv[3:])
    except Exception as error:
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        raise
    linux.hide_memory()
    control.send(json.dumps({"ready": True}).encode())
    serve(control)


if __name__ == "__main__":
    main()

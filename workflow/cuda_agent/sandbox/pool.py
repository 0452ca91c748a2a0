"""Run functions on untrusted code, each in a process that was forked for it and locked in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from cuda_agent.sandbox import isolation, jail
from cuda_agent.sandbox.environment import compiler_cache, environment
from cuda_agent.sandbox.folders import remove
from cuda_agent.sandbox.limits import Limits, MachineError, Outcome
from cuda_agent.sandbox.locks import user_folder
from cuda_agent.sandbox.server import MAX_REQUEST
from cuda_agent.sandbox.session import GPU_CHECK, Session

Item = TypeVar("Item")
Result = TypeVar("Result")

_START_S = 300.0  # loading torch from a cold disk
_FORK_S = 60.0
_GPU_S = 120.0


class _RefusedError(MachineError):
    """The server could not do it this time; it lives on, and with it all other children."""


class _Server:
    """The fork server's process, and the socket to ask it by."""

    def __init__(self, folder: Path, device: str, import_path: list[str], compiles: bool) -> None:
        self._log = folder / "server.log"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        variables = environment(str(folder), device) | {"PYTHONPATH": os.pathsep.join(import_path)}
        variables |= compiler_cache(user_folder("cache"))
        argv = [sys.executable, "-P", "-m", "cuda_agent.sandbox.server", str(theirs.fileno()), device]
        argv += ["compiles"] if compiles else []
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    argv,
                    env=variables,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise MachineError(f"the fork server cannot be started: {error}") from None
        finally:
            theirs.close()
        self._ready = False

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        self._control.settimeout(timeout_s)
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MAX_REQUEST, 4)
        except OSError as error:
            data, descriptors = b"", []
            reason = str(error)
        else:
            reason = "it has ended"
        if not data:
            log = self._log.read_text(errors="replace", encoding="utf-8").strip()[-1000:]
            raise MachineError(f"the fork server does not answer: {reason}; its log ends with: {log}")
        reply = json.loads(data)
        if "failed" in reply:
            kind = _RefusedError if self._ready else MachineError
            raise kind(f"the fork server: {reply['failed']}")
        return reply, descriptors

    def ask(self, request: dict[str, Any], descriptors: list[int] = []) -> tuple[dict[str, Any], list[int]]:  # noqa: B006
        """Send a request and wait for the reply and what descriptors came with it.

        Raises:
            MachineError: the server has ended, hangs, or could not do it.
        """
        if not self._ready:
            self._receive(_START_S)
            self._ready = True
        try:
            self._control.settimeout(_FORK_S)
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        except OSError as error:
            raise MachineError(f"the fork server is gone: {error}") from None
        return self._receive(_FORK_S)

    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it, and with it all that it forked."""
        self._control.close()  # it ends by itself then
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Pool:
    """Forks children from a server that has torch and its compiler loaded.

    Args:
        device: ``cpu`` or ``cuda``: what the children may use.
        sandbox: the ``sandbox`` section of the parameters.
        workers: how many items `map` works on at once.
        compiles: whether children use `torch.compile`, whose parts are then loaded once for all. On a CPU this takes a
            C++ compiler.

    Raises:
        IsolationError: this machine cannot keep the children apart (see `check_isolation`).
    """

    def __init__(self, device: str, sandbox: Any, workers: int = 1, *, compiles: bool = True) -> None:
        self.device, self.sandbox, self.workers, self._compiles = device, sandbox, workers, compiles
        self.isolation = isolation.check_isolation(sandbox)
        self._features = isolation.features()
        self._folder = Path(tempfile.mkdtemp(prefix="cuda-agent-pool-"))
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        package = Path(__file__).resolve().parents[2]
        self._import_path = [str(package), *(str(Path(p).resolve()) for p in sys.path if p)]
        self._closed = False
        self._server: _Server | None = self._start_server()  # it loads while the caller goes on

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all children and the server, and remove their folders."""
        for session in list(self._sessions):
            session.close()
        with self._lock:
            self._closed = True
            self._stop_server()
        remove(self._folder)

    def session(
        self, limits: Limits, folder: Path | str | None = None, buffers: Mapping[str, int] | None = None
    ) -> Session:
        """One child for several calls; use it in a ``with`` statement.

        Args:
            limits: what the child may use.
            folder: the folder that it may write to; None makes one and removes it with the session.
            buffers: names and sizes in bytes of memory to share with the child.
        """
        session = Session(self, limits, folder, dict(buffers or {}))
        self._sessions.add(session)
        return session

    def run(
        self, target: str, payload: Mapping[str, Any], *, limits: Limits, folder: Path | str | None = None
    ) -> Outcome:
        """Call ``module:function`` once in a fresh child; a second time if the machine was at fault.

        Args:
            target: a function ``f(context, **payload)`` that returns JSON; see `child.Context`.
            payload: its arguments, as JSON.
        """
        outcome = Outcome("machine")
        for _ in range(2):
            with self.session(limits, folder) as session:
                outcome = session.call(target, payload)
            if outcome.status != "machine":
                break
        return outcome

    def map(
        self,
        drive: Callable[[Item], Result],
        items: Iterable[Item],
        again: Callable[[Result], bool] = lambda _: False,
    ) -> Iterator[tuple[Item, Result]]:
        """Call ``drive`` on each item in ``workers`` threads, each of which runs sessions of its own.

        Yields items with their results as they finish. Where ``again`` says so of a result, the item is done once more
        at the end, with no other beside it: what the workers share, such as a GPU's memory, is then its own. An
        exception of ``drive`` ends the map; what is running then is waited for, the rest is not begun.
        """
        with ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox-drive") as executor:
            pending = {executor.submit(drive, item): item for item in items}
            alone: list[Item] = []
            try:
                while pending:
                    done, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        item, result = pending.pop(future), future.result()
                        if self.workers > 1 and again(result):
                            alone.append(item)
                        else:
                            yield item, result
                for item in alone:
                    yield item, drive(item)
            finally:
                executor.shutdown(wait=False, cancel_futures=True)

    def _use_gpu(self) -> Outcome:
        with self.session(Limits.of(self.sandbox, _GPU_S)) as session:
            return session.call(GPU_CHECK, {})

    def gpu_works(self) -> bool:
        """Whether a fresh child can use the GPU."""
        return self._use_gpu().status == "ok"

    def check_gpu(self) -> None:
        """Start CUDA in a fresh child, if the pool is for that device.

        Raises:
            MachineError: it does not start there; says what to do.
        """
        if self.device != "cuda":
            return
        outcome = self._use_gpu()
        if outcome.status != "ok":
            raise MachineError(
                f"a sandboxed process cannot use the GPU: {outcome.status}: {outcome.error}; see that nvidia-smi works "
                "and that torch was built for its CUDA, or measure on the processor: device cpu and backend cpp"
            )

    def _start_server(self) -> _Server:
        return _Server(self._folder, self.device, self._import_path, self._compiles)

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    # What sessions use.

    def scratch(self) -> Path:
        """A new folder, inside the pool's own."""
        return Path(tempfile.mkdtemp(prefix="session-", dir=self._folder))

    def spawn(
        self, limits: Limits, folder: Path, buffers: dict[str, int], descriptors: list[int]
    ) -> tuple[int, int, int, int]:
        """Fork a jail.

        Args:
            descriptors: for the child: channel, report, output, then one for each buffer.

        Returns:
            Process id and process descriptor of the jail's keeper, how many generations of processes are the jail's
            own, and the signal that ends all of it.

        Raises:
            MachineError: it could not be forked, and not by a new server either.
        """
        readable = (*jail.readable_folders(), *self._import_path, str(user_folder("cache")))
        plan = jail.Plan(
            self._features,
            str(folder),
            self.device,
            readable,
            limits.memory_mb,
            limits.file_size_mb,
            limits.tasks,
        )
        request = {
            "op": "spawn",
            "plan": plan.dumps(),
            "environment": environment(str(folder), self.device),
            "buffers": list(buffers.items()),
        }
        reply, received = self._ask(request, descriptors)
        contained = "pidns" in self._features
        return reply["pid"], received[0], 2 if contained else 1, signal.SIGKILL if contained else signal.SIGTERM

    def reap(self, session: Session, pid: int | None) -> None:
        """Forget a session whose processes have ended."""
        self._sessions.discard(session)
        if pid is not None:
            with self._lock, contextlib.suppress(MachineError):
                if self._server is not None and self._server.alive():
                    self._server.ask({"op": "reap", "pid": pid})

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            try:
                return self._ask_once(request, descriptors)
            except _RefusedError:
                raise
            except MachineError:
                return self._ask_once(request, descriptors)

    def _ask_once(self, request: dict[str, Any], descriptors: list[int]) -> tuple[dict[str, Any], list[int]]:
        if self._closed:
            raise MachineError("the pool is closed")
        if self._server is None:
            self._server = self._start_server()
        try:
            return self._server.ask(request, descriptors)
        except _RefusedError:
            raise
        except MachineError:
            self._stop_server()  # whoever asks next gets a new one
            raise

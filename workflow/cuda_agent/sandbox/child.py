"""The worker: does what the parent asks, in the process where untrusted code runs."""

from __future__ import annotations

import importlib
import mmap
import os
import signal
import socket
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, NoReturn

from cuda_agent.sandbox import wire

_TRACEBACK_LINES = 12


@dataclass
class Context:
    """What a target function is given first.

    Attributes:
        folder: the one folder that it may write to; also its working directory.
        state: lives as long as the child.
    """

    folder: str
    state: dict[str, Any] = field(default_factory=dict)
    _buffers: dict[str, memoryview] = field(default_factory=dict)
    _channel: socket.socket | None = None

    def stage(self, name: str) -> None:
        """Tell the parent what is being done now."""
        if self._channel is not None:
            self._channel.sendall(wire.encode({"stage": name}))

    def buffer(self, name: str) -> memoryview:
        """Memory shared with the parent."""
        return self._buffers[name]


def map_buffer(fd: int, size: int) -> memoryview:
    """Shared memory behind a descriptor."""
    return memoryview(mmap.mmap(fd, size))


def use_gpu(context: Context) -> int:
    """A target: compute something on the GPU, to see whether it works at all."""
    import torch

    return int(torch.ones(8, device="cuda").sum().item())


def serve(channel: socket.socket, folder: str, buffers: dict[str, memoryview], output: int) -> NoReturn:
    """Answer calls until the parent closes the channel."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    context = Context(folder, _buffers=buffers, _channel=channel)
    reader = wire.Reader(channel)
    channel.sendall(wire.encode({"ready": True}))
    while (request := reader.next()) is not None:
        channel.sendall(_answer(context, request))
    os._exit(0)


def _answer(context: Context, request: dict[str, Any]) -> bytes:
    number = request["call"]
    try:
        module, _, name = request["target"].partition(":")
        function = getattr(importlib.import_module(module), name)
        value = function(context, **request["payload"])
        try:
            answer = wire.encode({"call": number, "status": "ok", "value": value})
        except (TypeError, ValueError, RecursionError) as error:
            answer = _failure(number, f"{type(error).__name__}: what {name} returned cannot be sent: {error}", "")
    except MemoryError as error:
        answer = _failure(number, f"MemoryError: {error}", _where(error), "memory")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        _flush()
        os._exit(code & 0xFF)
    except BaseException as error:
        answer = _failure(number, f"{type(error).__name__}: {error}", _where(error))
    _flush()
    return answer


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed or replaced by the code that ran
            continue


def _where(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error)).rstrip().split("\n")
    return "\n".join(lines[-_TRACEBACK_LINES:])


def _failure(number: int, error: str, where: str, status: str = "error") -> bytes:
    body = {"call": number, "status": status, "error": error[:4000], "where": where[-4000:]}
    return wire.encode(body)

"""What a candidate does while its forward runs, as seen from inside its own process.

A tripwire: whoever knows of it can get around it, but then has to, and what does the getting around is itself seen here
or by `compliance`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_WATCHED = ("torch", "numpy", "ctypes", "tvm_ffi")
# Methods of tensors and functions that take values out of torch's sight, or that end the watching.
_LEAKS = {
    *("numpy", "__array__", "__dlpack__", "from_dlpack", "to_dlpack", "tolist", "item", "data_ptr", "frombuffer"),
    *("untyped_storage", "storage", "share_memory_", "map_", "apply_", "setprofile", "settrace", "start_new_thread"),
    *("compile", "_make_subclass", "_make_wrapper_subclass", "pop_torch_dispatch", "_pop_torch_dispatch_stack"),
}


class Kernels:
    """Counts calls of the functions of ``cuda_extension``, and can make them do nothing."""

    def __init__(self, extension: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.asleep = False
        for name, function in list(vars(extension).items()):
            if type(function).__name__ == "Function":
                setattr(extension, name, self._wrap(name, function))

    def _wrap(self, name: str, function: Any) -> Any:
        def call(*args: Any) -> Any:
            if self.asleep:
                return None
            self.calls[name] += 1
            return function(*args)

        return call


class Witness(TorchDispatchMode):
    """Notes operators of torch's dispatcher, calls into C by name, threads, and on a GPU the names of kernels."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.ops: Counter[str] = Counter()
        self.leaks: set[str] = set()
        self._device = device
        self._profiler: Any = None
        self._intact = True
        self._threads = [0, 0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops[str(func)] += 1
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Witness:
        if self._device == "cuda":
            self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self._profiler.__enter__()
        if self._device == "cpu":
            self._threads[0] = _threads()
        super().__enter__()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *error: Any) -> None:
        self._intact = sys.getprofile() == self._event
        sys.setprofile(None)
        super().__exit__(*error)
        if self._device == "cpu":  # CUDA's runtime and its profiler have threads of their own that come and go
            self._threads[1] = _threads()
        if self._profiler is not None:
            self._profiler.__exit__(*error)

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "c_call" or frame.f_code.co_filename == __file__:
            return
        name = getattr(argument, "__name__", "")
        if name in _LEAKS and not _inside_torch(frame):
            self.leaks.add(name)

    def report(self) -> dict[str, Any]:
        """All that was seen, as JSON."""
        device_kernels: dict[str, int] = {}
        if self._profiler is not None:
            events = self._profiler.events() or []
            device_kernels = dict(Counter(e.name for e in events if str(e.device_type).endswith("CUDA")))
        return {
            "ops": dict(self.ops),
            "leaks": sorted(self.leaks),
            "threads": self._threads,
            "intact": self._intact,
            "device_kernels": device_kernels,
        }


def _inside_torch(frame: FrameType) -> bool:
    """Whether a call stands in torch's own Python code and was not asked for by name."""
    return "/torch/nn/modules/" in frame.f_code.co_filename


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))

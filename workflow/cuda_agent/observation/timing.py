"""Time calls of a model, on the CPU or a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch


def _on_cpu(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


class _OnGPU:
    """Times by CUDA events, with the L2 cache overwritten before each call."""

    def __init__(self) -> None:
        size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
        self._flush = torch.empty(max(size, 1 << 20), dtype=torch.int8, device="cuda")

    def __call__(self, call: Callable[[], object]) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._flush.zero_()
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))


def sample(calls: Mapping[str, Callable[[], object]], device: str, warmup: int, repeats: int) -> dict[str, list[float]]:
    """Time several calls in turns, so that a machine that slows down does so for all of them.

    Args:
        calls: what to time, by name.
        device: ``cpu`` or ``cuda``.
        warmup: untimed calls of each.
        repeats: timed calls of each.

    Returns:
        Milliseconds of each timed call, by name.
    """
    timed = _OnGPU() if device == "cuda" else _on_cpu
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(warmup + repeats):
        for name, call in calls.items():
            milliseconds = timed(call)
            if turn >= warmup:
                times[name].append(milliseconds)
    return times


def interquartile_range(values: list[float]) -> float:
    """Distance between the quartiles; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low

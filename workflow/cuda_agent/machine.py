"""Whether this machine can measure on a device, and whether it is quiet enough to."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psutil

from cuda_agent import toolchain
from cuda_agent.errors import UserError

_LISTEN_S = 0.5  # how long the processors are watched where the load is high


class DeviceError(UserError, RuntimeError):
    """This machine lacks what a device needs. One line for each thing, with what to do."""


def lacks(device: str, *, compiles: bool) -> list[str]:
    """What this machine lacks to measure on a device, seen without starting CUDA; empty if nothing.

    Args:
        device: ``cpu`` or ``cuda``.
        compiles: whether kernels will be compiled, which for ``cuda`` takes nvcc; torch.compile is used in any case.
    """
    found = toolchain.lacks()
    if device != "cuda":
        return found
    import torch

    if torch.version.cuda is None:
        found.append(
            f"CUDA in torch: {torch.__version__} was built without CUDA; install a build with it "
            "(https://pytorch.org/get-started)"
        )
    if not _has_gpu():
        found.append("a GPU: there is no NVIDIA GPU here (nvidia-smi lists none); use a machine that has one")
    if compiles and shutil.which("nvcc") is None:
        found.append("nvcc: is not on PATH; install the CUDA toolkit, or put its bin/ on PATH")
    return found


def _has_gpu() -> bool:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return True
    if shutil.which("nvidia-smi") is None:
        return False
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False, timeout=60, encoding="utf-8")
    return done.returncode == 0 and "GPU 0" in done.stdout


def check_device(device: str, *, compiles: bool) -> None:
    """Stop where this machine cannot measure on the device; to be called before any work is begun.

    Raises:
        DeviceError: says what is lacking and what to do.
    """
    if found := lacks(device, compiles=compiles):
        instead = ["or measure on the processor: device cpu and backend cpp"] if device == "cuda" else []
        lines = [f"the device {device} cannot be used, as this machine lacks:", *(f"  {line}" for line in found)]
        raise DeviceError("\n".join([*lines, *instead]))


def load_warning(device: str, load: float | None = None, busy: float | None = None, cores: int | None = None) -> str:
    """A line that says that others use the processors so much that times will be off; empty if they do not.

    The load average still counts what this run itself did in the last minute; so where it is high, the processors are
    watched for a moment as well.

    Args:
        device: ``cpu`` or ``cuda``; work on the processors does not disturb what is timed on a GPU by its own clock.
        load: processes that wanted to run in the last minute; None: the machine's load average.
        busy: share of the processors in use now, 0 to 1; None: measured, if the load is high.
        cores: of the machine; None: counted.
    """
    if device != "cpu":
        return ""
    cores = cores or os.cpu_count() or 1
    load = os.getloadavg()[0] if load is None else load
    if load <= cores / 2:
        return ""
    busy = psutil.cpu_percent(_LISTEN_S) / 100 if busy is None else busy
    if busy <= 0.5:
        return ""
    return (
        f"warning: load {load:.1f} on {cores} cores: times measured now will be off; stop what else runs here, and "
        "measure again"
    )

"""Compile what lies in a workspace, in the sandbox."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.sandbox import Limits, run_command
from cuda_agent.workspace.layout import Backend

LIBRARY = Path("build") / "libcuda_extension.so"

_MACHINE = 2  # exit status of utils/compile.py where a tool is missing


@dataclass(frozen=True)
class Build:
    """How a build ended.

    Attributes:
        status: ``ok``; ``error`` (the code does not compile); or a status of the sandbox's `Outcome`: ``timeout``,
            ``memory``, ``machine``, ...
        log: what the compilers said.
        seconds: how long it took.
        library: the shared library, if ok.
    """

    status: str
    log: str
    seconds: float
    library: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a library."""
        return self.status == "ok"


def build(folder: Path | str, *, backend: Backend, limits: Limits, sandbox: Any, jobs: int | None = None) -> Build:
    """Run the workspace's own ``utils/compile.sh`` in the sandbox; only files that changed are compiled again.

    Args:
        folder: the workspace.
        limits: of the compilers together.
        sandbox: the ``sandbox`` section of the parameters.
        jobs: compilers at once; None: one for each core.
    """
    folder = Path(folder).resolve()
    argv = ["bash", "utils/compile.sh", "--backend", backend]
    if backend == "cuda":
        argv += ["--arch", gpu_arch()]
    if jobs is not None:
        argv += ["--jobs", str(jobs)]
    outcome = run_command(argv, folder, limits=limits, sandbox=sandbox)
    value = outcome.value or {}
    log = "\n".join(text for text in (value.get("stdout", ""), value.get("stderr", ""), outcome.error) if text).strip()
    status = outcome.status
    if status == "ok" and value["returncode"] != 0:
        status = "machine" if value["returncode"] == _MACHINE else "error"
    library = folder / LIBRARY
    if status == "ok" and (library.is_symlink() or not library.is_file()):
        status, log = "error", log + f"\nthere is no {LIBRARY}"
    return Build(status, log, outcome.wall_s, library if status == "ok" else None)


def gpu_arch() -> str:
    """Architecture of this machine's first GPU as nvcc names it, without starting CUDA; ``sm_90`` without a GPU."""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, check=False, timeout=60, encoding="utf-8")
        if done.returncode == 0 and (lines := done.stdout.split()):
            return "sm_" + lines[0].replace(".", "")
    return "sm_90"

"""What sandboxed processes see of the environment: a short list, so that no key or token of the user reaches them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CUDAHOSTCXX")
_FOR_CUDA = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "TORCH_CUDA_ARCH_LIST")


def environment(folder: str, device: str) -> dict[str, str]:
    """Environment of a process that may write to ``folder`` only; every cache lies in it."""
    names = _PASSED_ON + (_FOR_CUDA if device == "cuda" else ())
    out = {name: os.environ[name] for name in names if name in os.environ}
    cache = Path(folder) / ".cache"
    out |= {
        "HOME": folder,
        "PYTHONPATH": ":".join(import_path()),
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "USER": "sandbox",
        "OMP_NUM_THREADS": "1",  # until the code asks torch for more
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # its worker processes and threads would not survive a fork
        "TORCH_EXTENSIONS_DIR": str(cache / "extensions"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "CUDA_CACHE_PATH": str(cache / "nv"),
    }
    scripts = str(Path(sys.executable).parent)
    path = [p for p in out.get("PATH", "").split(":") if p] or ["/usr/local/bin", "/usr/bin", "/bin"]
    out["PATH"] = ":".join(dict.fromkeys([scripts, *path]))  # `python3` is the one that runs this
    if device == "cuda":
        out["PYTORCH_NVML_BASED_CUDA_CHECK"] = (
            "1"  # counting GPUs then starts no CUDA, which a fork could not take along
        )
    else:
        out["CUDA_VISIBLE_DEVICES"] = ""
    return out


def import_path() -> list[str]:
    """Where children find what this process has on its PYTHONPATH, this very checkout of the library first."""
    here = str(Path(__file__).resolve().parents[2])
    given = [str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(":") if p and Path(p).is_dir()]
    return list(dict.fromkeys([here, *given]))


def compiler_cache(folder: Path) -> dict[str, str]:
    """Where the fork server keeps precompiled headers and the compiler's answers from one pool to the next.

    Graphs are not kept: compiling one anew loads the parts of the compiler that children are to find loaded.
    """
    return {
        "TMPDIR": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
    }

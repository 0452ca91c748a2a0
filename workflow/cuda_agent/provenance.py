"""What code and what machine an artefact came from."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
TEMPLATE = PACKAGE.parent / "agent_workdir"


def repository() -> Path:
    """The repository: the current folder if it holds parameters and runs, else this package's checkout."""
    return Path() if Path("params.yaml").exists() and Path("workflow/runs").is_dir() else PACKAGE.parents[1]


def _module_path(name: str) -> Path | None:
    relative = name.split(".")[1:]
    base = PACKAGE.joinpath(*relative)
    if (base / "__init__.py").exists():
        return base / "__init__.py"
    path = base.with_suffix(".py")
    return path if path.exists() else None


def _imports(name: str, path: Path) -> set[str]:
    """Modules of this package that a file imports, at the top or inside a function."""
    found = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names if a.name.split(".")[0] == PACKAGE.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            if base.split(".")[0] == PACKAGE.name:
                found.add(base)
                found.update(f"{base}.{a.name}" for a in node.names if _module_path(f"{base}.{a.name}"))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"{PACKAGE.name}.")
        ):
            found.add(node.value.split(":")[0])  # "package.module:function", as the worker pool names what it runs
    return {m for m in found if _module_path(m)}


@functools.cache
def modules(*roots: str) -> tuple[str, ...]:
    """All modules of this package that the named ones import, themselves and their packages included, sorted."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        path = _module_path(name)
        if path is None:
            raise ValueError(f"{name}: no such module in {PACKAGE}")
        seen.add(name)
        todo.extend(_imports(name, path))
        if name.count("."):
            todo.append(name.rpartition(".")[0])
    return tuple(sorted(seen))


@functools.cache
def code_hash(*roots: str) -> str:
    """Hash of everything in this package that the named modules run.

    Snakemake sees a rule's text and its script, not the modules that the script imports; each rule therefore carries
    this as a parameter, and each measurement as a column. Files that are data to a package lie in its folder and count
    as part of it, and so does the workspace template for the package that lays it out.
    """
    digest = hashlib.sha256()
    for path in files(*roots):
        digest.update(f"{path.relative_to(PACKAGE.parent)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def files(*roots: str) -> tuple[Path, ...]:
    """Files of the named modules and of all that they import from this package, with the packages' data files."""
    found = []
    for name in modules(*roots):
        path = _module_path(name)
        found.append(path)
        if path.name == "__init__.py" and name.count("."):
            found += [p for p in path.parent.iterdir() if p.is_file() and p.suffix not in (".py", ".pyc")]
        if name == f"{PACKAGE.name}.workspace":
            found += [p for p in TEMPLATE.rglob("*") if p.is_file() and p.suffix != ".pyc"]
    return tuple(sorted(found))


def hand_on_to_jobs() -> None:
    """Have every Python that this process starts import this very checkout of the library."""
    here = str(PACKAGE.parent)
    others = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != here]
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *others])


def library_versions() -> str:
    """Versions of the libraries whose operators are collected, as text."""
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers"))


def _first_line(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        return ""
    done = subprocess.run(argv, capture_output=True, check=False, timeout=20, encoding="utf-8")
    return (done.stdout or done.stderr).strip().split("\n")[0]


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@functools.cache
def hardware(device: str) -> dict[str, str]:
    """The machine: columns ``device``, ``device_name`` and ``versions`` of a measured artefact.

    Args:
        device: ``cpu`` or ``cuda``. For ``cuda``, the driver is asked without starting CUDA in this process, so that
            workers can still be forked from it.
    """
    import torch

    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "compiler": _first_line("c++", "--version"),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
    }
    name = versions["cpu"]
    if device == "cuda":
        query = _first_line("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        name, _, driver = query.partition(", ")
        versions |= {"driver": driver, "cuda": torch.version.cuda or "", "nvcc": _nvcc_release()}
    return {"device": device, "device_name": name, "versions": json.dumps(versions, sort_keys=True)}


def _nvcc_release() -> str:
    if shutil.which("nvcc") is None:
        return ""
    out = subprocess.run(["nvcc", "--version"], capture_output=True, check=False, timeout=20, encoding="utf-8").stdout
    return next((line.strip() for line in out.splitlines() if "release" in line), "")

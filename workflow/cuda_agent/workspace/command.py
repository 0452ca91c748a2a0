"""``cuda-agent workspace``: lay out a workspace for one task, as an agent gets it."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from cuda_agent import params, provenance, records
from cuda_agent.errors import existing
from cuda_agent.workspace.layout import create
from cuda_agent.workspace.task_file import WorkspaceError, task_text

_SHOWN = 8  # ids that a message lists


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent workspace``."""
    parser.add_argument("task", help="a task_id, or the beginning of one; or a file with Model and get_inputs")
    parser.add_argument("folder", type=Path, help="where to; must not exist")
    parser.add_argument("--run", help="the run whose data/RUN/tasks.parquet is read; default: params.yaml's run")
    parser.add_argument("--backend", choices=["cpp", "cuda"], help="C++ or CUDA kernels; default: the run's")


def _code(task: str, run: str, root: Path) -> str:
    if Path(task).is_file():
        return task_text(Path(task))
    if Path(task).exists():
        what = "a folder" if Path(task).is_dir() else "a pipe or a device"
        raise WorkspaceError(
            f"{task}: is {what}; name a file with Model and get_inputs, or a task by the beginning of its task_id"
        )
    path = existing(root / "data" / run / "tasks.parquet", run, root)
    found = [row for row in records.read(path, records.TASKS) if row["task_id"].startswith(task)]
    if len(found) != 1:
        ids = [row["task_id"] for row in found[:_SHOWN]] + ["..."] * (len(found) > _SHOWN)
        listed = f": {', '.join(ids)}" if task and found else ""
        raise WorkspaceError(f"{path}: {len(found)} tasks have an id that begins with {task!r}{listed}")
    return found[0]["code"]


def run(args: argparse.Namespace) -> int:
    """Lay it out."""
    if args.folder.exists():
        raise WorkspaceError(f"{args.folder}: there already; name a new folder")
    root = provenance.repository()
    loaded = params.load(root, args.run)
    code = _code(args.task, loaded.run, root)
    try:
        create(args.folder, code, args.backend or loaded.rollouts.backend)
    except OSError:
        shutil.rmtree(args.folder, ignore_errors=True)
        raise
    print(f"{args.folder}: read SKILL.md there; `cuda-agent judge {args.folder}` judges it")
    return 0

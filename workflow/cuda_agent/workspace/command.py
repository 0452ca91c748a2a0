"""``cuda-agent workspace``: lay out a workspace for one task, as an agent gets it."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from cuda_agent import params, provenance, records
from cuda_agent.errors import UserError, existing
from cuda_agent.tasks import syntax
from cuda_agent.workspace.layout import create

_SHOWN = 8  # ids that a message lists


class WorkspaceError(UserError, ValueError):
    """There is no such task, or no room for its workspace."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent workspace``."""
    parser.add_argument("task", help="a task_id, or the beginning of one; or a file with Model and get_inputs")
    parser.add_argument("folder", type=Path, help="where to; must not exist")
    parser.add_argument("--run", help="the run whose data/RUN/tasks.parquet is read; default: params.yaml's run")
    parser.add_argument("--backend", choices=["cpp", "cuda"], help="C++ or CUDA kernels; default: the run's")


def _code(task: str, run: str, root: Path) -> str:
    if Path(task).is_file():
        return _module(Path(task))
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


def _module(path: Path) -> str:
    """Text of a task's file, if it has the form of one."""
    try:
        text = path.read_text(encoding="utf-8")
        names = {getattr(node, "name", "") for node in syntax.parse(text).body}
    except (SyntaxError, UnicodeDecodeError) as error:
        raise WorkspaceError(f"{path}: is no Python: {error}") from None
    if lacking := [name for name in ("Model", "get_inputs", "get_init_inputs") if name not in names]:
        raise WorkspaceError(f"{path}: is no task: it defines no {' and no '.join(lacking)}")
    return text


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

"""``cuda-agent workspace``: lay out a workspace for one task, as an agent gets it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cuda_agent import records
from cuda_agent.workspace.layout import create


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent workspace``."""
    parser.add_argument("task", help="a task_id, or the beginning of one; or a file with Model and get_inputs")
    parser.add_argument("folder", type=Path, help="where to; must not exist")
    parser.add_argument("--run", default="laptop", help="the run whose data/RUN/tasks.parquet is read")
    parser.add_argument("--backend", choices=["cpp", "cuda"], default="cpp", help="C++ or CUDA kernels")


def _code(task: str, run: str) -> str:
    if Path(task).is_file():
        return Path(task).read_text()
    path = Path("data") / run / "tasks.parquet"
    if not path.exists():
        raise ValueError(f"{path}: not there; make it with `snakemake --cores all --config run={run}`")
    found = [row for row in records.read(path, records.TASKS) if row["task_id"].startswith(task)]
    if len(found) != 1:
        raise ValueError(f"{path}: {len(found)} tasks have an id that begins with {task!r}")
    return found[0]["code"]


def run(args: argparse.Namespace) -> int:
    """Lay it out."""
    try:
        if args.folder.exists():
            raise ValueError(f"{args.folder}: there already; name a new folder")
        create(args.folder, _code(args.task, args.run), args.backend)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{args.folder}: read SKILL.md there; `cuda-agent judge {args.folder}` judges it")
    return 0

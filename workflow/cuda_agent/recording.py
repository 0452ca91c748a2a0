"""Tell DVC of a run that Snakemake made, if it is what the parameters of the repository ask for."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

from cuda_agent import made, params
from cuda_agent.errors import UserError
from cuda_agent.pulling import on_path


class RecordingError(UserError, RuntimeError):
    """The run cannot be recorded. Says why."""


def commit(root: Path, run: str) -> None:
    """``dvc commit`` of a run's stages, so that ``dvc repro`` and ``dvc exp run`` go on from it.

    Args:
        root: the repository.
        run: which run.

    Raises:
        RecordingError: Snakemake would still make something, as the run is unfinished or was made with parameters from
            the command line, or some of it comes from elsewhere: DVC would keep one's results as those of the other.
            Or dvc.yaml has no stages for the run. DVC is told nothing then.
    """
    on_path("dvc", "snakemake")
    params.run_file(root, run)
    if not any(_finished(root, run, measurements) for measurements in ("fresh", "pinned")):
        raise RecordingError(
            f"DVC is not told of the run {run}: it is not what params.yaml and workflow/runs/{run}.yaml ask for now. "
            f"`snakemake --dry-run --config run={run}` says what differs; what was changed by --config or --configfile "
            "belongs into one of the two files"
        )
    tables = [str(p.relative_to(root)) for end in ("parquet", "zst") for p in (root / "data" / run).rglob(f"*.{end}")]
    if text := made.unknown(run, sorted(tables), root):
        raise RecordingError(f"DVC is not told of the run {run}: {text}")
    if others := made.foreign([f"data/{run}", f"results/{run}"], root):
        raise RecordingError(
            f"DVC is not told of the run {run}: {', '.join(map(str, others))} is not what its job wrote, whatever "
            "--touch told Snakemake: remove it, and Snakemake makes it again"
        )
    listed = _run(root, "dvc", "stage", "list", "--name-only")
    if listed.returncode:
        raise RecordingError(f"dvc stage list failed:\n{listed.stdout}{listed.stderr}")
    mine = [name for name in listed.stdout.split() if re.search(rf"@{re.escape(run)}(-|$)", name)]
    if not mine:  # without a target DVC would commit every other run
        raise RecordingError(
            f"dvc.yaml has no stages for the run {run}: `make format` writes them, then record it again"
        )
    done = _run(root, "dvc", "commit", "--quiet", "--force", *mine)
    if done.returncode:
        raise RecordingError(f"dvc commit failed:\n{done.stdout}{done.stderr}")


def _finished(root: Path, run: str, measurements: str) -> bool:
    """Whether Snakemake has nothing to do; pinned measurements are those of the same parameters, or refused."""
    config = ("--config", f"run={run}", f"measurements={measurements}")
    done = _run(root, "snakemake", "--cores", "1", "--dry-run", *config)
    return "Nothing to be done" in done.stdout + done.stderr


def _run(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=root, check=False, capture_output=True, text=True, encoding="utf-8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent record``."""
    parser.add_argument("run", help="which run: a file in workflow/runs/")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")


def run(args: argparse.Namespace) -> int:
    """Record."""
    commit(args.root, args.run)
    return 0

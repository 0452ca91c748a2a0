"""Fetch a published run's artefacts from the DVC remote, so that neither tool has anything left to do."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from cuda_agent import made, params
from cuda_agent.errors import UserError


class PullError(UserError, RuntimeError):
    """The artefacts cannot be fetched, or the workspace is not what was published. Says what to do."""


def on_path(*tools: str) -> None:
    """See that commands are there.

    Raises:
        PullError: one is not; says how to get it.
    """
    for tool in tools:
        if shutil.which(tool) is None:
            raise PullError(f"{tool} is not on PATH: `make setup` installs it; `. .venv/bin/activate` finds it")


def pull(root: Path, runs: list[str]) -> None:
    """``dvc pull``; then, if the workspace equals what is published, tell Snakemake that all of it is up to date.

    Args:
        root: the repository.
        runs: which runs to fetch.

    Raises:
        ParamsError: there is no such run, or the folder is not the repository.
        PullError: the remote lacks files, or the workspace differs from what is published: Snakemake is told nothing,
            since that would hide stale files.
    """
    for run in runs:
        params.run_file(root, run)
    on_path("dvc", "snakemake")
    targets = [f"results@{run}" for run in runs]
    if subprocess.run(["dvc", "pull", "--with-deps", *targets], cwd=root, check=False).returncode:
        raise PullError(
            "dvc pull failed: see above; `dvc remote add -d NAME URL` names a remote, and `dvc checkout --force` gives "
            "up what was changed here"
        )
    status = ["dvc", "status", "--with-deps", *targets]
    done = subprocess.run(status, cwd=root, check=False, capture_output=True, text=True, encoding="utf-8")
    if done.returncode or "up to date" not in done.stdout:
        raise PullError(
            f"the workspace differs from what dvc.lock says:\n{done.stdout}{done.stderr}"
            f"`dvc repro {' '.join(targets)}` makes it"
        )
    for run in runs:
        command = ["snakemake", "--cores", "1", "--touch", "--config", f"run={run}"]
        if subprocess.run(command, cwd=root, check=False).returncode:
            raise PullError(f"{' '.join(command)} failed: see above")
        made.record(_outs(root, run), root)


def _stages(root: Path) -> dict[str, Any]:
    path = root / "dvc.lock"
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("stages", {}) if path.exists() else {}


def _outs(root: Path, run: str) -> list[str]:
    """What the stages of a run made."""
    return [
        out["path"]
        for stage in _stages(root).values()
        for out in stage.get("outs", [])
        if out["path"].startswith((f"data/{run}/", f"results/{run}/"))
    ]


def locked_runs(root: Path) -> list[str]:
    """Runs whose results ``dvc.lock`` has."""
    return sorted(name.partition("@")[2] for name in _stages(root) if name.startswith("results@"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent pull``."""
    parser.add_argument("runs", nargs="*", help="which runs (default: all that dvc.lock has)")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")


def run(args: argparse.Namespace) -> int:
    """Pull."""
    params.known_runs(args.root)
    runs = args.runs or locked_runs(args.root)
    if not runs:
        raise PullError(
            "dvc.lock has no finished run to fetch: git does not keep it here, as no remote holds the artefacts. "
            "`make reproduce RUN=...` makes a run; a fork that pushes to a remote commits its dvc.lock as well"
        )
    pull(args.root, runs)
    return 0

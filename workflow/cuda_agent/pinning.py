"""Keep a run's measured artefacts in git, and fetch a published run's artefacts from the DVC remote."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from cuda_agent import params, records

MEASURED = ("observations.parquet",)
MEASURED_OF_POLICY = ("trajectories.jsonl.zst", "submissions.parquet", "judgements.parquet")


class PinError(ValueError):
    """The artefacts cannot be kept or fetched. The message says which, and what to do."""


def paths(policies: list[str]) -> list[str]:
    """The measured artefacts of a run, relative to its folder."""
    return [*MEASURED, *(f"{policy}/{name}" for policy in policies for name in MEASURED_OF_POLICY)]


def pin(root: Path, run: str) -> list[Path]:
    """Copy a run's measured artefacts to ``data/pinned/{run}/`` and say there what hardware they came from.

    Raises:
        PinError: an artefact is missing; nothing has been copied then.
    """
    source, target = root / "data" / run, root / "data" / "pinned" / run
    names = paths(params.load(root, run).rollouts.policies)
    missing = [name for name in names if not (source / name).exists()]
    if missing:
        raise PinError(
            f"{source}: {', '.join(missing)} missing; make them with `snakemake --cores all --config run={run}`"
        )
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    (target / "README.md").write_text(_describe(run, target, names))
    return [target / name for name in names]


def _describe(run: str, folder: Path, names: list[str]) -> str:
    lines = [
        f"# Measured artefacts of the run `{run}`",
        "",
        "Written by `cuda-agent pin`. No rule makes these files.",
        "",
    ]
    lines += ["| file | rows | device | versions | isolation | code |", "|---|---|---|---|---|---|"]
    for name in names:
        if name.endswith("observations.parquet"):
            rows = records.read(folder / name, records.OBSERVATIONS)
        elif name.endswith("judgements.parquet"):
            rows = records.read(folder / name, records.JUDGEMENTS)
        elif name.endswith("submissions.parquet"):
            rows = records.read(folder / name, records.SUBMISSIONS)
        else:
            rows = list(records.read_jsonl(folder / name))
        cells = [f"`{name}`", str(len(rows))]
        for column in ("device_name", "versions", "isolation", "code_hash"):
            values = sorted({row[column] for row in rows if row.get(column)})
            if column == "versions":
                values = [", ".join(f"{k} {v}" for k, v in json.loads(value).items()) for value in values]
            cells.append("; ".join(values))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def pull(root: Path, runs: list[str]) -> None:
    """``dvc pull``; then, if the workspace equals what is published, tell Snakemake that all of it is up to date.

    Args:
        root: the repository.
        runs: which runs to fetch.

    Raises:
        PinError: the remote lacks files, or the workspace differs from what is published: Snakemake is told nothing,
            since that would hide stale files.
    """
    targets = [f"results@{run}" for run in runs]
    if subprocess.run(["dvc", "pull", "--with-deps", *targets], cwd=root, check=False).returncode:
        raise PinError("dvc pull failed: see above; `dvc remote add -d NAME URL` names a remote")
    status = ["dvc", "status", "--with-deps", *targets]
    done = subprocess.run(status, cwd=root, check=False, capture_output=True, text=True)
    if done.returncode or "up to date" not in done.stdout:
        raise PinError(
            f"the workspace differs from what dvc.lock says:\n{done.stdout}{done.stderr}`dvc repro` makes it"
        )
    for run in runs:
        command = ["snakemake", "--cores", "1", "--touch", "--config", f"run={run}"]
        if subprocess.run(command, cwd=root, check=False).returncode:
            raise PinError(f"{' '.join(command)} failed: see above")


def locked_runs(root: Path) -> list[str]:
    """Runs whose results ``dvc.lock`` has."""
    path = root / "dvc.lock"
    stages = (yaml.safe_load(path.read_text()) or {}).get("stages", {}) if path.exists() else {}
    return sorted(name.partition("@")[2] for name in stages if name.startswith("results@"))


def add_pin_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent pin``."""
    parser.add_argument("run", help="which run's artefacts to keep: a file in workflow/runs/")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")


def run_pin(args: argparse.Namespace) -> int:
    """Pin, and list what was pinned."""
    try:
        for path in pin(args.root, args.run):
            print(path)
    except (PinError, params.ParamsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def add_pull_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent pull``."""
    parser.add_argument("runs", nargs="*", help="which runs (default: all that dvc.lock has)")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")


def run_pull(args: argparse.Namespace) -> int:
    """Pull."""
    try:
        runs = args.runs or locked_runs(args.root)
        if not runs:
            raise PinError("dvc.lock has no finished run: nothing was published yet; `dvc repro` makes it")
        pull(args.root, runs)
    except PinError as error:
        print(error, file=sys.stderr)
        return 1
    return 0

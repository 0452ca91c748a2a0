"""Keep a run's measured artefacts in git."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from cuda_agent import params, records

MEASURED = ("observations.parquet",)
MEASURED_OF_POLICY = ("trajectories.jsonl.zst", "submissions.parquet", "judgements.parquet")


class PinError(ValueError):
    """The artefacts cannot be kept. The message says which, and what to do."""


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent pin``."""
    parser.add_argument("run", help="which run's artefacts to keep: a file in workflow/runs/")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")


def run(args: argparse.Namespace) -> int:
    """Pin, and list what was pinned."""
    try:
        for path in pin(args.root, args.run):
            print(path)
    except (PinError, params.ParamsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0

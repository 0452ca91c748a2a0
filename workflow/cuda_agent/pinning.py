"""Keep a run's measured artefacts in git."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from cuda_agent import params, records
from cuda_agent.errors import UserError

MEASURED = ("observations.parquet",)
MEASURED_OF_POLICY = ("trajectories.jsonl.zst", "submissions.parquet", "judgements.parquet")
MADE_WITH = "params.yaml"  # beside the artefacts: the parameters that they were made with
MEASUREMENTS = "measured"  # in it: the hash of each artefact
# What decides which measurements are made, and how. A filter may change: it only chooses among what was measured.
DECIDING = ("seed", "sandbox", "operators", "synthesis", "observation", "rollouts", "judging")


class PinError(UserError, ValueError):
    """The artefacts cannot be kept. The message says which, and what to do."""


def paths(policies: list[str]) -> list[str]:
    """The measured artefacts of a run, relative to its folder."""
    return [*MEASURED, *(f"{policy}/{name}" for policy in policies for name in MEASURED_OF_POLICY)]


def deciding(checked: params.Params) -> dict[str, Any]:
    """The parameters that the measurements of a run follow from."""
    value = checked.model_dump(mode="json")
    policies = {name: value["policies"][name] for name in value["rollouts"]["policies"]}
    return {**{name: value[name] for name in DECIDING}, "policies": policies}


def made_with(folder: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a run keeps beside what it measured: the deciding parameters, and which files followed from them.

    Args:
        folder: ``data/{run}``, with the measured artefacts in it.
        parameters: what :func:`deciding` returned.
    """
    names = paths(parameters["rollouts"]["policies"])
    return {**parameters, MEASUREMENTS: {name: records.file_hash(folder / name) for name in names}}


def _lacking(kept: Mapping[str, Any]) -> str:
    """What parameters that were kept lack to be of use; empty if nothing."""
    absent = sorted({*DECIDING, "policies", MEASUREMENTS} - kept.keys())
    rollouts = kept.get("rollouts")
    if not absent and not (isinstance(rollouts, Mapping) and isinstance(rollouts.get("policies"), list)):
        absent = ["list rollouts.policies"]
    if not absent and not isinstance(kept[MEASUREMENTS], Mapping):
        absent = [f"hashes in {MEASUREMENTS}"]
    return ", ".join(absent)


def _differences(pinned: Any, now: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Leaves that both have and that differ; a key that came later has no say in what was measured before."""
    if isinstance(pinned, Mapping) and isinstance(now, Mapping):
        for name in pinned:
            if name in now:
                yield from _differences(pinned[name], now[name], f"{key}.{name}" if key else name)
    elif pinned != now:
        yield key, pinned, now


def _changed(folder: Path, names: list[str], measured: Mapping[str, str]) -> str:
    """Which artefacts do not hold what they held when the parameters beside them were written; empty if none."""
    return ", ".join(name for name in names if records.file_hash(folder / name) != measured.get(name))


def check(root: Path, checked: params.Params) -> None:
    """See that a run which takes pinned measurements asks for what was measured.

    Raises:
        ParamsError: a measured artefact is missing, damaged or of another run, or was made with other parameters (it
            names both values).
    """
    folder = root / "data" / "pinned" / checked.run
    needed = [*paths(checked.rollouts.policies), MADE_WITH]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise params.ParamsError(
            f"measurements: got 'pinned'; data/pinned/{checked.run} has no {', '.join(missing)}: "
            "pass --config measurements=fresh to measure here"
        )
    pinned = params.read_yaml(folder / MADE_WITH)
    if lacking := _lacking(pinned):
        raise params.ParamsError(f"{folder / MADE_WITH}: has no {lacking}; bring it back, as with `git checkout`")
    if changed := _changed(folder, needed[:-1], pinned[MEASUREMENTS]):
        raise params.ParamsError(
            f"data/pinned/{checked.run}: {changed}: damaged, or not of the run that {MADE_WITH} was written for; take "
            "all from one run, or bring them back, as with `git checkout`"
        )
    lines = [
        f"{key}: got {now!r}; data/pinned/{checked.run} was measured with {before!r}"
        for key, before, now in _differences(pinned, deciding(checked))
    ]
    if lines:
        raise params.ParamsError(
            "wrong parameters:\n  "
            + "\n  ".join(lines)
            + "\npinned measurements cannot show what this changes: pass --config measurements=fresh to measure here"
        )


def pin(root: Path, run: str) -> list[Path]:
    """Copy a run's measured artefacts to ``data/pinned/{run}/`` and say there what hardware they came from.

    Raises:
        PinError: an artefact is missing, the run is unfinished, or holds but a part of what is pinned already; nothing
            has been copied then.
        RecordError: one is damaged; likewise.
    """
    source, target = root / "data" / run, root / "data" / "pinned" / run
    params.run_file(root, run)
    kept = params.read_yaml(source / MADE_WITH) if (source / MADE_WITH).exists() else {}
    lacking = _lacking(kept)
    if (source / MADE_WITH).exists() and lacking:
        raise PinError(f"{source / MADE_WITH}: has no {lacking}; delete it and finish the run")
    names = list(MEASURED) if lacking else paths(kept["rollouts"]["policies"])
    if missing := [name for name in (MADE_WITH, *names) if not (source / name).is_file()]:
        raise PinError(
            f"{source}: {', '.join(missing)} missing; make them with `snakemake --cores all --config run={run}`"
        )
    text = _describe(run, source, names)  # reads them all: a damaged one stops here, before anything is overwritten
    if changed := _changed(source, names, kept[MEASUREMENTS]):
        raise PinError(
            f"{source}: {changed}: changed since {MADE_WITH} was written, which says what they were made with: "
            f"finish the run with `snakemake --cores all --config run={run}`"
        )
    _see_that_nothing_is_lost(source, target, names)
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    head = f"# What the measurements of the run {run} were made with. Written by `cuda-agent pin`.\n"
    (target / MADE_WITH).write_text(head + yaml.safe_dump(kept, sort_keys=True), encoding="utf-8")
    (target / "README.md").write_text(text, encoding="utf-8")
    return [target / name for name in names]


def _see_that_nothing_is_lost(source: Path, target: Path, names: list[str]) -> None:
    for name in names:
        if (target / name).is_file():
            there, coming = (
                [records.dumps(row) for row in records.read_artefact(folder / name)] for folder in (target, source)
            )
            if len(coming) < len(there) and set(coming) <= set(there):
                raise PinError(
                    f"{source / name}: holds {len(coming)} of the {len(there)} rows that are pinned already and no "
                    "other, as in a run that takes pinned measurements and leaves out what a filter left out. "
                    f"Delete {target} first to keep these alone"
                )


def _describe(run: str, folder: Path, names: list[str]) -> str:
    lines = [
        f"# Measured artefacts of the run `{run}`",
        "",
        "Written by `cuda-agent pin`. No rule makes these files. A – stands where a file does not say it.",
        "",
    ]
    lines += ["| file | rows | device | versions | isolation | code |", "|---|---|---|---|---|---|"]
    for name in names:
        rows = records.read_artefact(folder / name)
        cells = [f"`{name}`", str(len(rows))]
        for column in ("device_name", "versions", "isolation", "code_hash"):
            values = sorted({row[column] for row in rows if row.get(column)})
            if column == "versions":
                values = [", ".join(f"{k} {v}" for k, v in json.loads(value).items()) for value in values]
            cells.append("; ".join(values) or "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent pin``."""
    parser.add_argument("run", help="which run's artefacts to keep: a file in workflow/runs/")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")


def run(args: argparse.Namespace) -> int:
    """Pin, and list what was pinned."""
    for path in pin(args.root, args.run):
        print(path)
    print(f"DVC watches these files: tell it with `make record RUN={args.run}`, or `dvc repro` makes the run again")
    return 0

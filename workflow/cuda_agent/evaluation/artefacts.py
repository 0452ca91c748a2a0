"""Read the artefacts of a run as rows, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cuda_agent import records
from cuda_agent.errors import existing
from cuda_agent.params import read_yaml
from cuda_agent.pinning import MADE_WITH
from cuda_agent.records import Row

Rows = Mapping[str, list[Row]]

OF_A_POLICY = ("submissions", "judgements", "trajectories")


def read(paths: Mapping[str, Path | str | Iterable[Path | str]]) -> dict[str, list[Row]]:
    """Rows of artefacts by name; an artefact that was cut by policy is given as several paths.

    Args:
        paths: ``{"tasks": "data/laptop/tasks.parquet", "submissions": [...], ...}`` with the names of the artefacts in
            ``docs/architecture.md``.

    Returns:
        ``{name: rows}`` for all artefacts; those that were not given have no rows.

    Raises:
        ValueError: a name is none of an artefact.
        RecordError: a file has other columns than its schema.
    """
    known = {*records.ARTEFACTS, "trajectories"}
    if unknown := sorted(set(paths) - known):
        raise ValueError(f"paths: {unknown[0]!r} is no artefact; known: {sorted(known)}")
    out: dict[str, list[Row]] = {name: [] for name in sorted(known)}
    for name, given in paths.items():
        for path in [given] if isinstance(given, str | Path) else given:
            out[name].extend(records.read_artefact(path, name))
    return out


def repository(root: Path | str) -> Path:
    """The repository: ``root`` if it is one, else the nearest folder above the current one that is.

    So an executed notebook, whose ``root`` is right for the folder that it was executed in, runs again where it lies.

    Raises:
        FileNotFoundError: there is none; says what to do.
    """
    here = Path.cwd()
    for folder in (Path(root), here, *here.parents):
        if (folder / "params.yaml").is_file():
            return folder
    raise FileNotFoundError(
        f"neither {str(root)!r} nor {here} nor a folder above it holds params.yaml: "
        "set `root` to the folder of the repository, or start from inside it"
    )


def find(root: Path | str, run: str) -> dict[str, list[Path]]:
    """Paths of a run's artefacts: under ``data/{run}``, else ``data/pinned/{run}``; verdicts under ``results/{run}``.

    Raises:
        MissingError: the run has no tasks yet; says how to make them.
    """
    root = Path(root)
    homes = [root / "data" / run, root / "data" / "pinned" / run]
    folders = {home: _policy_folders(home) for home in homes}
    found: dict[str, list[Path]] = {}
    for name in (*records.ARTEFACTS, "trajectories"):
        if name == "verdicts":
            paths = [root / "results" / run / "verdicts.parquet"]
        else:
            file = f"{name}.jsonl.zst" if name == "trajectories" else f"{name}.parquet"
            of_home = [[f / file for f in (folders[home] if name in OF_A_POLICY else [home])] for home in homes]
            paths = next((p for p in of_home if any(map(Path.exists, p))), [])
        if paths := [p for p in paths if p.exists()]:
            found[name] = paths
    if "tasks" not in found:
        existing(homes[0] / "tasks.parquet", run, root)
    return found


def _policy_folders(home: Path) -> list[Path]:
    """Folders of the policies that a run was made with, where it says so: those of others may be left from before."""
    made_with = home / MADE_WITH
    if not made_with.is_file():
        return sorted(home.glob("*/"))
    return [home / name for name in sorted(read_yaml(made_with)["rollouts"]["policies"])]


def load_run(root: Path | str, run: str) -> dict[str, list[Row]]:
    """All artefacts of a run that are there, as rows by name; for notebooks and interactive use."""
    return read(find(root, run))

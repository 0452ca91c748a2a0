"""What the jobs of this folder wrote: a record of each output's content, so that one put in its place is noticed.

Snakemake keeps which parameters an output was made with, not what it held: where DVC, git or a hand brings another
file, it shows the one's numbers as the other's. The records lie beside Snakemake's own and live as long.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cuda_agent import records

FOLDER = Path(".snakemake/made")


def _record(path: Path, root: Path) -> Path:
    return root / FOLDER / f"{path}.json"


def _put(path: Path, root: Path, times: int, *, by_job: bool) -> None:
    place = _record(path, root)
    place.parent.mkdir(parents=True, exist_ok=True)
    records.write_json(place, {"sha256": records.file_hash(root / path), "replaced": times, "by_job": by_job})


def record(paths: Iterable[Path | str], root: Path = Path()) -> None:
    """Note what outputs hold; called by the job that wrote them, at its end.

    Args:
        paths: outputs, relative to ``root``.
        root: the repository.
    """
    for path in map(Path, paths):
        _put(path, root, replaced(path, root), by_job=True)


def replaced(path: Path | str, root: Path = Path()) -> int:
    """How often another file was found in an output's place; 0 where no job here has written it."""
    return _read(_record(Path(path), root))["replaced"]


def _read(place: Path) -> dict[str, Any]:
    """A record; one that is not there or damaged belongs to no file."""
    try:
        seen = json.loads(place.read_text(encoding="utf-8"))
        return {"sha256": seen["sha256"], "replaced": int(seen["replaced"]), "by_job": bool(seen["by_job"])}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {"sha256": "", "replaced": 0, "by_job": False}


def notice(folders: Iterable[Path | str], root: Path = Path()) -> list[Path]:
    """Outputs that do not hold what their job wrote; each is counted once (:func:`replaced`), until another is found.

    Args:
        folders: where the outputs lie, relative to ``root``. One that is absent is no concern: its job makes it.
        root: the repository.

    Returns:
        Their paths, relative to ``root``, sorted.
    """
    found = []
    for path, seen in _known(folders, root):
        if (root / path).is_file() and records.file_hash(root / path) != seen["sha256"]:
            _put(path, root, seen["replaced"] + 1, by_job=False)
            found.append(path)
    return found


def foreign(folders: Iterable[Path | str], root: Path = Path()) -> list[Path]:
    """Outputs in whose place another file was noticed and that no job has made again since, as after ``--touch``."""
    return [path for path, seen in _known(folders, root) if (root / path).is_file() and not seen["by_job"]]


def _known(folders: Iterable[Path | str], root: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Outputs on record below some folders, sorted, with their records."""
    places = sorted(place for folder in folders for place in (root / FOLDER / folder).rglob("*.json"))
    return [(place.relative_to(root / FOLDER).with_suffix(""), _read(place)) for place in places]


@functools.cache
def source_hash(path: str) -> str:
    """Hash of a file that no job makes, for the parameters of a rule that reads it; empty if it is not there."""
    return records.file_hash(Path(path)) if Path(path).is_file() else ""


def unknown(run: str, artefacts: Iterable[str | Iterable[str]], root: Path = Path()) -> str:
    """A warning that names a run's artefacts that are there though no job of this folder wrote them; else empty.

    Args:
        run: the run's name.
        artefacts: their paths, relative to ``root``; several where an artefact was cut.
    """
    paths = [p for given in artefacts for p in ([given] if isinstance(given, str) else given)]
    found = [p for p in paths if (root / p).is_file() and not _record(Path(p), root).is_file()]
    if not found:
        return ""
    return (
        f"{', '.join(found)}: not made in this folder, so Snakemake cannot tell which parameters they "
        f"follow from. `make pull` fetches a run and checks it against dvc.lock; without data/{run} it is made here"
    )

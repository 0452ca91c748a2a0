"""Finished items of an unfinished job, so that a killed job goes on where it stopped.

Snakemake deletes the outputs of a job that did not end; the journal is no output. It holds one file for each finished
item, named by a hash of everything that its result depends on, and is emptied once the job's output is written.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cuda_agent import records


class Journal:
    """Results by key, each in a file of its own, written atomically; a torn or foreign file counts as absent."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def key(*parts: Any) -> str:
        """Name of an item: a hash of all that its result depends on (its text, parameters, code, device)."""
        return hashlib.sha256(records.dumps(parts).encode()).hexdigest()[:32]

    def get(self, key: str) -> Any | None:
        """The result, or None if the item is not finished."""
        try:
            return json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Keep a result."""
        records.write_json(self.folder / f"{key}.json", value)

    def clear(self) -> None:
        """Remove all results: an artefact holds them now."""
        for path in self.folder.glob("*.json"):
            path.unlink(missing_ok=True)

"""What must be so before any job: inputs that no rule makes are there, and nothing is in an output's place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cuda_agent.errors import UserError


class SourceError(UserError, FileNotFoundError):
    """A file that a rule reads, and no rule makes, is not there."""


class PlaceError(UserError, OSError):
    """What is in an output's place keeps it from being written."""


def check_places(outputs: Mapping[str, Iterable[str]]) -> None:
    """See that every output can be written where it belongs: Snakemake takes a folder there for the finished output.

    Args:
        outputs: patterns of what each rule writes, by the rule's name; a ``{wildcard}`` in a file's name stands for
            any text, and none is in a folder's name.

    Raises:
        PlaceError: a folder is in a file's place, or a file in that of a folder; names it and the rule.
    """
    for rule, patterns in outputs.items():
        for pattern in patterns:
            place = Path(re.sub(r"\{[^}]*\}", "*", pattern))
            for found in sorted(Path().glob(str(place))):
                if found.is_dir():
                    raise PlaceError(f"{found}: is a folder, and the rule {rule} writes a file there; move it away")
            for folder in place.parents:
                if folder.exists() and not folder.is_dir():
                    raise PlaceError(f"{folder}: is a file, and the rule {rule} needs a folder there; move it away")


def check(inputs: Mapping[str, Iterable[Any]], made: tuple[str, ...]) -> None:
    """See that every input which no rule makes is a file.

    Snakemake takes the outputs of a rule whose inputs are not there for given, and keeps them, whatever has changed.

    Args:
        inputs: paths of what each rule reads, by the rule's name; patterns and functions are passed over.
        made: beginnings of the paths that rules make, or that are checked elsewhere.

    Raises:
        SourceError: one is no file; names it and the rule.
    """
    for rule, paths in inputs.items():
        for path in paths:
            if callable(path) or "{" in path or path.startswith(made) or Path(path).is_file():
                continue
            raise SourceError(
                f"{path}: the rule {rule} reads it, and it is no file in {Path.cwd()}; "
                "bring it back, or correct the parameter that names it"
            )

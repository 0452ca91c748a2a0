"""Inputs of the workflow that no rule makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cuda_agent.errors import UserError


class SourceError(UserError, FileNotFoundError):
    """A file that a rule reads, and no rule makes, is not there."""


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

"""Errors that speak to the user: what was wrong, where, and what to do. They are shown without a traceback."""

from __future__ import annotations

from pathlib import Path


class UserError(Exception):
    """Base of every error whose message is all that a user needs, without a traceback."""


class MissingError(UserError, FileNotFoundError):
    """A file that a run makes is not there yet."""


def existing(path: Path, run: str, root: Path = Path()) -> Path:
    """The path of an artefact of a run, if it is there; ``root`` is the repository.

    Raises:
        MissingError: it is not; names the command that makes it, or the runs that there are.
    """
    if path.exists():
        return path
    known = sorted(p.stem for p in (root / "workflow" / "runs").glob("*.yaml"))
    if known and run not in known:
        raise MissingError(f"{path}: not there; {run!r} is none of the runs in workflow/runs/: {', '.join(known)}")
    made = f"make it with `snakemake --cores all --config run={run}` in the repository's folder"
    beside = sorted(p.parent.name for p in path.parent.parent.glob(f"*/{path.name}"))
    others = f" (there are those of {', '.join(beside)})" if beside else ""
    raise MissingError(f"{path}: not there; {made}{others}")

"""Fingerprints of KernelBench, from a checkout of its repository; nothing of it is executed or kept but hashes.

https://github.com/ScalingIntelligence/KernelBench
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from cuda_agent import records
from cuda_agent.errors import MissingError, UserError
from cuda_agent.records import Row
from cuda_agent.tasks import fingerprint as prints

_COLUMNS = tuple(n for n in records.FINGERPRINTS.names if n not in ("name", "scheme"))


def fingerprint_kernelbench(checkout: Path | str, revision: str) -> list[Row]:
    """Rows of ``records.FINGERPRINTS``, one for each problem of every level.

    Args:
        checkout: folder of the repository.
        revision: how the rows call it, e.g. ``v0.1``.

    Raises:
        MissingError: there are no problems in the folder.
        RecordError: a problem is not Python, or its name is no text.
    """
    paths = sorted(Path(checkout).glob("KernelBench/level*/*.py"))
    if not paths:
        raise MissingError(f"{checkout}: no KernelBench/level*/*.py; is this a checkout of KernelBench?")
    rows = []
    for path in paths:
        try:
            made = prints.fingerprint(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError) as error:
            raise records.RecordError(f"{path}: is no Python: {error}") from None
        if not path.name.isprintable():  # what stands for bytes that are no text, too
            raise records.RecordError(f"{path}: the name is no text, and rows are named by it: rename the file")
        name = f"{revision}/{path.parent.name}/{path.stem}"
        rows.append({"name": name, "scheme": prints.scheme(), **{c: made[c] for c in _COLUMNS}})
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent fingerprint-kernelbench``."""
    parser.add_argument("checkout", type=Path, help="folder of a checkout of KernelBench")
    parser.add_argument("--revision", required=True, help="name of the revision, e.g. v0.1; its old rows are replaced")
    parser.add_argument("--out", type=Path, required=True, help="parquet file that the rows are added to")


def run(args: argparse.Namespace) -> int:
    """Fingerprint one revision into a file, keeping the rows of other revisions there."""
    if not re.fullmatch(r"[\w.+-]+", args.revision):
        raise UserError(f"--revision: got {args.revision!r}; allowed: letters, digits and . _ + -, as in v0.1")
    rows = fingerprint_kernelbench(args.checkout, args.revision)
    kept: list[Row] = []
    if args.out.exists():
        old = records.read(args.out, records.FINGERPRINTS)
        kept = [r for r in old if r["scheme"] == prints.scheme() and not r["name"].startswith(f"{args.revision}/")]
    records.write(args.out, [*kept, *rows], records.FINGERPRINTS)
    print(f"{args.out}: {len(rows)} problems of {args.revision}, {len(kept)} of other revisions")
    return 0

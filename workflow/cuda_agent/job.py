"""What every workflow script does around its one library call: log, progress, journal, short errors, a record."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from cuda_agent import journal as journals
from cuda_agent import lifeline, made
from cuda_agent.errors import UserError
from cuda_agent.progress import Progress


class _Both:
    """A stream that writes to the terminal and to the log."""

    def __init__(self, log: TextIO) -> None:
        self._log = log

    def isatty(self) -> bool:
        return sys.stderr.isatty()

    def write(self, text: str) -> None:
        sys.stderr.write(text)
        self._log.write(text.replace("\r\x1b[2K", "").rstrip("\n") + "\n")

    def flush(self) -> None:
        sys.stderr.flush()
        self._log.flush()


class Job:
    """One running job of the workflow. Made by `running`."""

    def __init__(self, snakemake: Any, log: TextIO) -> None:
        self._snakemake, self._log = snakemake, log

    def progress(self, what: str, total: int | None = None) -> Progress:
        """Progress on the terminal and in the log."""
        return Progress(what, total, stream=_Both(self._log))  # type: ignore[arg-type]

    def warn(self, text: str) -> None:
        """A line on the terminal and in the log, unless it is empty."""
        if text:
            stream = _Both(self._log)
            stream.write(f"{self._snakemake.rule}: {text}\n")
            stream.flush()

    @contextlib.contextmanager
    def journal(self) -> Iterator[journals.Journal]:
        """The job's journal of finished items; emptied when the block ends well, its output written."""
        kept = journals.Journal(self._snakemake.params.journal)
        yield kept
        kept.clear()

    def shard(self, rows: list[Any]) -> list[Any]:
        """The part of the rows that belongs to this shard: every n-th one."""
        wildcards = self._snakemake.wildcards
        return rows[int(wildcards.shard) :: int(wildcards.shards)]


@contextlib.contextmanager
def running(snakemake: Any) -> Iterator[Job]:
    """Run the body of a script: warnings and errors go to the rule's log; an error ends the job.

    So does the end of the Snakemake that started it. What the script wrote, but for shards, is put on record.
    """
    path = Path(str(snakemake.log[0]))
    path.parent.mkdir(parents=True, exist_ok=True)
    lifeline.follow()
    with path.open("w", encoding="utf-8") as log:
        logging.basicConfig(stream=log, level=logging.INFO, force=True)
        logging.captureWarnings(True)
        warnings.simplefilter("default")
        try:
            yield Job(snakemake, log)
            made.record(path for path in map(str, snakemake.output) if not path.startswith("work/"))
        except KeyboardInterrupt:
            sys.stderr.write(f"{snakemake.rule}: interrupted\n")
            raise SystemExit(130) from None
        except Exception as error:
            text = str(error) if isinstance(error, UserError) else traceback.format_exc()
            log.write(f"{text.rstrip()}\n")
            log.flush()
            sys.stderr.write(f"{snakemake.rule}: {text.rstrip()}\n")
            raise SystemExit(1) from None
        finally:
            logging.captureWarnings(False)
            logging.basicConfig(
                handlers=[logging.NullHandler()], force=True
            )  # libraries still log as they are torn down

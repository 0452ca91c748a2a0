"""Folders that untrusted code writes to, and their end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def remove(folder: Path | str) -> None:
    """Remove a folder and all that is in it, as far as that can be done; what is not there is no error.

    Others filled it: folders in it may be nested deeper than Python can walk, or closed to their owner. ``rm`` and
    ``chmod`` of the system walk without recursion and follow no link.
    """
    if _silently("rm", "-rf", "--one-file-system", "--", str(folder)):
        _silently("chmod", "-R", "u+rwX", "--", str(folder))
        _silently("rm", "-rf", "--one-file-system", "--", str(folder))


def _silently(*argv: str) -> int:
    path = os.pathsep.join([os.environ.get("PATH", ""), os.defpath])
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(argv, check=False, stdout=quiet, stderr=quiet, env={"PATH": path}).returncode
    except OSError:  # no process to be had: the folder stays, and what ends here goes on ending
        return 1


@contextlib.contextmanager
def private_folder(prefix: str) -> Iterator[str]:
    """A folder of one's own for as long as the block lasts."""
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        remove(folder)

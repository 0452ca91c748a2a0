"""Lay a workspace out, and read what was submitted in it."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from cuda_agent.provenance import TEMPLATE

Backend = Literal["cpp", "cuda"]

SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".c", ".hpp", ".hh", ".h", ".inc", ".inl")
MAX_FILE_BYTES = 2**20
MAX_FILES = 64
MAX_DEPTH = 8  # of folders in kernels/

_EXAMPLES = {"cpp": "*.cu", "cuda": "axpby.cpp"}  # what the other backend's example consists of
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # flags that open a folder alone, and wait for no pipe
# What a name may be to blame for: too long, or a folder's and a file's at once. All else is the machine's fault.
_NO_FILE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)


class SubmissionError(ValueError):
    """What should be a submission holds something that it may not."""


def create(folder: Path | str, code: str, backend: Backend) -> None:
    """Lay out the template with one task in it; its worked example is left in ``model_new.py`` and ``kernels/``.

    Args:
        folder: where; made if it is not there, and must be empty.
        code: the task's module, which becomes ``model.py``.
        backend: ``cpp`` or ``cuda``: what ``utils/compile.sh`` compiles.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: a workspace needs a folder of its own")
    ignore = shutil.ignore_patterns("build", "__pycache__", ".*", _EXAMPLES[backend])
    try:
        shutil.copytree(TEMPLATE, folder, ignore=ignore, dirs_exist_ok=True)
    except shutil.Error as error:  # of all files at once: the first says it
        raise OSError(errno.EIO, f"cannot be laid out: {error.args[0][0][2]}", str(folder)) from None
    (folder / "model.py").write_text(code, encoding="utf-8")
    (folder / "BACKEND").write_text(backend + "\n", encoding="utf-8")


def restore(folder: Path | str, code: str, backend: Backend, files: Mapping[str, str]) -> None:
    """Lay out a fresh workspace with a submission in it: the fixed files are the template's, whatever was submitted.

    Raises:
        SubmissionError: a path is none that `snapshot` takes, or paths or texts cannot be files beside each other.
    """
    folder = Path(folder)
    create(folder, code, backend)
    (folder / "model_new.py").unlink()
    shutil.rmtree(folder / "kernels")
    (folder / "kernels").mkdir()
    for name, text in files.items():
        if not is_submitted(name):
            raise SubmissionError(f"{name!r} is not part of a submission: model_new.py and sources in kernels/ are")
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except UnicodeEncodeError as error:
            raise SubmissionError(f"{name}: is no text in UTF-8: {error}") from None
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise SubmissionError(f"{name!r} cannot be a file beside the others: {error.strerror}") from None


def is_submitted(name: str) -> bool:
    """Whether a path in a workspace is part of a submission: ``model_new.py``, or a source in ``kernels/``."""
    path = PurePosixPath(name)
    if name == "model_new.py":
        return True
    # What is not printable: surrogates too, which stand for bytes that are no text.
    plain = not path.is_absolute() and ".." not in path.parts and str(path) == name and name.isprintable()
    return plain and len(path.parts) >= 2 and path.parts[0] == "kernels" and path.suffix in SUFFIXES


def snapshot(folder: Path | str) -> dict[str, str]:
    """What a submission holds: ``model_new.py`` and the sources in ``kernels/``, path to text, sorted.

    Links, folders, pipes, devices and files of other kinds are left out, as are files over 1 MiB: the folder was
    written by others, and whatever lies at a name in it is their doing.
    """
    folder = Path(folder)
    found = {}

    def keep(name: str, fd: int) -> None:
        if is_submitted(name) and len(found) < MAX_FILES and (text := _read(name, fd)) is not None:
            found[name] = text

    inside = os.open(folder, _FOLDER)
    try:
        keep("model_new.py", inside)
        with contextlib.suppress(OSError):  # there is no folder kernels/, or it cannot be opened
            kernels = os.open("kernels", _FOLDER | os.O_NOFOLLOW, dir_fd=inside)
            try:
                for path, folders, files, fd in os.fwalk(".", dir_fd=kernels):
                    folders[:] = sorted(folders) if path.count("/") + 1 < MAX_DEPTH else []
                    for name in sorted(files):
                        keep(str(PurePosixPath("kernels", path, name)), fd)
            finally:
                os.close(kernels)
    finally:
        os.close(inside)
    return dict(sorted(found.items()))


def _read(name: str, fd: int) -> str | None:
    """Text of a file, by the last part of its name in the folder behind a descriptor."""
    try:
        fd = os.open(PurePosixPath(name).name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return None
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MAX_FILE_BYTES:
            return None
        with open(fd, "rb", closefd=False) as file:  # which takes no folder, whence only now
            return file.read(MAX_FILE_BYTES).decode(errors="replace")
    finally:
        os.close(fd)


@functools.cache
def template_hash() -> str:
    """Hash of the template's files, which belong to the code that a judgement came from."""
    digest = hashlib.sha256()
    for path in sorted(TEMPLATE.rglob("*")):
        inside = path.relative_to(TEMPLATE)
        if path.is_file() and not {"build", "__pycache__"} & set(inside.parts):
            digest.update(f"{inside}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]

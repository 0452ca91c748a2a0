"""The first error in what compilers and linkers said, cut to what a reader needs."""

from __future__ import annotations

import re

_LINES = 4  # of one error: where and what, the source line, the mark under it, what is missing
_WIDTH = 240
_SOURCE = r"(?P<file>(?:\./)?(?:kernels/|binding)[^\s:()]+)"
# https://gcc.gnu.org/onlinedocs/gcc/Diagnostic-Message-Formatting-Options.html; nvcc: file(line): error
_COMPILER = re.compile(r"^[^\s:()][^:()]*(?::\d+(?::\d+)?:|\(\d+\):) *(?:fatal |catastrophic )?error\b")
_LINKER = re.compile(r"undefined reference to|multiple definition of|^\S*ld(?:\.\w+)?: .*(?:error|cannot find)")
_HERE = re.compile(rf"{_SOURCE}(?::\d+|\(\d+\))")


def first_error(log: str) -> str:
    """The first error of a build: file in the workspace, line and message; then its source line, marked.

    Args:
        log: output of ninja, compilers and linker, or a message of ``utils/compile.py``.

    Returns:
        At most 4 lines of 240 characters; an error inside a header of others is preceded by the line of the workspace
        that leads there. The first line that is not ninja's, if there is nothing that looks like an error.
    """
    lines = log.splitlines()
    for pattern in (_COMPILER, _LINKER):
        for i, line in enumerate(lines):
            if pattern.search(line):
                found = [line, *_belonging(lines[i + 1 :])]
                if pattern is _COMPILER and not _HERE.match(line) and (here := _leading(lines[:i])):
                    found[0] = f"{here}: in a header: {line}"
                return _cut(found)
    said = [line for line in lines if line.strip() and not line.startswith("ninja: ")]
    return _cut(said[:1])


def _belonging(lines: list[str]) -> list[str]:
    """The indented lines that show the source of the error before them."""
    found: list[str] = []
    for line in lines[: _LINES - 1]:
        if not line.startswith((" ", "\t")):
            break
        found.append(line)
    return found


def _leading(lines: list[str]) -> str:
    """The nearest place in the workspace that is named before: who included it, or who required it."""
    return next((m.group() for line in reversed(lines) if (m := _HERE.search(line))), "")


def _cut(lines: list[str]) -> str:
    return "\n".join(line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines[:_LINES])

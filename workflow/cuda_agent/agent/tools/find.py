"""Glob and Grep: runs inside the sandbox, with the standard library only."""

from __future__ import annotations

import fnmatch
import glob as globbing
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .text import ToolError, cut

_MAX_FILES = 100
_MAX_BYTES = 8 * 2**20


def glob(folder: str, arguments: dict[str, Any]) -> str:
    """Carry out a Glob call. Sorted by path and not by time, so that a replay sees the same."""
    base = Path(folder) / (arguments["path"] or "")
    if not base.is_dir():
        raise ToolError(f"{base} is not a folder")
    pattern = str(base / arguments["pattern"])
    # Unlike that of Path, this one passes hidden files over and takes absolute patterns.
    found = sorted(p for p in globbing.iglob(pattern, recursive=True) if Path(p).is_file())  # noqa: PTH207
    more = [f"({len(found) - _MAX_FILES} more left out)"] if len(found) > _MAX_FILES else []
    return "\n".join(found[:_MAX_FILES] + more) or "No file matches."


def _files(base: Path, pattern: str | None) -> Iterator[Path]:
    if base.is_file():
        yield base
        return
    for root, folders, names in os.walk(base):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            path = Path(root) / name
            relative = str(path.relative_to(base))
            if pattern and not (fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(relative, pattern)):
                continue
            if path.is_file():  # no pipes, no devices
                yield path


def _text(path: Path) -> str | None:
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    return None if b"\0" in data else data.decode(errors="replace")


def _matching_lines(text: str, pattern: re.Pattern[str], multiline: bool) -> list[int]:
    lines = text.split("\n")
    if not multiline:
        return [i for i, line in enumerate(lines) if pattern.search(line)]
    found: set[int] = set()
    for match in pattern.finditer(text):
        first = text.count("\n", 0, match.start())
        found.update(range(first, first + match.group().count("\n") + 1))
    return sorted(found)


def _content(path: Path, text: str, matched: list[int], arguments: dict[str, Any]) -> list[str]:
    around = arguments["context"] or 0
    before = arguments["before"] if arguments["before"] is not None else around
    after = arguments["after"] if arguments["after"] is not None else around
    lines, hits, out = text.split("\n"), set(matched), []
    shown = sorted({j for i in matched for j in range(max(i - before, 0), min(i + after + 1, len(lines)))})
    for previous, i in zip([None, *shown], shown, strict=False):
        if previous is not None and i > previous + 1 and (before or after):
            out.append("--")
        mark = ":" if i in hits else "-"
        number = f"{i + 1}{mark}" if arguments["numbers"] else ""
        out.append(f"{path}{mark}{number}{lines[i][:2000]}")
    return out


def grep(folder: str, arguments: dict[str, Any]) -> str:
    """Carry out a Grep call."""
    base = Path(folder) / (arguments["path"] or "")
    if not base.exists():
        raise ToolError(f"{base} does not exist")
    flags = re.IGNORECASE if arguments["ignore_case"] else 0
    flags |= (re.MULTILINE | re.DOTALL) if arguments["multiline"] else 0
    try:
        pattern = re.compile(arguments["pattern"], flags)
    except re.error as error:
        raise ToolError(f"pattern is not a regular expression: {error}") from None
    out: list[str] = []
    for path in _files(base, arguments["glob"]):
        text = _text(path)
        matched = _matching_lines(text, pattern, arguments["multiline"]) if text is not None else []
        if not matched:
            continue
        match arguments["output_mode"]:
            case "content":
                out += _content(path, text or "", matched, arguments)
            case "count":
                out.append(f"{path}:{len(matched)}")
            case _:
                out.append(str(path))
    return cut("\n".join(out[: arguments["head_limit"]])) or "Nothing matches."

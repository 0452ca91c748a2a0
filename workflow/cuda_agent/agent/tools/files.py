"""Read, Write, Edit and MultiEdit: runs inside the sandbox, with the standard library only."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from .text import MAX_CHARS, ToolError

_LINES = 2000
_LINE_CHARS = 2000
_MAX_BYTES = 8 * 2**20
_AROUND = 4


def _numbered(lines: list[str], first: int) -> str:
    shown = (line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + " [... line cut]" for line in lines)
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(shown, first))


class Files:
    """The files of one rollout, and which of them the model has seen.

    Args:
        folder: the workspace folder; relative paths start there.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._seen: dict[Path, str] = {}

    def path(self, text: str) -> Path:
        """A path that the model named."""
        if "\0" in text:
            raise ToolError("a path has no NUL character")
        return self.folder / text

    def _text(self, path: Path) -> str:
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                raise ToolError(f"{path} is a folder; list it with Bash (ls) or Glob")
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{path} is not a regular file")
            if status.st_size > _MAX_BYTES:
                raise ToolError(f"{path} has {status.st_size} bytes; at most {_MAX_BYTES} can be read")
            data = path.read_bytes()
        except OSError as error:
            raise ToolError(f"cannot read {path}: {error.strerror}") from None
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path} is not a text file ({len(data)} bytes, not UTF-8)") from None

    def _current(self, path: Path) -> str:
        """Text of a file that is about to be changed."""
        if path.resolve() not in self._seen:
            raise ToolError(f"{path} has not been read yet: read it before changing it")
        text = self._text(path)
        if text != self._seen[path.resolve()]:
            raise ToolError(f"{path} has changed since it was read: read it again before changing it")
        return text

    def _save(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():
                raise ToolError(f"{path} is not a regular file")
            path.write_bytes(text.encode())
        except (OSError, UnicodeEncodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ToolError(f"cannot write {path}: {reason}") from None
        self._seen[path.resolve()] = text

    def read(self, arguments: dict[str, Any]) -> str:
        """Carry out a Read call."""
        path = self.path(arguments["file_path"])
        text = self._text(path)
        self._seen[path.resolve()] = text
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not lines:
            return f"({path} is empty)"
        first = arguments["offset"] or 1
        if first > len(lines):
            raise ToolError(f"{path} has {len(lines)} lines; offset {first} is beyond its end")
        chosen = lines[first - 1 : first - 1 + (arguments["limit"] or _LINES)]
        shown: list[str] = []
        size = 0
        for line in chosen:
            size += min(len(line), _LINE_CHARS) + 8
            if shown and size > MAX_CHARS:
                break
            shown.append(line)
        left = len(lines) - (first - 1) - len(shown)
        more = f"\n({left} more lines; go on with offset {first + len(shown)})" if left else ""
        return _numbered(shown, first) + more

    def write(self, arguments: dict[str, Any]) -> str:
        """Carry out a Write call."""
        path = self.path(arguments["file_path"])
        there = path.exists()
        if there:
            if path.is_dir():
                raise ToolError(f"{path} is a folder")
            self._current(path)
        self._save(path, arguments["content"])
        lines = len(arguments["content"].splitlines())
        return f"{'Replaced' if there else 'Created'} {path} ({lines} lines)."

    def edit(self, path_text: str, edits: list[dict[str, Any]]) -> str:
        """Carry out an Edit or MultiEdit call: all of the edits or none."""
        path = self.path(path_text)
        starts = not path.exists() and edits[0]["old_string"] == ""
        text = "" if starts else self._current(path)
        at = 0
        for number, edit in enumerate(edits, 1):
            which = f"edit {number}: " if len(edits) > 1 else ""
            old, new = edit["old_string"], edit["new_string"]
            if old == new:
                raise ToolError(f"{which}old_string and new_string are the same")
            if old == "":
                if text:
                    raise ToolError(f"{which}old_string is empty, which only starts a new file; {path} has text")
                text = new
                continue
            count = text.count(old)
            if count == 0:
                raise ToolError(f"{which}old_string does not occur in {path}; it must match in every blank")
            if count > 1 and not edit["replace_all"]:
                raise ToolError(
                    f"{which}old_string occurs {count} times in {path}: add lines around it, or set replace_all"
                )
            at = text.index(old)
            text = text.replace(old, new)
        self._save(path, text)
        lines = text.split("\n")
        line = text.count("\n", 0, at)
        first = max(line - _AROUND, 0)
        last = line + edits[-1]["new_string"].count("\n") + _AROUND + 1
        return f"Changed {path}. Around the last change:\n{_numbered(lines[first:last][:200], first + 1)}"

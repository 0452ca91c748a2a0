"""The tool server: runs inside the sandbox, one for each rollout, with the standard library only.

It reads requests as JSON lines ``{"id", "tool", "arguments", "timeout_s"}`` and answers each with one line ``{"id",
"content", "failed"}``. What it says is not trusted: whatever runs in the same sandbox may pretend to be it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from . import relay
from .files import Files
from .find import glob, grep
from .shell import Shells, bash
from .text import ToolError, cut

WORKSPACE = "/tmp/workspace"  # what the model sees: the same on every machine


def _named(folder: str) -> str:
    """A name for the workspace folder that does not depend on the machine, where one can be made."""
    if Path(WORKSPACE).resolve() == Path(folder):
        return WORKSPACE
    try:
        Path(WORKSPACE).symlink_to(folder)
    except OSError:
        return folder
    return WORKSPACE


class Server:
    """All tools over one workspace folder."""

    def __init__(self, folder: str) -> None:
        self.real = folder
        self.folder = _named(folder)
        os.environ["HOME"] = self.folder
        relay.start(folder)
        self.files = Files(self.folder)
        self.shells = Shells(self.folder)
        self.todos: list[dict[str, Any]] = []

    def _call(self, tool: str, arguments: dict[str, Any], timeout_s: float) -> tuple[str, bool]:
        match tool:
            case "Bash":
                return bash(self.shells, arguments, timeout_s)
            case "BashOutput":
                return self.shells.output(arguments["bash_id"], arguments["filter"]), False
            case "KillBash":
                return self.shells.kill(arguments["shell_id"]), False
            case "Read":
                return self.files.read(arguments), False
            case "Write":
                return self.files.write(arguments), False
            case "Edit":
                return self.files.edit(arguments["file_path"], [arguments]), False
            case "MultiEdit":
                return self.files.edit(arguments["file_path"], arguments["edits"]), False
            case "Glob":
                return glob(self.folder, arguments), False
            case "Grep":
                return grep(self.folder, arguments), False
            case "TodoWrite":
                return self._plan(arguments["todos"]), False
        raise ToolError(f"there is no tool {tool!r}")

    def _plan(self, todos: list[dict[str, Any]]) -> str:
        active = sum(t["status"] == "in_progress" for t in todos)
        if active > 1:
            raise ToolError(f"{active} items are in progress; at most one may be")
        self.todos = todos
        done = sum(t["status"] == "completed" for t in todos)
        return f"Noted: {len(todos)} items, {done} completed."

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request; a failure of any kind is an answer too."""
        try:
            _named(self.real)  # a command may have removed it
            text, failed = self._call(request["tool"], request["arguments"], request["timeout_s"])
        except ToolError as error:
            text, failed = f"Error: {error}", True
        except Exception as error:  # e.g. no process left to start a shell with
            text, failed = f"Error: {type(error).__name__}: {error}", True
        return {"id": request["id"], "content": cut(text.replace(self.real, self.folder)), "failed": failed}


def main() -> None:
    """Serve until the input ends. The folder is the current one."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("r+b", buffering=0) as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    server = Server(str(Path.cwd()))
    for line in requests:
        answers.write(json.dumps(server.answer(json.loads(line))).encode() + b"\n")
        answers.flush()
    sys.exit(0)

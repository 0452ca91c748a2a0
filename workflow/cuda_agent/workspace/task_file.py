"""The text of a task from a file that a user names."""

from __future__ import annotations

from pathlib import Path

from cuda_agent.errors import UserError
from cuda_agent.tasks import syntax

_FORM = ("Model", "get_inputs", "get_init_inputs")


class WorkspaceError(UserError, ValueError):
    """There is no such task, or no room for its workspace."""


def task_text(path: Path) -> str:
    """Text of a task's file, if it has the form of one; nothing in it is executed.

    Raises:
        WorkspaceError: it has not; says what is wrong with it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        names = {getattr(node, "name", "") for node in syntax.parse(text).body}
    except UnicodeDecodeError as error:
        raise WorkspaceError(f"{path}: is no text in UTF-8: {error}") from None
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        raise WorkspaceError(f"{path}: is no Python: {error.msg}{where}") from None
    if lacking := [name for name in _FORM if name not in names]:
        raise WorkspaceError(f"{path}: is no task: it defines no {' and no '.join(lacking)}")
    return text

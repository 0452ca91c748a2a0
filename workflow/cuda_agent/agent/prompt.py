"""What an agent is told before its first answer."""

from __future__ import annotations

from pathlib import Path

from cuda_agent.agent.policies.base import Message

_SYSTEM = """\
You are an expert in high-performance kernels. You work alone in a sandboxed Linux machine, through tools only; nobody \
answers questions. Your workspace is {folder}, which is also where your shell starts. There is no network: what is \
installed is what there is.

Work in small steps: read, write, compile, verify, measure, improve. Believe what the tools show, not what you expect. \
When the work is done, answer without calling a tool; what model_new.py and kernels/ then hold is your submission."""

_TASK = """\


---

The task is the module in `model.py`; the backend is `{backend}`. Begin."""


def opening(workspace: Path, shown_folder: str, backend: str) -> list[Message]:
    """The first messages: who the agent is, then the workspace's SKILL.md and the task.

    Args:
        workspace: a freshly made workspace.
        shown_folder: what the agent knows it by.
        backend: ``cpp`` or ``cuda``.
    """
    skill = (workspace / "SKILL.md").read_text(encoding="utf-8").rstrip()
    return [
        {"role": "system", "content": _SYSTEM.format(folder=shown_folder)},
        {"role": "user", "content": skill + _TASK.format(backend=backend)},
    ]

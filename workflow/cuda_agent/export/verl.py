"""Tasks as reinforcement-learning prompts: the columns that verl reads, which TRL's GRPO trainer reads as well.

https://verl.readthedocs.io/en/latest/preparation/prepare_data.html
https://huggingface.co/docs/trl/grpo_trainer (``prompt``; other columns are handed to the reward function)
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from cuda_agent import workspace
from cuda_agent.export.answer import dumps_answer
from cuda_agent.records import INT, TEXT, TEXTS, Row, schema
from cuda_agent.workspace.layout import Backend

_MESSAGE = pa.struct([("role", TEXT), ("content", TEXT)])
_NAMED = {"split": TEXT, "task_id": TEXT, "ops": TEXTS, "data_source": TEXT, "bytes": INT}  # taken from the task
_EXTRA = pa.struct([("index", INT), ("run", TEXT), ("backend", TEXT), *_NAMED.items()])

VERL = schema(
    {
        "data_source": (TEXT, "which reward function: always cuda-agent"),
        "prompt": (pa.list_(_MESSAGE), "messages of the conversation so far"),
        "ability": (TEXT, "always kernels"),
        "reward_model": (pa.struct([("style", TEXT), ("ground_truth", TEXT)]), "rule, and the task's module"),
        "extra_info": (_EXTRA, "place in the export, whose parameters judge it, and what names the task"),
    }
)

_SYSTEM = "You write fast, correct kernels for PyTorch modules."
_SECTIONS = ("What is yours", "Rules")  # of SKILL.md: what holds without tools too
_USER = """\
Replace a PyTorch module by kernels of your own: write a module `ModelNew` that computes what `Model` in `model.py` \
computes, and faster. The backend is `{backend}`.

{skill}

## The form of your answer

You have no tools: one answer holds all files. Give each file whole, in a code block of its own, under a line with \
its path in the workspace and nothing else. `model.py`, the build and `binding_registry.h` are there already. For its \
form, an answer to another task, out = alpha * x + beta * y:

{example}
## The task: `model.py`

```python
{code}
```"""


@functools.cache
def _frame(backend: Backend) -> tuple[str, str]:
    """What the workspace's own template says of every task: sections of ``SKILL.md``, and its example as an answer."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "workspace"
        workspace.create(folder, "", backend)
        skill = (folder / "SKILL.md").read_text(encoding="utf-8")
        example = dumps_answer(workspace.snapshot(folder))
    sections = dict(part.split("\n", 1) for part in skill.split("\n## ")[1:])
    return "\n\n".join(f"## {name}\n\n{sections[name].strip()}" for name in _SECTIONS), example


def prompt(task: Row, backend: Backend) -> list[dict[str, str]]:
    """A prompt for one answer without tools; agents that use tools are prompted by ``cuda_agent.agent`` instead."""
    skill, example = _frame(backend)
    user = _USER.format(backend=backend, skill=skill, example=example, code=task["code"].rstrip())
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": user}]


def to_verl(tasks: Iterable[Row], run: str, backend: Backend) -> list[Row]:
    """Rows of ``VERL``, in the order of the tasks' ids.

    Args:
        tasks: rows of ``records.TASKS``.
        run: whose parameters the reward function judges by.
        backend: what the answers' kernels are written for.
    """
    rows: list[dict[str, Any]] = []
    for index, task in enumerate(sorted(tasks, key=lambda row: row["task_id"])):
        extra = {"index": index, "run": run, "backend": backend} | {k: task[k] for k in _NAMED}
        rows.append(
            {
                "data_source": "cuda-agent",
                "prompt": prompt(task, backend),
                "ability": "kernels",
                "reward_model": {"style": "rule", "ground_truth": task["code"]},
                "extra_info": extra,
            }
        )
    return rows


def from_verl(rows: Iterable[Row]) -> list[Row]:
    """What identifies each task: ``task_id``, ``split``, ``ops``, ``data_source``, ``bytes`` and ``code``."""
    return [{k: row["extra_info"][k] for k in _NAMED} | {"code": row["reward_model"]["ground_truth"]} for row in rows]

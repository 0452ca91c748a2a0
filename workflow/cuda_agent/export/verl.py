"""Tasks as reinforcement-learning prompts: the columns that verl reads, which TRL's GRPO trainer reads as well.

https://verl.readthedocs.io/en/latest/preparation/prepare_data.html
https://huggingface.co/docs/trl/grpo_trainer (``prompt``; other columns are handed to the reward function)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cuda_agent.records import INT, TEXT, TEXTS, Row, schema

_MESSAGE = pa.struct([("role", TEXT), ("content", TEXT)])
_EXTRA = pa.struct([("split", TEXT), ("index", INT), ("task_id", TEXT), ("ops", TEXTS), ("data_source", TEXT)])

VERL = schema(
    {
        "data_source": (TEXT, "which reward function: always cuda-agent"),
        "prompt": (pa.list_(_MESSAGE), "messages of the conversation so far"),
        "ability": (TEXT, "always kernels"),
        "reward_model": (pa.struct([("style", TEXT), ("ground_truth", TEXT)]), "rule, and the task's module"),
        "extra_info": (_EXTRA, "split, place in the export, and what names the task"),
    }
)

_SYSTEM = "You write fast, correct kernels for PyTorch modules."
_USER = """\
Write a module `ModelNew` that computes what `Model` below computes, with kernels of your own, and faster. It takes \
the same constructor arguments, its state_dict has the same keys and shapes, and its forward takes and returns the \
same tensors. Answer with one Python file in one code block.

```python
{code}
```"""


def prompt(task: Row) -> list[dict[str, str]]:
    """A prompt for one answer without tools; agents that use tools are prompted by ``cuda_agent.agent`` instead."""
    user = _USER.format(code=task["code"].rstrip())
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": user}]


def to_verl(tasks: Iterable[Row]) -> list[Row]:
    """Rows of ``VERL``, in the order of the tasks' ids."""
    rows: list[dict[str, Any]] = []
    for index, task in enumerate(sorted(tasks, key=lambda row: row["task_id"])):
        extra = {k: task[k] for k in ("split", "task_id", "ops", "data_source")} | {"index": index}
        rows.append(
            {
                "data_source": "cuda-agent",
                "prompt": prompt(task),
                "ability": "kernels",
                "reward_model": {"style": "rule", "ground_truth": task["code"]},
                "extra_info": extra,
            }
        )
    return rows


def from_verl(rows: Iterable[Row]) -> list[Row]:
    """What identifies each task: ``task_id``, ``split``, ``ops``, ``data_source`` and ``code``."""
    return [
        {k: row["extra_info"][k] for k in ("task_id", "split", "ops", "data_source")}
        | {"code": row["reward_model"]["ground_truth"]}
        for row in rows
    ]

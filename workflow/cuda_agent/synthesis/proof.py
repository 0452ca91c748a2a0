"""Whether a proposed module loads, builds and runs. Runs in a sandboxed child."""

from __future__ import annotations

import ast
from typing import Any

import torch

from cuda_agent.tasks.load import load_task, outputs_as_list


def run_once(context: Any, code: str) -> dict[str, Any]:
    """Load a task, build it and run it once.

    Raises:
        Whatever the task raises; ValueError where its output is no finite tensor.
    """
    context.stage("parse")
    ast.parse(code)
    context.stage("load")
    task = load_task(code)
    context.stage("build")
    model = task.build(0)
    context.stage("run")
    with torch.no_grad():
        outputs = outputs_as_list(model(*task.inputs(0)))
    context.stage("check")
    if not outputs:
        raise ValueError("forward returned no tensor")
    if not all(bool(v.isfinite().all()) for v in outputs):
        raise ValueError("the output has NaN or infinite values")
    return {"shapes": [list(v.shape) for v in outputs]}

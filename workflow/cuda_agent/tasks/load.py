"""Execute the text of a task and build what it defines.

A task is code that somebody else wrote: call these functions in a sandboxed process only.
Form: KernelBench (https://github.com/ScalingIntelligence/KernelBench).
"""

from __future__ import annotations

import itertools
import linecache
import sys
import types
from dataclasses import dataclass
from typing import Any

import torch

MODULE = "cuda_agent_task_"  # what the name of an executed task's module begins with
_counter = itertools.count()


class TaskError(ValueError):
    """The text is not a task: something that the form asks for is missing or has the wrong kind."""


@dataclass(frozen=True)
class Task:
    """An executed task module.

    Attributes:
        module: the executed module.
        name: name of the model class inside it (``Model`` or ``ModelNew``).
    """

    module: types.ModuleType
    name: str = "Model"

    def init_inputs(self) -> list[Any]:
        """Arguments for the model's constructor."""
        fn = getattr(self.module, "get_init_inputs", None)
        return list(fn()) if fn is not None else []

    def build(self, seed: int, device: str = "cpu") -> torch.nn.Module:
        """Build the model with seeded weights, in evaluation mode, on a device."""
        torch.manual_seed(seed)
        model = getattr(self.module, self.name)(*self.init_inputs())
        if not isinstance(model, torch.nn.Module):
            raise TaskError(f"{self.name} is not a torch.nn.Module")
        return model.eval().to(device)

    def inputs(self, seed: int, device: str = "cpu") -> list[Any]:
        """One fresh set of inputs for ``forward``, drawn on the device; what is no tensor is left alone."""
        torch.manual_seed(seed)
        with torch.device(device):
            values = self.module.get_inputs()
        if not isinstance(values, list | tuple):
            raise TaskError(f"get_inputs() returned {type(values).__name__}, not a list")
        return [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]


def load_task(code: str, name: str = "Model") -> Task:
    """Execute the text of a task.

    The source is registered with ``linecache`` so that tracebacks, ``inspect.getsource`` and the compiler see it.

    Raises:
        SyntaxError, or whatever the module raises when it is executed.
        TaskError: a part of the form is missing.
    """
    module_name = f"{MODULE}{next(_counter)}"
    filename = f"<{module_name}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    module = types.ModuleType(module_name)
    module.__file__ = filename
    sys.modules[module_name] = module
    exec(compile(code, filename, "exec"), module.__dict__)
    needed = [name, "get_inputs"] if name == "Model" else [name]
    missing = [n for n in needed if not hasattr(module, n)]
    if missing:
        raise TaskError(f"the task does not define {', '.join(missing)}")
    return Task(module, name)


def outputs_as_list(value: Any) -> list[torch.Tensor]:
    """All tensors of a model's output, in order; nested lists, tuples, dicts and ``ModelOutput`` are walked."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [t for v in value for t in outputs_as_list(v)]
    return []

"""What is done with one candidate inside its sandboxed process: three targets, called one after the other.

``examine`` loads and runs it, ``compile_model`` compiles it, ``measure`` times it. Each returns columns of
``records.OBSERVATIONS``.
"""

from __future__ import annotations

import copy
import functools
import json
import resource
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from cuda_agent.observation import compare, timing
from cuda_agent.tasks.load import load_task, outputs_as_list
from cuda_agent.tasks.trace import trace

if TYPE_CHECKING:
    from cuda_agent.sandbox.child import Context

_ERROR_LENGTH = 2000


def _copied(inputs: Sequence[Any], double: bool = False) -> list[Any]:
    """Inputs that a forward may overwrite without harm; with ``double`` real floating-point tensors in float64."""

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if double and value.is_floating_point() else value.clone()
        if isinstance(value, list | tuple):
            return type(value)(one(v) for v in value)
        return value

    return [one(value) for value in inputs]


def _call(model: torch.nn.Module, inputs: Sequence[Any], double: bool = False) -> list[torch.Tensor]:
    with torch.no_grad():
        return outputs_as_list(model(*_copied(inputs, double)))


def _specs(tensors: Sequence[torch.Tensor]) -> str:
    return json.dumps([{"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")} for t in tensors])


def _size(tensors: Sequence[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _peak_mb(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _in_float64(model: torch.nn.Module, inputs: Sequence[Any]) -> list[torch.Tensor] | None:
    """Outputs of the same model with every weight and input in float64; None where that cannot run.

    A model that names a dtype itself mixes it with float64 and fails, which is no fault of the candidate.
    """
    try:
        return _call(copy.deepcopy(model).double(), inputs, double=True)
    except Exception:
        return None


def examine(context: Context, code: str, seed: int, device: str, threads: int) -> dict[str, Any]:
    """Load, build and run a candidate: twice on one input, once on another, in float64, and traced.

    Args:
        seed: of the weights; the two sets of inputs have the two seeds after it.
        threads: threads of torch, here and in the code that is compiled later.
    """
    torch.set_num_threads(threads)
    context.stage("load")
    task = load_task(code)
    context.stage("build")
    model = task.build(seed, device)
    first, second = task.inputs(seed + 1, device), task.inputs(seed + 2, device)

    context.stage("eager")
    outputs = _call(model, first)
    if not outputs:
        raise ValueError("forward returned no tensor")
    again, other = _call(model, first), _call(model, second)
    peak_mb = _peak_mb(device)
    std, scale = compare.spread(outputs)

    context.stage("float64")
    exact = _in_float64(model, first)

    context.stage("trace")
    seen = trace(model, _copied(first))

    context.state.update(model=model, inputs=first, outputs=outputs, exact=exact, scale=scale)
    parameters = list(model.parameters())
    tensors = outputs_as_list(first)
    return {
        "ops": list(seen.ops),
        "aten_ops": list(seen.aten_ops),
        "random_ops": list(seen.random_ops),
        "inputs": _specs(tensors),
        "outputs": _specs(outputs),
        "parameters": sum(p.numel() for p in parameters),
        "flops": seen.flops,
        "bytes": _size([*tensors, *parameters, *model.buffers(), *outputs]),
        "nonfinite": compare.nonfinite(outputs) + compare.nonfinite(other),
        "output_std": std,
        "output_scale": scale,
        "repeat_difference": compare.difference(again, outputs, scale),
        "input_difference": compare.difference(other, outputs, scale),
        "eager_error": None if exact is None else compare.difference(outputs, exact, scale),
        "peak_mb": peak_mb,
    }


def compile_model(context: Context) -> dict[str, Any]:
    """Compile the candidate and compare its outputs with eager and float64."""
    context.stage("compile")
    state = context.state
    compiled = torch.compile(state["model"])
    try:
        outputs = _call(compiled, state["inputs"])
    except Exception as error:
        return {"compile_error": f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]}
    state["compiled"] = compiled
    eager, exact, scale = state["outputs"], state["exact"], state["scale"]
    return {
        "compile_error": "",
        "compile_error_value": compare.difference(outputs, eager if exact is None else exact, scale),
        "compile_difference": compare.disagreement(outputs, eager, scale),
    }


def measure(context: Context, device: str, warmup: int, repeats: int) -> dict[str, Any]:
    """Time the candidate, eager and compiled in turns."""
    context.stage("time")
    state = context.state
    for name in ("outputs", "exact"):
        state.pop(name)
    models = {"eager": state["model"], "compile": state.get("compiled")}
    calls = {
        name: functools.partial(model, *_copied(state["inputs"])) for name, model in models.items() if model is not None
    }
    with torch.no_grad():
        times = timing.sample(calls, device, warmup, repeats)
    return {
        "eager_ms": statistics.median(times["eager"]),
        "eager_ms_iqr": timing.interquartile_range(times["eager"]),
        "compile_ms": statistics.median(times["compile"]) if "compile" in times else None,
    }

"""The candidate's child: loads ``ModelNew`` and answers "here are inputs, give me outputs".

Nothing that happens here is believed: outputs are compared in the reference's child, times are taken in the parent.
What is seen of the candidate from inside is a tripwire, and evidence.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from cuda_agent.judge import layout, runner, witness
from cuda_agent.tasks import load

Context = Any


class OutputError(TypeError):
    """What forward returned is not what the task asks for."""


def prepare(context: Context, *, folder: str, specs: dict[str, Any], seed: int, device: str, threads: int) -> None:
    """Load the library and ``ModelNew`` from a workspace, and build the model.

    Args:
        specs: what `reference.prepare` returned.
        seed: the one that the reference was built with.
    """
    runner.set_up(device, threads)
    sys.path.insert(0, folder)
    extension = importlib.import_module("cuda_extension")
    kernels = witness.Kernels(extension)
    arguments = load.load_task((Path(folder) / "model.py").read_text(encoding="utf-8")).init_inputs()
    task = load.load_task((Path(folder) / "model_new.py").read_text(encoding="utf-8"), "ModelNew")
    torch.manual_seed(seed)
    model = task.module.ModelNew(*arguments)
    if not isinstance(model, torch.nn.Module):
        raise load.TaskError("ModelNew is not a torch.nn.Module")
    context.state.update(model=model.eval().to(device), specs=specs, device=device, kernels=kernels)


def load_weights(context: Context) -> None:
    """Load ``state`` through ``load_state_dict``."""
    state = context.state
    specs = state["specs"]["state"]
    found = layout.views(context.buffer("state"), specs)
    weights = {s["name"]: t.to(state["device"], copy=True) for s, t in zip(specs, found, strict=True)}
    state["model"].load_state_dict(weights, strict=True)


def forward(context: Context, poison: bool = True) -> dict[str, Any]:
    """Call the model on ``in`` and write what it returns to ``out``.

    Returns:
        ``changed``: numbers of the inputs that it changed.
    """
    state = context.state
    given = _inputs(context)
    kept = [t.clone() for t in given]
    if poison:
        _poison(state["specs"]["outputs"], state["device"])
    with torch.no_grad():
        result = state["model"](*layout.unflatten(state["specs"]["tree"], given))
    runner.synchronize(state["device"])
    _answer(context, result)
    changed = [i for i, (a, b) in enumerate(zip(kept, given, strict=True)) if not _same(a, b)]
    return {"changed": changed}


def traced(context: Context) -> dict[str, Any]:
    """Call the model once while watching which operators, functions and kernels run."""
    state = context.state
    arguments = layout.unflatten(state["specs"]["tree"], _inputs(context))
    state["kernels"].calls = Counter()
    with torch.no_grad(), witness.Witness(state["device"]) as seen:
        result = state["model"](*arguments)
        runner.synchronize(state["device"])
    _answer(context, result)
    return {**seen.report(), "kernels": dict(state["kernels"].calls)}


def ghost(context: Context) -> dict[str, Any]:
    """Call the model with its kernels doing nothing, and write what it returns to ``out``."""
    state = context.state
    state["kernels"].asleep = True
    try:
        return forward(context)
    finally:
        state["kernels"].asleep = False


def _inputs(context: Context) -> list[torch.Tensor]:
    found = layout.views(context.buffer("in"), context.state["specs"]["inputs"])
    return [t.to(context.state["device"], copy=True) for t in found]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) if a.ndim else a.equal(b)


def _poison(specs: list[dict[str, Any]], device: str) -> None:
    """Fill what the allocator will hand out next, so that memory nobody writes to does not look like a result."""
    held = []
    for s in specs:
        dtype = layout.dtype_of(s)
        value = float("nan") if dtype.is_floating_point or dtype.is_complex else 1
        held += [torch.full(s["shape"], value, dtype=dtype, device=device) for _ in range(2)]


def _answer(context: Context, result: Any) -> None:
    state = context.state
    wanted = state["specs"]["outputs"]
    leaves = layout.outputs(result)
    if [p for p, _ in leaves] != [s["path"] for s in wanted]:
        raise OutputError(f"forward returns {[p for p, _ in leaves]}, the task {[s['path'] for s in wanted]}")
    for (path, t), s in zip(leaves, wanted, strict=True):
        if type(t) is not torch.Tensor or t.__dict__:
            raise OutputError(f"output{path} is a {type(t).__name__} that is no plain tensor")
        if layout.spec(t) != {"shape": s["shape"], "dtype": s["dtype"]}:
            raise OutputError(f"output{path} is {layout.spec(t)}, the task's {s['dtype']} {s['shape']}")
        if t.device.type != state["device"] or t.layout != torch.strided:
            raise OutputError(f"output{path} lies on {t.device} as {t.layout}")
    layout.write(context.buffer("out"), [t for _, t in leaves])


def make_ring(context: Context, sets: int, seed: int, turn: bool) -> None:
    """Lay out sets of inputs for timing, made of ``in``."""
    state = context.state
    state["ring"] = state["results"] = None
    state["ring"] = runner.Ring(state["specs"]["tree"], _inputs(context), sets, seed, turn)


def run(context: Context, sets: list[int], places: list[Any]) -> None:
    """Call the model once for each set."""
    state = context.state
    state["results"] = None
    state["results"] = runner.run(state["model"], state["ring"], sets, places, state["device"])


def fetch(context: Context, index: int) -> None:
    """Write what a call of the last run returned to ``out``."""
    _answer(context, context.state["results"][index])

"""The trusted child: draws inputs, computes what is expected, holds answers against it, and runs the baselines."""

from __future__ import annotations

import copy
from typing import Any

import torch

from cuda_agent.judge import compare, inputs, layout, runner
from cuda_agent.tasks import load

Context = Any


def prepare(context: Context, code: str, seed: int, device: str, threads: int) -> dict[str, Any]:
    """Build the task's model and run it once.

    Returns:
        ``tree`` (arguments), and the specs ``inputs``, ``state`` (with names) and ``outputs`` (with paths).
    """
    runner.set_up(device, threads)
    task = load.load_task(code)
    model = task.build(seed, device)
    arguments = task.inputs(seed + 1, device)  # weights and inputs from one stream would be correlated
    tensors: list[torch.Tensor] = []
    tree = layout.flatten(arguments, tensors)
    with torch.no_grad():
        leaves = layout.outputs(model(*arguments))
    if not leaves or not all(isinstance(t, torch.Tensor) for _, t in leaves):
        raise TypeError("the task returns something that is no tensor")
    double = None
    if not any(t.is_complex() for t in tensors):
        double = copy.deepcopy(model).double()
    first = {n: t.clone() for n, t in model.state_dict().items()}
    context.state.update(task=task, model=model, double=double, device=device, tree=tree, drawn=tensors, first=first)
    return {
        "tree": tree,
        "inputs": [layout.spec(t) for t in tensors],
        "state": [{"name": n, **layout.spec(t)} for n, t in model.state_dict().items()],
        "outputs": [{"path": p, **layout.spec(t)} for p, t in leaves],
    }


def weights(context: Context, seed: int | None) -> None:
    """Write the weights to ``state``: those that the model was built with, or with every float changed."""
    model = context.state["model"]
    seen: set[int] = set()
    with torch.no_grad():
        for k, (name, tensor) in enumerate(model.state_dict().items()):
            if tensor.data_ptr() in seen:
                continue  # tied weights are one
            seen.add(tensor.data_ptr())
            first = context.state["first"][name]
            changes = seed is not None and tensor.is_floating_point()
            tensor.copy_(inputs.perturbed(first, seed + k) if changes else first)
        if context.state["double"] is not None:
            context.state["double"].load_state_dict(model.state_dict())
    layout.write(context.buffer("state"), list(model.state_dict().values()))


def draw(context: Context, seed: int, distribution: str) -> dict[str, Any]:
    """Draw fresh inputs under a distribution, write them to ``in``, and compute what is expected."""
    state = context.state
    drawn: list[torch.Tensor] = []
    layout.flatten(state["task"].inputs(seed, state["device"]), drawn)
    state["drawn"] = [inputs.spread(t, distribution, seed + i) for i, t in enumerate(drawn)]
    return _expect(context)


def perturb(context: Context, index: int, seed: int) -> dict[str, Any]:
    """Change one tensor of the inputs drawn last, and write as `draw` does."""
    drawn = list(context.state["drawn"])
    drawn[index] = inputs.perturbed(drawn[index], seed)
    context.state["drawn"] = drawn
    return _expect(context)


def _expect(context: Context) -> dict[str, Any]:
    """Run the model on the inputs drawn last, in its own precision and in float64."""
    state = context.state
    layout.write(context.buffer("in"), state["drawn"])
    expected = _call(state["model"], state["tree"], state["drawn"])
    finite = all(bool(torch.isfinite(t).all()) for t in expected)
    exact, reason = expected, "no float64 model"
    if state["double"] is not None:
        try:
            wide = [t.double() if t.is_floating_point() else t for t in state["drawn"]]
            exact, reason = _call(state["double"], state["tree"], wide), ""
        except RuntimeError as error:  # an operator without float64
            reason = str(error).split("\n")[0][:200]
    if [t.shape for t in exact] != [t.shape for t in expected]:
        exact, reason = expected, "the float64 model returns other shapes"
    state["expected"], state["exact"] = expected, exact
    return {"finite": finite, "float64": not reason, "reason": reason}


def errors(context: Context, scaled: bool) -> dict[str, Any]:
    """Hold the answer in ``got`` against what is expected; see `compare.compare`."""
    state = context.state
    got = layout.views(context.buffer("got"), [layout.spec(t) for t in state["expected"]])
    on_device = [t.to(state["device"]) for t in got]
    return compare.compare(on_device, state["expected"], state["exact"], scaled=scaled)


def _call(model: torch.nn.Module, tree: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    given = layout.unflatten(tree, [t.clone() for t in tensors])
    with torch.no_grad():
        return [t for _, t in layout.outputs(model(*given))]


def compile_baseline(context: Context) -> str:
    """Compile the model with torch's default compiler; why it failed, or nothing."""
    state = context.state
    state["models"] = {"eager": state["model"]}
    compiled = torch.compile(state["model"])
    try:
        for _ in range(2):
            _call(compiled, state["tree"], state["drawn"])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:1000]
    state["models"]["compile"] = compiled
    return ""


def make_ring(context: Context, sets: int, seed: int, turn: bool) -> None:
    """Lay out sets of inputs for timing, made of the inputs drawn last."""
    state = context.state
    state["ring"] = None
    state["ring"] = runner.Ring(state["tree"], state["drawn"], sets, seed, turn)


def run(context: Context, which: str, sets: list[int], places: list[Any]) -> None:
    """Call a baseline once for each set."""
    state = context.state
    runner.run(state["models"][which], state["ring"], sets, places, state["device"])


def answer(context: Context, k: int) -> None:
    """Expect what eager returns for a set, as it is now."""
    with torch.no_grad():
        leaves = layout.outputs(context.state["model"](*context.state["ring"].arguments(k)))
    context.state["expected"] = context.state["exact"] = [t for _, t in leaves]

"""Build and run one operator on trial arguments. Runs in a sandboxed child."""

from __future__ import annotations

import hashlib
import importlib
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from cuda_agent.operators import arguments, behaviour, classify
from cuda_agent.operators.arguments import Parameter
from cuda_agent.tasks.load import outputs_as_list

MAX_EXAMPLES = 6
MAX_PARAMETERS = 10_000_000  # of a module
MAX_FAILURES = 400  # of one operator; each takes some tens of microseconds


class Excluded(Exception):
    """An operator that tasks cannot be made of. The message says why."""


class Call:
    """One way to build and call an operator.

    Attributes:
        init: constructor arguments; empty for functions.
        fixed: arguments of the call that are no tensors.
        tensors: names of the arguments that are tensors, in order.
        listed: the tensors go in as one list.
    """

    def __init__(
        self,
        target: Any,
        module: bool,
        init: dict[str, Any],
        fixed: dict[str, Any],
        tensors: list[Parameter],
        *,
        listed: bool = False,
    ) -> None:
        self.init, self.fixed, self.tensors, self.listed = init, fixed, tensors, listed
        self._target, self._module = target, module

    def build(self) -> Callable[..., Any]:
        """The function or the built module, in evaluation mode."""
        if not self._module:
            return self._target
        torch.manual_seed(0)
        built = self._target(**self.init).eval()
        if sum(p.numel() for p in built.parameters() if not nn.parameter.is_lazy(p)) > MAX_PARAMETERS:
            raise Excluded("a whole network, not an operator")
        return built

    def run(self, function: Callable[..., Any], tensors: list[torch.Tensor]) -> Any:
        """Call it with these tensors."""
        if self.listed:
            return function(tensors, **self.fixed)
        before = [t for p, t in zip(self.tensors, tensors, strict=True) if p.positional]
        named = {p.name: t for p, t in zip(self.tensors, tensors, strict=True) if not p.positional}
        if not self.fixed:
            return function(*before, **named)
        return function(
            before[0], **{p.name: t for p, t in zip(self.tensors[1:], tensors[1:], strict=True)}, **self.fixed
        )


def resolve(name: str) -> Any:
    """The object with a qualified name."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise Excluded(f"{name} cannot be imported")


def calls(name: str, spelling: str) -> Iterator[Call]:
    """Ways to build and call an operator, from its signature or the schemas of the ATen operator behind it."""
    target = resolve(name)
    if spelling == "module":
        if target.forward is nn.Module.forward or issubclass(target, nn.ModuleList | nn.ModuleDict | nn.Sequential):
            raise Excluded("a container: computes nothing of its own")
        parameters = arguments.python_parameters(target)
        wanted = [p for p in parameters if p.required or p.name == "dropout"]
        forward = [p for p in arguments.python_parameters(target.forward) if p.name != "self" and p.required]
        inputs = [Parameter(p.name, "Tensor", True) for p in forward]
        required = [p for p in wanted if p.required]
        zero = {"dropout": 0.0} if any(p.name == "dropout" for p in wanted) else {}
        for chosen in (required, *([*required, p] for p in arguments.needed_after_all(parameters))):
            for init in arguments.combinations(chosen):
                yield Call(target, True, init | zero, {}, inputs)
        return
    try:
        overloads = [arguments.python_parameters(target)]
    except (ValueError, TypeError):
        overloads = arguments.schemas(name)
    if not overloads:
        raise Excluded("has no signature and no schema to derive arguments from")
    # An overload that makes another kind of result when an optional axis is given comes after the plain one.
    for parameters in overloads:
        required = [p for p in parameters if p.required]
        lists = [
            p for p in required if p.type in ("List[Tensor]", "tuple[Tensor, ...]") or p.name in ("tensors", "operands")
        ]
        tensors = [p for p in required if p.tensor]
        if spelling == "function" and not tensors and not lists and required:
            tensors = required[:1]
        others = [p for p in required if p not in tensors and p not in lists]
        for fixed in arguments.combinations(others):
            yield Call(target, False, {}, fixed, lists or tensors, listed=bool(lists))


def _describe(values: list[torch.Tensor]) -> list[dict[str, Any]]:
    return [{"shape": list(v.shape), "dtype": str(v.dtype).removeprefix("torch.")} for v in values]


def _inputs(plan: list[tuple[tuple[int, ...], str]], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [arguments.float_tensor(shape, generator, kind) for shape, kind in plan]


def _same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(
        torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) for x, y in zip(a, b, strict=True)
    )


def _check(call: Call, plan: list[tuple[tuple[int, ...], str]]) -> list[Any]:
    """Run a call that works in all the ways that could exclude it; the ATen operators that ran."""
    function = call.build()
    inputs = _inputs(plan, 1)
    kept = [t.clone() for t in inputs]
    with classify.Dispatched() as dispatched:
        first = outputs_as_list(call.run(function, inputs))
    if not first:
        raise Excluded("returns no tensor")
    random = classify.random(dispatched.seen)
    if random:
        raise Excluded(f"random: draws numbers with {', '.join(random)}")
    if not _same(kept, inputs):
        raise Excluded("in place: changes its input")
    dynamic = classify.tagged(dispatched.seen, torch.Tag.dynamic_output_shape)
    dynamic += classify.tagged(dispatched.seen, torch.Tag.data_dependent_output)
    if dynamic:
        raise Excluded(f"data-dependent: what it does depends on values, in {', '.join(dynamic)}")
    if any(not v.dtype.is_floating_point and v.dtype not in (torch.bool, torch.int64, torch.int32) for v in first):
        raise Excluded("gives complex, quantised or other special types")
    if any(v.layout != torch.strided for v in first):
        raise Excluded("gives a sparse tensor")
    uninitialised = [op for op in dispatched.seen if op.overloadpacket.__name__.startswith(("empty", "new_empty"))]
    if uninitialised and len(dispatched.seen) == 1:
        raise Excluded("gives uninitialised memory")
    if not _same(first, outputs_as_list(call.run(function, [t.clone() for t in kept]))):
        raise Excluded("not repeatable: two calls on the same input differ")
    if len(first) == 1 and any(first[0].shape == t.shape and torch.equal(first[0], t) for t in kept):
        _random_in_training(call, function, kept)
        raise Excluded("the identity: gives back its input")
    if _same(first, outputs_as_list(call.run(function, _inputs(plan, 2)))):
        raise Excluded("constant: the output does not depend on the input's values")
    _random_in_training(call, function, kept)
    return dispatched.seen


def _random_in_training(call: Call, function: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
    if not isinstance(function, nn.Module):
        return
    try:
        with classify.Dispatched() as dispatched:
            call.run(function.train(), [t.clone() for t in inputs])
    except (RuntimeError, ValueError):
        return  # a module that cannot be trained on such an input
    finally:
        function.eval()
    random = classify.random(dispatched.seen)
    if random:
        raise Excluded(f"random: draws numbers in training with {', '.join(random)}")


def _digest(outputs: list[torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for value in outputs:
        digest.update(str((value.shape, value.dtype)).encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _words(call: Call) -> list[str]:
    try:
        return _observed_words(call)
    except (RuntimeError, NotImplementedError):  # refuses other shapes or types than those of its examples
        return []


def _observed_words(call: Call) -> list[str]:
    if len(call.tensors) != 1 or call.listed:
        return ["finite"] if _finite_everywhere(call) else []
    function = call.build()
    return behaviour.words(lambda x: outputs_as_list(call.run(function, [x]))[0])


def _finite_everywhere(call: Call) -> bool:
    function = call.build()
    inputs = _inputs([((64, 64), "normal")] * len(call.tensors), 3)
    return all(bool(v.isfinite().all()) for v in outputs_as_list(call.run(function, inputs)))


def try_operator(context: Any, name: str, spelling: str) -> dict[str, Any]:
    """Everything that running one operator showed: the columns of its row that depend on running it.

    Returns:
        ``status``, ``reason``, ``kind``, ``recipe`` (a dict), ``examples`` and ``digest``, equal for operators that
        computed the same from the same.
    """
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            return _try(name, spelling)
    except Excluded as error:
        return {"status": "excluded", "reason": str(error)}


def _try(name: str, spelling: str) -> dict[str, Any]:
    found: tuple[Call, list[Any]] | None = None
    examples: list[dict[str, Any]] = []
    failures, last = 0, "no value is known for one of its required arguments"
    digest = ""
    for call in calls(name, spelling):
        try:
            function = call.build()
        except Excluded:
            raise
        except Exception as error:  # a constructor may refuse any trial argument
            last = f"{type(error).__name__}: {error}".split("\n")[0][:200]
            continue
        plans = arguments.tensor_plans([p.name for p in call.tensors])
        for plan in plans:
            if failures > MAX_FAILURES or len(examples) >= MAX_EXAMPLES:
                break
            try:
                inputs = _inputs(plan, 1)
                outputs = outputs_as_list(call.run(function, inputs))
            except Exception as error:  # any operator may refuse any trial
                failures += 1
                last = f"{type(error).__name__}: {error}".split("\n")[0][:200]
                continue
            if found is None:
                found = (call, _check(call, plan))
                digest = _digest(outputs)
            examples.append(
                {"init": call.init, "fixed": call.fixed, "inputs": _describe(inputs), "outputs": _describe(outputs)}
            )
        if found is not None and len(examples) >= 2:
            break
    if found is None:
        raise Excluded(f"no trial ran; the last failed with {last}")
    call, seen = found
    kind = classify.kind(name, seen)
    recipe = {
        "init": call.init,
        "fixed": call.fixed,
        "inputs": [p.name for p in call.tensors],
        "listed": call.listed,
        "scalars": _scalars(name, spelling),
        "aten": sorted({op.overloadpacket.__name__ for op in seen}),
        "words": _words(call) if kind == "pointwise" else [],
    }
    json.dumps(recipe)
    return {"status": "verified", "reason": "", "kind": kind, "recipe": recipe, "examples": examples, "digest": digest}


def _scalars(name: str, spelling: str) -> list[str]:
    """Names of the parameters that take numbers."""
    target = resolve(name)
    try:
        parameters = arguments.python_parameters(target)
    except (ValueError, TypeError):
        parameters = [p for overload in arguments.schemas(name)[:1] for p in overload]
    numeric = ("float", "int", "number", "Scalar", "Optional[number]", "Optional[float]")
    return [p.name for p in parameters if p.type in numeric and not p.tensor]

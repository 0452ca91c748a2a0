"""What a model runs: operators as a reader of the code knows them, and ATen operators as the dispatcher sees them.

It runs the model, so call it in a sandboxed process only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
_LIBRARIES = ("torch", "transformers")
_OFF_WHEN_ZERO = ("dropout", "dropout_p", "p")
_OFF_WHEN_FALSE = ("train", "training")
_DUNDERS = {
    "truediv": "div",
    "rtruediv": "div",
    "floordiv": "floor_divide",
    "rfloordiv": "floor_divide",
    "rmod": "remainder",
}


@dataclass(frozen=True)
class Trace:
    """One forward of a model.

    Attributes:
        ops: qualified names in the order they started, e.g. ``torch.nn.Conv2d``, ``torch.nn.functional.softmax``,
            ``torch.Tensor.add``. The outermost library module or function counts, once for each call; what it calls
            itself does not. What ran no ATen operator (``nn.Identity``, ``x.shape``) is left out.
        aten_ops: distinct ATen operators, sorted, e.g. ``aten.add.Tensor``.
        random_ops: those of ``aten_ops`` that drew random numbers, sorted.
        flops: floating-point operations of what ``torch.utils.flop_counter`` can count (contractions, convolutions,
            attention); a multiply-add counts as two. None where it counted nothing, which does not mean that there
            was nothing to compute.
    """

    ops: tuple[str, ...]
    aten_ops: tuple[str, ...]
    random_ops: tuple[str, ...]
    flops: int | None


def module_name(kind: type[torch.nn.Module]) -> str | None:
    """Public name of a module class that is one operator; None for containers and for classes of the task itself."""
    if kind.__name__.startswith("Parametrized") and kind.__module__ == "torch.nn.utils.parametrize":
        kind = kind.__mro__[1]
    if issubclass(kind, _CONTAINERS) or kind.__module__.partition(".")[0] not in _LIBRARIES:
        return None
    if getattr(torch.nn, kind.__name__, None) is kind:
        return f"torch.nn.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


def function_name(function: Callable[..., Any]) -> str:
    """Public name of a torch function or tensor method, operators written as the method they stand for."""
    name = resolve_name(function) or f"{function.__module__}.{function.__qualname__}"
    name = name.replace("torch._tensor.Tensor.", "torch.Tensor.").replace("torch.functional.", "torch.")
    name = name.removesuffix(".__get__")
    head, _, last = name.rpartition(".")
    if head == "torch" and getattr(torch, function.__name__, None) is function:
        name, last = f"torch.{function.__name__}", function.__name__  # not an alias, such as spmm for mm
    if last.startswith("__") and last.endswith("__"):
        bare = last.strip("_")
        for method in (_DUNDERS.get(bare, bare), bare[1:]):  # __add__, __radd__ and __iadd__ are all add
            if hasattr(torch.Tensor, method):
                return f"{head}.{method}"
    if head == "torch" and hasattr(torch.nn.functional, last) and not hasattr(torch.Tensor, last):
        return f"torch.nn.functional.{last}"  # conv2d and its like: one function under two names
    return name


def _draws(operator: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    if torch.Tag.nondeterministic_seeded not in operator.tags:
        return False
    given = dict(zip((a.name for a in operator._schema.arguments), args, strict=False)) | kwargs
    for argument in operator._schema.arguments:
        value = given.get(argument.name, argument.default_value)
        if argument.name in _OFF_WHEN_ZERO and isinstance(value, int | float) and value == 0:
            return False
        if argument.name in _OFF_WHEN_FALSE and value is False:
            return False
    return True


class _Recorder:
    """The open library call, if any, and all that was seen."""

    def __init__(self) -> None:
        self.ops: list[str] = []
        self.aten: set[str] = set()
        self.random: set[str] = set()
        self._open: list[str | None] = []
        self._ran = False

    @property
    def inside(self) -> bool:
        return bool(self._open)

    def enter(self, name: str) -> None:
        if not self._open:
            self._ran = False
            self.ops.append(name)
        self._open.append(name)

    def leave(self) -> None:
        self._open.pop()
        if not self._open and not self._ran:
            self.ops.pop()

    def saw(self, operator: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._ran = True
        self.aten.add(str(operator))
        if _draws(operator, args, kwargs):
            self.random.add(str(operator))
        if not self._open:  # e.g. from a scripted function, which no Python-level hook sees
            self.ops.append(f"torch.ops.{operator.overloadpacket}")


class _Functions(TorchFunctionMode):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if self.recorder.inside:
            return func(*args, **(kwargs or {}))
        self.recorder.enter(function_name(func))
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.recorder.leave()


class _Dispatched(TorchDispatchMode):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.recorder.saw(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def trace(model: torch.nn.Module, inputs: Sequence[Any]) -> Trace:
    """Run one forward without gradients and record what it ran.

    Raises:
        Whatever the model's forward raises.
    """
    recorder = _Recorder()

    def enter(module: torch.nn.Module, args: Any) -> None:
        name = module_name(type(module))
        if name is not None:
            recorder.enter(name)

    def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
        if module_name(type(module)) is not None:
            recorder.leave()

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter, _Dispatched(recorder), _Functions(recorder):
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return Trace(
        ops=tuple(recorder.ops),
        aten_ops=tuple(sorted(recorder.aten)),
        random_ops=tuple(sorted(recorder.random)),
        flops=int(counter.get_total_flops()) or None,
    )

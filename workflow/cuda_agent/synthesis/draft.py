"""A task while it is being written: sizes with names, constructor arguments, statements, and the finished text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

FLOAT_BYTES = 4


class Misfit(ValueError):
    """An operator cannot take the value as it is now: wrong rank, or the result would be degenerate."""


@dataclass(eq=False)
class Dim:
    """One size of a tensor; it has a name as long as one constant of the module stands for it."""

    size: int
    name: str | None = None


@dataclass(frozen=True)
class Traits:
    """What is known of the values of a tensor, from the operators that made it.

    Attributes:
        nonnegative: no value is below zero.
        bounded: values stay within a small interval around zero, about [-8, 8].
        tiny: values are so small that most functions of them are constant (softmax over many elements).
        standard: mean 0 and variance 1 over some axes, so that a mean or norm over them says nothing.
    """

    nonnegative: bool = False
    bounded: bool = True
    tiny: bool = False
    standard: bool = False


_LAYOUTS = {
    "matrix": ("batch_size", "features"),
    "sequence": ("batch_size", "seq_len", "features"),
    "signal": ("batch_size", "channels", "length"),
    "image": ("batch_size", "channels", "height", "width"),
    "volume": ("batch_size", "channels", "depth", "height", "width"),
}


@dataclass
class Argument:
    """A constructor argument, and the constant or literal that `get_init_inputs` passes for it."""

    name: str
    value: Dim | int | float | str | bool | tuple[Dim, ...]
    annotation: str


@dataclass
class Draft:
    """A task that is being composed from its input to its output.

    Args:
        layout: names the axes: matrix, sequence, signal, image or volume.
        sizes: size of each axis.

    Attributes:
        shape: of the value that the next operator gets.
        channel_axis: axis that weights belong to.
        setup: statements at the end of the constructor.
        largest: elements of the largest tensor so far.
        flops: floating-point operations of the contractions so far.
    """

    layout: str
    sizes: Sequence[int]
    traits: Traits = Traits()
    arguments: list[Argument] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    inputs: list[tuple[str, tuple[Dim, ...], str]] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    flops: int = 0
    last: bool = False

    def __post_init__(self) -> None:
        names = _LAYOUTS[self.layout]
        if len(names) != len(self.sizes):
            raise ValueError(f"layout {self.layout} has {len(names)} axes, got sizes {list(self.sizes)}")
        self.shape = tuple(Dim(s, n) for s, n in zip(self.sizes, names, strict=True))
        self.inputs.append(("x", self.shape, "randn"))
        self.largest = math.prod(self.sizes)

    @property
    def rank(self) -> int:
        """Number of axes of the current value."""
        return len(self.shape)

    @property
    def channel_axis(self) -> int:
        """Axis that weights and normalisations belong to: the last one of matrices and sequences, else the second."""
        return -1 if self.layout in ("matrix", "sequence") else 1

    @property
    def spatial(self) -> int:
        """Number of spatial axes, 0 for matrices and sequences."""
        return 0 if self.channel_axis == -1 else self.rank - 2

    def need(self, condition: bool, why: str) -> None:
        """Raise `Misfit` unless the condition holds."""
        if not condition:
            raise Misfit(why)

    def rename(self, axis: int, name: str) -> None:
        """Give an axis the name that its consumer uses, if it still has the layout's own and the name is free."""
        dim = self.shape[axis]
        if dim.name in ("features", "channels") and name not in self._constants():
            dim.name = name

    def argument(self, name: str, value: Dim | float | str | bool | tuple[Dim, ...], annotation: str) -> str:
        """A constructor argument with this value; one that exists already is used again.

        Returns:
            The argument's name inside the constructor.
        """
        taken = {a.name: a for a in self.arguments}
        candidates = [name, *(f"{name}_{i}" for i in range(2, 9))]
        for candidate in candidates:
            if candidate not in taken:
                self.arguments.append(Argument(candidate, value, annotation))
                return candidate
            if taken[candidate].value is value or (not isinstance(value, Dim) and taken[candidate].value == value):
                return candidate
        raise Misfit(f"too many arguments called {name}")

    def attribute(self, name: str, expression: str) -> str:
        """An attribute of the module; a second one of the same name gets a number.

        Returns:
            How `forward` spells it.
        """
        taken = {n for n, _ in self.attributes}
        free = next(n for n in [name, *(f"{name}{i}" for i in range(2, 9))] if n not in taken)
        self.attributes.append((free, expression))
        return f"self.{free}"

    def constant(self, name: str, value: float | str | tuple[Dim, ...], annotation: str) -> str:
        """A constructor argument that the module keeps for `forward`; the same one is kept once.

        Returns:
            How `forward` spells it.
        """
        argument = self.argument(name, value, annotation)
        if (argument, argument) in self.attributes:
            return f"self.{argument}"
        return self.attribute(argument, argument)

    def input(self, name: str, shape: tuple[Dim, ...], kind: str = "randn") -> str:
        """A further input of `forward`."""
        taken = {n for n, _, _ in self.inputs}
        free = next(n for n in [name, *(f"{name}{i}" for i in range(2, 9))] if n not in taken)
        self.inputs.append((free, shape, kind))
        self.largest = max(self.largest, math.prod(d.size for d in shape))
        return free

    def step(self, expression: str, operator: str, phrase: str, shape: Iterable[Dim], traits: Traits) -> None:
        """One statement of `forward` that replaces the current value.

        Args:
            expression: Python text over ``x`` and ``self``.
            operator: qualified name of the operator.
            phrase: what it does, for the docstring.
        """
        self.body.append(f"x = {expression}")
        self.operators.append(operator)
        self.phrases.append(phrase)
        self.shape = tuple(shape)
        self.traits = traits
        self.largest = max(self.largest, math.prod(d.size for d in self.shape))

    def elements(self) -> int:
        """Elements of the current value."""
        return math.prod(d.size for d in self.shape)

    def _dims(self) -> list[Dim]:
        dims = [d for _, shape, _ in self.inputs for d in shape]
        for argument in self.arguments:
            if isinstance(argument.value, Dim):
                dims.append(argument.value)
            elif isinstance(argument.value, tuple):
                dims.extend(argument.value)
        return dims

    def _constants(self) -> dict[str, int]:
        """Names and values of the module's constants, in the order of their first use."""
        return {d.name: d.size for d in self._dims() if d.name is not None}

    def _names(self) -> dict[str, str]:
        """Text of every constant: sizes of inputs and arguments first, then the rest of the arguments."""
        constants: dict[str, str] = {}
        owner: dict[str, Dim] = {}
        for dim in self._dims():
            if dim.name is None:
                continue
            while dim.name in owner and owner[dim.name] is not dim:
                dim.name = _next_name(dim.name)
            owner[dim.name] = dim
            constants[dim.name] = str(dim.size)
        for argument in self.arguments:
            if not isinstance(argument.value, Dim | tuple):
                constants[argument.name] = _literal(argument.value)
        return constants

    def _passed(self, argument: Argument) -> str:
        if isinstance(argument.value, Dim):
            return argument.value.name or str(argument.value.size)
        if isinstance(argument.value, tuple):
            return _shape_text(argument.value)
        return argument.name

    def render(self) -> str:
        """The finished module."""
        constants = self._names()
        uses_f = any("F." in line for line in self.body)
        lines = ["import torch", "import torch.nn as nn"] + (["import torch.nn.functional as F"] if uses_f else [])
        signature = ["self", *(f"{a.name}: {a.annotation}" for a in self.arguments)]
        parameters = ["self", *(f"{n}: torch.Tensor" for n, _, _ in self.inputs)]
        lines += ["", "", "class Model(nn.Module):", *_docstring(self)]
        if self.attributes or self.arguments:
            lines += ["", *_wrap_signature("__init__", signature, ""), "        super().__init__()"]
            lines += [f"        self.{name} = {expression}" for name, expression in self.attributes]
            lines += [f"        {line}" for line in self.setup]
        lines += ["", *_wrap_signature("forward", parameters, " -> torch.Tensor")]
        body = [*self.body[:-1], self.body[-1].replace("x = ", "return ", 1)]
        lines += [f"        {line}" for line in body]
        lines += ["", "", *(f"{name} = {text}" for name, text in constants.items())]
        draws = [_draw(kind, shape) for _, shape, kind in self.inputs]
        passed = ", ".join(self._passed(a) for a in self.arguments)
        lines += ["", "", "def get_inputs():", f"    return [{', '.join(draws)}]"]
        lines += ["", "", "def get_init_inputs():", f"    return [{passed}]", ""]
        return "\n".join(lines)


def _next_name(name: str) -> str:
    stem, _, number = name.rpartition("_")
    return f"{stem}_{int(number) + 1}" if number.isdigit() else f"{name}_2"


def _literal(value: float | str | bool) -> str:
    return repr(value)


def _shape_text(shape: Sequence[Dim]) -> str:
    parts = [d.name or str(d.size) for d in shape]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _draw(kind: str, shape: Sequence[Dim]) -> str:
    sizes = ", ".join(d.name or str(d.size) for d in shape)
    if kind.startswith("randint:"):
        return f"torch.randint(0, {kind.partition(':')[2]}, ({sizes},))"
    if kind == "positive":
        return f"torch.rand({sizes}) + 0.5"
    return f"torch.{kind}({sizes})"


def _wrap_signature(name: str, parameters: list[str], result: str) -> list[str]:
    line = f"    def {name}({', '.join(parameters)}){result}:"
    if len(line) <= 100:
        return [line]
    return [f"    def {name}(", *(f"        {p}," for p in parameters), f"    ){result}:"]


def _docstring(draft: Draft) -> list[str]:
    text = ", then ".join(draft.phrases)
    text = text[0].upper() + text[1:] + "."
    names = ", ".join(draft.operators)
    body = [*textwrap.wrap(text, 92), "", *textwrap.wrap(f"Operators: {names}", 92)]
    return ['    """', *(f"    {line}" if line else "" for line in body), '    """']

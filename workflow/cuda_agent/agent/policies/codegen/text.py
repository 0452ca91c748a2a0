"""Pieces of C that both backends share."""

from __future__ import annotations

import math
from collections.abc import Callable

from .ir import BOOL, Affine, Buffer, Var
from .pointwise import EXPRESSIONS
from .trace import Value

START = {"sum": "0.0f", "prod": "1.0f", "max": "-INFINITY", "min": "INFINITY"}


def literal(value: float | bool, dtype: str) -> str:
    """A constant as C has it; negative ones in parentheses."""
    if dtype == BOOL:
        return "true" if value else "false"
    value = float(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = f"{value!r}f"
    return f"({text})" if value < 0 else text


def affine(index: Affine, names: dict[Var, str]) -> str:
    """An index as C has it."""
    parts = [names[v] if c == 1 else f"{names[v]} * {c}" for v, c in index.terms]
    if index.constant or not parts:
        parts.append(str(index.constant))
    return " + ".join(parts).replace("+ -", "- ")


def holds(conditions, names: dict[Var, str]) -> str:
    """Whether all indices lie within their bounds, as C has it."""
    return " && ".join(f"uint64_t({affine(i, names)}) < {n}" for i, n in conditions)


def access(buffer: Buffer, offset: Affine, names: dict[Var, str]) -> str:
    return f"{buffer.name}[{affine(offset, names)}]"


def expression(value: Value, names: dict[Var, str], of: Callable[[Value], str]) -> str:
    """The right-hand side of a value; ``of`` gives the text of an argument."""
    if value.kind == "load":
        read = access(value.buffer, value.offset, names)
        if value.conditions:
            return f"({holds(value.conditions, names)}) ? {read} : {literal(value.constant, value.dtype)}"
        return read
    if value.kind == "mask":
        return f"({holds(value.conditions, names)}) ? {of(value.args[0])} : {literal(value.constant, value.dtype)}"
    return EXPRESSIONS[value.op][0].format(*(of(a) for a in value.args))


def decode(position: str, variables: list[Var], names: dict[Var, str], kind: str = "int64_t") -> list[str]:
    """Statements that take a row-major position apart into loop variables."""
    out, step = [], 1
    for k, var in reversed(list(enumerate(variables))):
        part = position if step == 1 else f"{position} / {step}"
        if k:
            part = f"{part} % {var.size}" if step == 1 else f"({part}) % {var.size}"
        out.append(f"const {kind} {names[var]} = {part};")
        step *= var.size
    return out[::-1]


def indented(lines: list[str], depth: int) -> list[str]:
    return ["  " * depth + line if line and not line.startswith("#") else line for line in lines]

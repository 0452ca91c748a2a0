"""What kernels are made from: pointwise operators, reductions, views and buffers, over affine indices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field


class GiveUpError(Exception):
    """There is no rule for this task; the message says what is missing."""


class NotAffineError(Exception):
    """An index cannot be written as a sum of multiples of loop variables: the operand needs a buffer of its own."""


class Var:
    """One loop variable.

    Attributes:
        size: number of values.
        reduced: whether the kernel reduces over it.
    """

    _numbers = itertools.count()

    def __init__(self, size: int, reduced: bool = False):
        self.size, self.reduced, self.number = size, reduced, next(self._numbers)


class SplitError(Exception):
    """A loop variable must be split into an outer one and an inner one of the given size; then trace again."""

    def __init__(self, var: Var, inner: int):
        super().__init__(f"split {var.size} by {inner}")
        self.var, self.inner = var, inner


@dataclass(frozen=True)
class Affine:
    """``constant + sum(coefficient * variable)``. ``terms``: (variable, coefficient), by variable, none of them 0."""

    terms: tuple[tuple[Var, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(terms: dict[Var, int], constant: int = 0) -> Affine:
        kept = [(v, c) for v, c in terms.items() if c and v.size > 1]
        return Affine(tuple(sorted(kept, key=lambda t: t[0].number)), constant)

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for var, c in other.terms:
            terms[var] = terms.get(var, 0) + c
        return Affine.of(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Affine:
        return Affine.of({v: c * factor for v, c in self.terms}, self.constant * factor)

    def shifted(self, by: int) -> Affine:
        return Affine(self.terms, self.constant + by)

    def coefficient(self, var: Var) -> int:
        return dict(self.terms).get(var, 0)

    def variables(self) -> frozenset[Var]:
        return frozenset(v for v, _ in self.terms)


Index = tuple[Affine, ...]
FLOAT, BOOL, LONG = "float", "bool", "int64_t"


@dataclass(eq=False)
class Node:
    """A value over ``shape``. ``dtype`` is its type in C."""

    shape: tuple[int, ...]
    dtype: str = FLOAT

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


@dataclass(eq=False)
class Buffer:
    """Memory: an argument of the launcher. ``source``: how ``forward`` gets at it; None for one to be allocated."""

    name: str
    shape: tuple[int, ...]
    dtype: str = FLOAT
    source: str | None = None


@dataclass(eq=False)
class Leaf(Node):
    """Reads a buffer; strides in elements."""

    buffer: Buffer = None
    strides: tuple[int, ...] = ()


@dataclass(eq=False)
class Constant(Node):
    value: float | bool = 0.0


@dataclass(eq=False)
class Point(Node):
    """An operator on each element. Arguments are broadcast to ``shape`` from the right."""

    op: str = ""
    args: tuple[Node, ...] = ()


@dataclass(eq=False)
class Reduce(Node):
    """``op`` (sum, max, min, prod, argmax or argmin) of ``arg`` over ``dims``, which vanish."""

    op: str = ""
    arg: Node = None
    dims: tuple[int, ...] = ()


@dataclass(eq=False)
class Scan(Node):
    """Running ``op`` (sum or prod) of ``arg`` along ``dim``."""

    op: str = ""
    arg: Node = None
    dim: int = 0


@dataclass(eq=False)
class View(Node):
    """``arg`` at another index.

    Attributes:
        index: maps an index of this node to one of ``arg``.
        bounds: (dimension of ``arg``) whose index may fall outside; there the value is ``fill``.
        flat: whether it keeps the row-major order of the elements (a reshape).
    """

    arg: Node = None
    index: Callable[[Index], Index] = None
    bounds: tuple[int, ...] = ()
    fill: float = 0.0
    flat: bool = False


@dataclass(eq=False)
class Concat(Node):
    """``parts`` one after the other along ``dim``."""

    parts: tuple[Node, ...] = ()
    dim: int = 0


@dataclass
class Program:
    """A whole task: its inputs and parameters, and what it returns."""

    buffers: list[Buffer]
    outputs: list[Node]
    output_form: str
    operators: list[str] = field(default_factory=list)


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, in elements."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return tuple(reversed(out))


def normal_dims(dims, rank: int) -> tuple[int, ...]:
    """Dimensions as sorted numbers from 0; None or nothing means all of them."""
    if dims is None or dims == []:
        return tuple(range(rank))
    dims = dims if isinstance(dims, list | tuple) else [dims]
    return tuple(sorted({d % rank for d in dims})) if rank else ()


def reshape_index(inner: tuple[int, ...], outer: tuple[int, ...]) -> Callable[[Index], Index]:
    """Index of a tensor of shape ``inner`` seen as one of shape ``outer``.

    Raises (when it is called):
        SplitError: a loop variable runs over several dimensions of ``inner``.
        NotAffineError: no split can help.
    """

    def index(idx: Index) -> Index:
        return unflatten(flatten(idx, strides_of(outer)), inner)

    return index


def flatten(idx: Index, strides: tuple[int, ...]) -> Affine:
    """Offset of an index."""
    flat = Affine()
    for i, step in zip(idx, strides, strict=True):
        flat = flat + i * step
    return flat


def unflatten(flat: Affine, shape: tuple[int, ...]) -> Index:
    """Take a flat index apart into one for each dimension of ``shape``. Raises as `reshape_index` does."""
    if sum(n != 1 for n in shape) <= 1:
        return tuple(flat if n != 1 else Affine() for n in shape)
    if flat.constant:
        raise NotAffineError
    steps = strides_of(shape)
    parts: list[dict[Var, int]] = [{} for _ in shape]
    for var, c in flat.terms:
        for d, (step, n) in enumerate(zip(steps, shape, strict=True)):
            if n == 1 or not step <= c < step * n:
                continue
            if c % step:
                raise NotAffineError
            bound = step * n
            if c * (var.size - 1) >= bound:
                inner, rest = divmod(bound, c)
                if rest or var.size % inner:
                    raise NotAffineError
                raise SplitError(var, inner)
            parts[d][var] = c // step
            break
        else:
            raise NotAffineError
    for part, n in zip(parts, shape, strict=True):
        if sum(c * (v.size - 1) for v, c in part.items()) >= n:
            raise NotAffineError
    return tuple(Affine.of(p) for p in parts)

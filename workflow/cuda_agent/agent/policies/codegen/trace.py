"""One kernel from the operators that can share its loops.

Tracing starts at the value to store and follows its operands with the index at which each is needed. Pointwise
operators and views join; a reduction joins if each of its results belongs to one iteration of the kernel's outer loops
and it runs over the inner ones. What cannot join is named in ``needs`` and must get a buffer of its own first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from .ir import (
    FLOAT,
    Affine,
    Buffer,
    Concat,
    Constant,
    Index,
    Leaf,
    Node,
    NotAffineError,
    Point,
    Reduce,
    Scan,
    SplitError,
    Var,
    View,
    flatten,
    strides_of,
    unflatten,
)

ZERO = Affine()


@dataclass(eq=False)
class Value:
    """A value inside a kernel.

    Attributes:
        kind: load, constant, point, mask or reduce.
        uses: loop variables that it depends on.
        stage: how many reductions, one after the other, it waits for.
        offset: of a load; of an argmax: the position that it reports.
        conditions: (index, size) pairs; a load or mask holds where 0 <= index < size in all of them, and is
            ``constant`` elsewhere.
    """

    kind: str
    dtype: str = FLOAT
    uses: frozenset[Var] = frozenset()
    stage: int = 0
    op: str = ""
    args: tuple[Value, ...] = ()
    buffer: Buffer | None = None
    offset: Affine = ZERO
    conditions: tuple[tuple[Affine, int], ...] = ()
    constant: float | bool = 0.0
    number: int = 0


@dataclass
class Store:
    """Write a value to a buffer."""

    buffer: Buffer
    offset: Affine
    value: Value


@dataclass
class Destination:
    """Where a node's elements go."""

    buffer: Buffer
    strides: tuple[int, ...]
    start: int = 0


@dataclass
class Kernel:
    """A traced kernel: its loop variables in the order of the root's dimensions, and what it writes."""

    variables: list[Var]
    stores: list[Store]
    needs: list[Node] = field(default_factory=list)
    stored: list[Node] = field(default_factory=list)


def covers(idx: Index, shape: tuple[int, ...]) -> bool:
    """Whether an index runs over each element of a shape exactly once as its variables run over their values."""
    seen: set[Var] = set()
    for i, n in zip(idx, shape, strict=True):
        expected = 1
        for var, c in sorted(i.terms, key=lambda t: t[1]):
            if c != expected or var in seen:
                return False
            seen.add(var)
            expected *= var.size
        if expected != n or i.constant:
            return False
    return True


class Tracer:
    """Traces the kernel of one root.

    Args:
        root: what to store.
        destination: where.
        realized: buffers of nodes that have one.
        wanted: other nodes that need a buffer; those that come up on the way are stored as well.
        min_rows: a reduction with fewer results than this joins only if it is over at most ``short`` elements.
        fuse: whether any reduction but the root joins.
    """

    def __init__(
        self,
        root: Node,
        destination: Destination,
        realized: dict[Node, Buffer],
        wanted: dict[Node, Buffer],
        *,
        min_rows: int,
        short: int,
        fuse: bool = True,
    ):
        self.root, self.destination, self.realized, self.wanted = root, destination, realized, wanted
        self.min_rows, self.short, self.fuse = min_rows, short, fuse
        self.dims: list[list[Var]] = [[Var(n)] if n > 1 else [] for n in root.shape]
        self.extra: list[list[Var]] | None = None

    def run(self) -> Kernel:
        """Trace, splitting loop variables until every index is a sum of multiples of them."""
        while True:
            try:
                return self._trace()
            except SplitError as split:
                self._split(split.var, split.inner)

    def _split(self, var: Var, inner: int) -> None:
        for group in self.dims + (self.extra or []):
            if var in group:
                at = group.index(var)
                group[at : at + 1] = [Var(var.size // inner), Var(inner)]
                return
        raise AssertionError("split of a variable that is not in this kernel")

    def _trace(self) -> Kernel:
        self.memo: dict[tuple, Value] = {}
        self.needs: list[Node] = []
        self.reduced: list[Var] | None = None
        self.found: dict[Node, tuple[Index, Value]] = {}
        root_index = tuple(row_major(group) for group in self.dims)
        value = self.value(self.root, root_index, ())
        to = self.destination
        stores = [Store(to.buffer, flatten(root_index, to.strides).shifted(to.start), value)]
        stored = []
        for node, (idx, found) in self.found.items():
            if node in self.wanted and node is not self.root and covers(idx, node.shape):
                stores.append(Store(self.wanted[node], flatten(idx, strides_of(node.shape)), found))
                stored.append(node)
        variables = [v for group in self.dims + (self.extra or []) for v in group]
        for var in variables:
            var.reduced = var in (self.reduced or ())
        return Kernel(variables, stores, self.needs, stored)

    def value(self, node: Node, idx: Index, conditions: tuple) -> Value:
        """The value of a node at an index."""
        key = (node, idx, conditions)
        if key not in self.memo:
            self.memo[key] = value = self._value(node, idx, conditions)
            value.number = len(self.memo)
            if node in self.wanted and not conditions:
                self.found.setdefault(node, (idx, value))
        return self.memo[key]

    def _load(self, buffer: Buffer, offset: Affine, conditions: tuple) -> Value:
        key = (buffer, offset, conditions)
        if key not in self.memo:
            uses = offset.variables().union(*(i.variables() for i, _ in conditions))
            self.memo[key] = Value("load", buffer.dtype, uses, buffer=buffer, offset=offset, conditions=conditions)
        return self.memo[key]

    def _need(self, node: Node) -> Value:
        if node not in self.needs:
            self.needs.append(node)
        return Value("constant", node.dtype)

    def _value(self, node: Node, idx: Index, conditions: tuple) -> Value:
        if node in self.realized and node is not self.root:
            return self._load(self.realized[node], flatten(idx, strides_of(node.shape)), conditions)
        if isinstance(node, Leaf):
            return self._load(node.buffer, flatten(idx, node.strides), conditions)
        if isinstance(node, Constant):
            return Value("constant", node.dtype, constant=node.value)
        if isinstance(node, Point):
            lead = len(node.shape)
            args = []
            for arg in node.args:
                own = idx[lead - len(arg.shape) :]
                own = tuple(Affine() if n == 1 else i for i, n in zip(own, arg.shape, strict=True))
                args.append(self.value(arg, own, conditions))
            return Value("point", node.dtype, _uses(args), _stage(args), node.op, tuple(args))
        if isinstance(node, View):
            return self._view(node, idx, conditions)
        if isinstance(node, Reduce):
            return self._need(node) if conditions else self._reduce(node, idx)
        assert isinstance(node, Concat | Scan)
        return self._need(node)

    def _view(self, node: View, idx: Index, conditions: tuple) -> Value:
        arg = node.arg
        if node.flat and arg in self.realized:
            return self._load(self.realized[arg], flatten(idx, strides_of(node.shape)), conditions)
        try:
            inner = node.index(idx)
        except NotAffineError:
            return self._need(arg)
        if not node.bounds:
            return self.value(arg, inner, conditions)
        own = tuple((inner[d], arg.shape[d]) for d in node.bounds)
        value = self.value(arg, inner, conditions + own)
        if value.kind == "load" and value.conditions == own:
            return replace(value, constant=node.fill)
        uses = value.uses.union(*(i.variables() for i, _ in own))
        return Value("mask", node.dtype, uses, value.stage, args=(value,), conditions=own, constant=node.fill)

    def _reduce(self, node: Reduce, idx: Index) -> Value:
        used = frozenset().union(*(i.variables() for i in idx))
        sizes = tuple(node.arg.shape[d] for d in node.dims)
        everything = [v for group in self.dims for v in group]
        if self.reduced is None:
            reduced = [v for v in everything if v not in used]
            if not reduced:
                if self.extra is None:
                    self.extra = [[Var(n)] if n > 1 else [] for n in sizes]
                reduced = [v for group in self.extra for v in group]
        else:
            reduced = self.reduced
        rows = math.prod(v.size for v in used)
        joins = (
            math.prod(v.size for v in reduced) == math.prod(sizes)
            and not used & set(reduced)
            and used | set(reduced) >= set(everything)
            and (node is self.root or (self.fuse and (rows >= self.min_rows or math.prod(sizes) <= self.short)))
        )
        if not joins:
            return self._need(node)
        try:
            over = unflatten(row_major(reduced), sizes)
        except NotAffineError:
            return self._need(node)
        self.reduced = reduced
        inner, rest = iter(over), iter(idx)
        full = tuple(next(inner) if d in node.dims else next(rest) for d in range(len(node.arg.shape)))
        body = self.value(node.arg, full, ())
        position = flatten(over, strides_of(sizes))
        return Value("reduce", node.dtype, used, body.stage + 1, node.op, (body,), offset=position)


def row_major(group: list[Var]) -> Affine:
    """Position within several loop variables, the last of them fastest."""
    terms, step = {}, 1
    for var in reversed(group):
        terms[var] = step
        step *= var.size
    return Affine.of(terms)


def _uses(values: list[Value]) -> frozenset[Var]:
    return frozenset().union(*(v.uses for v in values))


def _stage(values: list[Value]) -> int:
    return max((v.stage for v in values), default=0)

"""Which kernels a program needs, and in which order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .ir import Buffer, Concat, GiveUpError, Leaf, Node, Program, Reduce, Scan, View, reshape_index, strides_of
from .trace import Destination, Kernel, Tracer


@dataclass(frozen=True)
class Machine:
    """What the target likes.

    Attributes:
        min_rows: rows that keep it busy; fewer long reductions are done in two steps.
        short: a reduction over at most so many elements is never worth two steps.
        chunks: about how many pieces the first of two steps has.
        fuse: whether reductions may join the kernel of what uses them.
    """

    min_rows: int
    short: int
    chunks: int
    fuse: bool = True


CPU = Machine(min_rows=4, short=8192, chunks=64)
GPU = Machine(min_rows=128, short=4096, chunks=1024)


@dataclass
class Scanning:
    """A running sum or product along one dimension, as a kernel of its own: [outer, n, inner]."""

    op: str
    source: Buffer
    target: Buffer
    outer: int
    n: int
    inner: int


@dataclass
class Schedule:
    """Kernels in order; the buffers to allocate and those to return."""

    kernels: list[Kernel | Scanning]
    temporaries: list[Buffer]
    outputs: list[Buffer]


class Scheduler:
    """Gives nodes buffers, in an order in which each kernel finds what it reads."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.realized: dict[Node, Buffer] = {}
        self.kernels: list[Kernel | Scanning] = []
        self.temporaries: list[Buffer] = []

    def schedule(self, program: Program) -> Schedule:
        wanted = {}
        outputs = []
        for i, node in enumerate(program.outputs):
            if node not in wanted:
                wanted[node] = Buffer(f"out{i}", node.shape, node.dtype)
            outputs.append(wanted[node])
        for node in reversed(list(wanted)):
            self.realize(node, wanted)
        distinct = list(dict.fromkeys(outputs))
        return Schedule(self.kernels, [b for b in self.temporaries if b not in distinct], outputs)

    def _buffer(self, node: Node, wanted: dict[Node, Buffer]) -> Buffer:
        if node in wanted:
            return wanted[node]
        buffer = Buffer(f"tmp{len(self.temporaries)}", node.shape, node.dtype)
        self.temporaries.append(buffer)
        return buffer

    def realize(self, node: Node, wanted: dict[Node, Buffer]) -> Buffer:
        """Emit the kernels that fill a node's buffer, unless it is filled already."""
        if node in self.realized:
            return self.realized[node]
        buffer = self._buffer(node, wanted)
        if isinstance(node, Concat):
            self._concat(node, buffer, wanted)
        elif isinstance(node, Scan):
            self._scan(node, buffer, wanted)
        elif isinstance(node, Reduce) and (partial := self._two_steps(node)) is not None:
            self._fill(partial, Destination(buffer, strides_of(node.shape)), wanted)
        else:
            self._fill(node, Destination(buffer, strides_of(node.shape)), wanted)
        self.realized[node] = buffer
        return buffer

    def _fill(self, node: Node, to: Destination, wanted: dict[Node, Buffer]) -> None:
        machine = self.machine
        while True:
            kernel = Tracer(
                node,
                to,
                self.realized,
                wanted,
                min_rows=machine.min_rows,
                short=machine.short,
                fuse=machine.fuse,
            ).run()
            if not kernel.needs:
                break
            self._realize_all(kernel.needs, wanted)
        pending = [n for n in kernel.stored if n not in self.realized]
        kernel.stores = [
            s for s in kernel.stores if s.buffer is to.buffer or any(wanted[n] is s.buffer for n in pending)
        ]
        for stored in pending:
            self.realized[stored] = wanted[stored]
        self.kernels.append(kernel)

    def _realize_all(self, nodes: list[Node], wanted: dict[Node, Buffer]) -> None:
        """The last of them first: its kernel often computes the others on the way."""
        more = dict(wanted)
        for node in nodes:
            if node not in more:
                more[node] = self._buffer(node, wanted)
        for node in reversed(nodes):
            self.realize(node, more)

    def _concat(self, node: Concat, buffer: Buffer, wanted: dict[Node, Buffer]) -> None:
        strides, start = strides_of(node.shape), 0
        for part in node.parts:
            self._fill(part, Destination(buffer, strides, start * strides[node.dim]), wanted)
            start += part.shape[node.dim]

    def _scan(self, node: Scan, buffer: Buffer, wanted: dict[Node, Buffer]) -> None:
        if isinstance(node.arg, Leaf) and node.arg.strides == strides_of(node.shape):
            source = node.arg.buffer
        else:
            source = self.realize(node.arg, wanted)
        outer, inner = math.prod(node.shape[: node.dim]), math.prod(node.shape[node.dim + 1 :])
        self.kernels.append(Scanning(node.op, source, buffer, outer, node.shape[node.dim], inner))

    def _two_steps(self, node: Reduce) -> Reduce | None:
        """A long reduction with few results as one over partial results; None if one step is right."""
        arg, machine = node.arg, self.machine
        over = math.prod(arg.shape[d] for d in node.dims)
        if node.numel >= machine.min_rows or over <= machine.short or node.op.startswith("arg"):
            return None
        first, kept = node.dims[0], node.numel
        n = arg.shape[first]
        limit = max(2, machine.chunks // kept)
        chunks = max((c for c in range(2, min(n, 2 * limit) + 1) if n % c == 0), default=None)
        if chunks is None:
            return None
        if chunks < n:
            shape = (*arg.shape[:first], chunks, n // chunks, *arg.shape[first + 1 :])
            arg = View(shape, arg.dtype, arg, reshape_index(arg.shape, shape), flat=True)
            dims = (first + 1, *(d + 1 for d in node.dims[1:]))
        elif len(node.dims) > 1:
            dims = node.dims[1:]
        else:
            return None
        left = tuple(size for d, size in enumerate(arg.shape) if d not in dims)
        partial = Reduce(left, node.dtype, node.op, arg, dims)
        self.temporaries.append(buffer := Buffer(f"tmp{len(self.temporaries)}", left, node.dtype))
        self._fill(partial, Destination(buffer, strides_of(left)), {})
        self.realized[partial] = buffer
        at = sum(d not in node.dims for d in range(first))
        return replace(node, arg=partial, dims=(at,))


def schedule(program: Program, machine: Machine) -> Schedule:
    """Kernels for a program.

    Raises:
        GiveUpError: the program does nothing or holds an empty tensor.
    """
    if any(not node.numel for node in program.outputs):
        raise GiveUpError("empty tensors")
    return Scheduler(machine).schedule(program)

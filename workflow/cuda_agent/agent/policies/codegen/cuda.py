"""Kernels in CUDA.

Three forms. *Elementwise*: four neighbours at a time (float4), several times a thread. *By row*: a warp or a block for
each row, float4 along it; what several passes read stays in shared memory, so that a row is read from memory once. *By
column*: a thread for each result, neighbours in memory in one warp; threads below share a long reduction. Short rows go
that way too.
"""

from __future__ import annotations

import math

from .ir import FLOAT, GiveUpError, Var
from .plan import Plan, kept_between_passes, plan
from .prelude_cuda import PRELUDE
from .schedule import Scanning, Schedule
from .text import START, access, affine, decode, expression, indented, literal
from .trace import Store, Value
from .writer import touched

OPERATIONS = {"sum": "Sum", "prod": "Product", "max": "Max", "min": "Min"}
SHARED_BYTES = 100_000  # of what is kept between passes, for one block: two blocks fit on a multiprocessor
WIDTH = 4
SHORT_ROW = 32  # a row with fewer values is one thread's
MANY_BLOCKS = 4096  # enough for every multiprocessor to have some at any time


def source(name: str, schedule: Schedule, arguments: str) -> str:
    """Text of the .cu file: one kernel after the other on the given stream."""
    parts, launches = [], []
    for k, kernel in enumerate(schedule.kernels):
        writes, reads = touched(kernel)
        declared = [f"{b.dtype}* __restrict__ {b.name}" for b in writes]
        declared += [f"const {b.dtype}* __restrict__ {b.name}" for b in reads]
        written = _scan(kernel) if isinstance(kernel, Scanning) else _Writer(plan(kernel)).write()
        body = "\n".join(line if line.startswith("#") else f"  {line}" for line in written.body)
        bounds = f"__launch_bounds__({math.prod(written.block)}) "
        parts.append(f"__global__ void {bounds}kernel{k}({', '.join(declared)}) {{\n{body}\n}}\n")
        passed = ", ".join(b.name for b in [*writes, *reads])
        if written.shared > 48 * 1024:
            launches.append(
                f"  cudaFuncSetAttribute(kernel{k}, cudaFuncAttributeMaxDynamicSharedMemorySize, {written.shared});"
            )
        block = ", ".join(map(str, written.block))
        shape = f"{written.grid}, dim3({block}), {written.shared}, static_cast<cudaStream_t>(stream)"
        launches.append(f"  kernel{k}<<<{shape}>>>({passed});")
    joined, launched = "\n".join(parts), "\n".join(launches)
    return f'{PRELUDE}\n{joined}\nextern "C" void {name}_launcher({arguments}) {{\n{launched}\n}}\n'


class _Written:
    def __init__(self, body: list[str], grid: int, block: tuple[int, int], shared: int = 0):
        if grid >= 2**31:
            raise GiveUpError("a tensor too large for one launch")
        self.body, self.grid, self.block, self.shared = body, grid, block, shared


class _Writer:
    """One kernel. The passes over a row are flat loops, shared by the ``group`` of threads that work on the row."""

    def __init__(self, p: Plan):
        self.plan = p
        self.by_row = p.by_row
        self.elementwise = not p.stages and not p.over
        self.row_vars = [*p.rows, *([] if self.by_row else [p.lane])]
        self.pass_vars = p.passes if not self.elementwise or self.by_row else []
        self.rows = math.prod(v.size for v in self.row_vars)
        self.length = math.prod(v.size for v in self.pass_vars)
        self.names: dict[Var, str] = {v: f"i{k}" for k, v in enumerate(self.row_vars)}
        self.names.update({v: f"r{k}" for k, v in enumerate(self.pass_vars)})
        self.names.setdefault(p.lane, "0")
        self.numbers: dict[Value, int] = {}
        if self.by_row and not self.elementwise and self.length < SHORT_ROW:
            self.by_row = False  # most of a warp would have nothing to do
        self.width = WIDTH if (self.by_row or self.elementwise) and self._aligned() else 1
        self.kept: list[Value] = []
        self.filled: set[Value] = set()
        self.at_row: set[Value] = set()
        self.out: list[str] = []

    def _aligned(self) -> bool:
        """Whether four neighbours along the vectorised variable lie together in all that is read and written."""
        lane = self.plan.lane
        loads = [v for v in self.plan.values if v.kind == "load" and lane in v.uses]
        stores = [s for s in self.plan.stores if lane in s.offset.variables()]
        if lane.size % WIDTH or any(v.conditions for v in self.plan.values):
            return False
        if any(v.kind == "reduce" and v.op.startswith("arg") for v in self.plan.values):
            return False
        for access_ in [*loads, *stores]:
            dtype = access_.dtype if isinstance(access_, Value) else access_.buffer.dtype
            rest = [c for v, c in access_.offset.terms if v is not lane] + [access_.offset.constant]
            if access_.offset.coefficient(lane) != 1 or dtype != FLOAT or any(c % WIDTH for c in rest):
                return False
        return True

    def number(self, value: Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def write(self) -> _Written:
        if self.elementwise:
            return self._elementwise()
        if self.by_row:
            each = self.length // self.width
            self.group = next((t for t in (32, 128, 256, 512) if each <= 8 * t), 1024)
            per_block = 256 // self.group if self.group < 256 else 1
            block, grid = (self.group, per_block), -(-self.rows // per_block)
            row = f"int64_t(blockIdx.x) * {per_block} + threadIdx.y" if per_block > 1 else "blockIdx.x"
            self.reducer, self.thread = "reduce_row", "threadIdx.x"
            head = [f"const int64_t row = {row};"]
            if self.rows % per_block:
                head.append(f"if (row >= {self.rows}) return;")
            self.guard = ""
            room = SHARED_BYTES // (4 * self.length * per_block)
            self.kept = [v for v in kept_between_passes(self.plan, loads=True) if v.dtype == FLOAT][:room]
            shared = 4 * self.length * per_block * len(self.kept)
            if self.kept:
                head += ["extern __shared__ float4 memory[];"]
                start = f" + threadIdx.y * {self.length * len(self.kept)}" if per_block > 1 else ""
                head.append(f"float* keep = reinterpret_cast<float*>(memory){start};")
        else:
            busy = self.rows >= 1 << 17 or self.length < 16
            self.group = 1 if busy else min(32, 1 << (self.length // 4).bit_length())
            width = 256 if self.group == 1 else 32
            block, grid, shared = (width, self.group), -(-self.rows // width), 0
            self.reducer, self.thread = "reduce_column", "threadIdx.y"
            head = [f"int64_t row = int64_t(blockIdx.x) * {width} + threadIdx.x;"]
            self.guard = ""
            if self.rows % width:
                self.guard = "row_is_there"
                head += [f"const bool row_is_there = row < {self.rows};", f"if (!row_is_there) row = {self.rows - 1};"]
        head += decode("row", self.row_vars, self.names)
        self._passes()
        return _Written([*head, *self.out], grid, block, shared)

    def _passes(self) -> None:
        p = self.plan
        for stage in p.stages:
            self._pass(stage, [])
            self.at_row |= set(stage)
        element = [s for s in p.stores if p.is_element(s.value) or set(s.offset.variables()) & set(self.pass_vars)]
        if element:
            self._pass([], element)
        first = f"{self.thread} == 0" if self.group > 1 else ""
        for store in p.stores:
            if store not in element:
                line = f"{access(store.buffer, store.offset, self.names)} = {self._row_text(store.value)};"
                condition = " && ".join(c for c in (self.guard, first) if c)
                self.out.append(f"if ({condition}) {line}" if condition else line)

    def _row_text(self, value: Value) -> str:
        if value.kind == "constant":
            return literal(value.constant, value.dtype)
        if value not in self.at_row:
            text = expression(value, self.names, self._row_text)
            self.out.append(f"const {value.dtype} t{self.number(value)} = {text};")
            self.at_row.add(value)
        return f"t{self.number(value)}"

    def _pass(self, reductions: list[Value], stores: list[Store]) -> None:
        """One loop over the row, shared by the group; threads take ``width`` neighbours at a time."""
        if any(r.op not in OPERATIONS for r in reductions):
            raise GiveUpError("positions of extremes on GPUs")
        lines = self._body(reductions, stores)
        self.out += [f"float t{self.number(r)} = {START[r.op]};" for r in reductions]
        start = self.thread if self.width == 1 else f"{self.thread} * {self.width}"
        step = self.group * self.width
        if self.group == 1:
            start = "0"
        self.out.append(f"#pragma unroll {4 if self.length >= 4 * step else 1}")
        self.out.append(f"for (int k = {start}; k < {self.length}; k += {step}) {{")
        self.out += indented([*decode("k", self.pass_vars, self.names, "int"), *lines], 1)
        self.out.append("}")
        for r in reductions:
            n = self.number(r)
            if self.group > 1:
                self.out.append(f"t{n} = {self.reducer}<{OPERATIONS[r.op]}, {self.group}>(t{n});")

    def _body(self, reductions: list[Value], stores: list[Store]) -> list[str]:
        """Statements for ``width`` neighbours: wide loads, a loop over them, wide stores."""
        wide = self.width > 1
        before: list[str] = []
        inner: list[str] = []
        after: list[str] = []
        done: set[Value] = set()

        def text(value: Value) -> str:
            if value.kind == "constant":
                return literal(value.constant, value.dtype)
            if not self._varies(value):
                return self._row_text(value)
            n = self.number(value)
            if value in done:
                return f"t{n}"
            done.add(value)
            if value in self.filled:
                place = f"keep + {self.kept.index(value) * self.length} + k"
                before.append(f"const float4 w{n} = *reinterpret_cast<const float4*>({place});" if wide else "")
                inner.append(f"const float t{n} = {f'(&w{n}.x)[v]' if wide else f'*({place})'};")
                return f"t{n}"
            if wide and value.kind == "load" and self.plan.lane in value.uses:
                place = f"{value.buffer.name} + {affine(value.offset, self.names)}"
                before.append(f"const float4 w{n} = *reinterpret_cast<const float4*>({place});")
                inner.append(f"const float t{n} = (&w{n}.x)[v];")
            else:
                inner.append(f"const {value.dtype} t{n} = {expression(value, self.names, text)};")
            if value in self.kept:
                place = f"keep + {self.kept.index(value) * self.length} + k"
                if wide:
                    before.append(f"float4 s{n};")
                    inner.append(f"(&s{n}.x)[v] = t{n};")
                    after.append(f"*reinterpret_cast<float4*>({place}) = s{n};")
                else:
                    after.append(f"*({place}) = t{n};")
                kept_now.append(value)
            return f"t{n}"

        kept_now: list[Value] = []
        for r in reductions:
            term, n = text(r.args[0]), self.number(r)
            inner.append(f"t{n} = {OPERATIONS[r.op]}::of(t{n}, {term});")
        for k, store in enumerate(stores):
            term = text(store.value)
            if wide:
                before.append(f"float4 o{k};")
                inner.append(f"(&o{k}.x)[v] = {term};")
                place = f"{store.buffer.name} + {affine(store.offset, self.names)}"
                after.append(f"*reinterpret_cast<float4*>({place}) = o{k};")
            else:
                line = f"{access(store.buffer, store.offset, self.names)} = {term};"
                after.append(f"if ({self.guard}) {line}" if self.guard else line)
        self.filled |= set(kept_now)
        before = [line for line in before if line]
        if wide:
            loop = ["#pragma unroll", f"for (int v = 0; v < {self.width}; ++v) {{", *indented(inner, 1), "}"]
            return [*before, *loop, *after]
        return [*before, *inner, *after]

    def _varies(self, value: Value) -> bool:
        return self.elementwise or self.plan.is_element(value)

    def _elementwise(self) -> _Written:
        total = self.rows * self.length
        variables = [*self.row_vars, *self.pass_vars]
        self.names = {v: f"i{k}" for k, v in enumerate(variables)} | {Var(1): "0"}
        self.guard = ""
        lines = self._body([], self.plan.stores)
        count = total // self.width
        # Loads that do not wait for each other keep more of memory busy; a grid too small would leave it idle.
        times = next((t for t in (4, 2) if count % (256 * t) == 0 and count >= 256 * t * MANY_BLOCKS), 1)
        grid = max(1, -(-count // (256 * times)))
        first = "int64_t(blockIdx.x)" if times == 1 else f"(int64_t(blockIdx.x) * {times} + u)"
        thread = f"{first} * 256 + threadIdx.x"
        head = [f"const int64_t k = ({thread}) * {self.width};" if self.width > 1 else f"const int64_t k = {thread};"]
        if count % 256:
            head.append(f"if (k >= {total}) return;")
        kind = "int64_t" if total >= 2**31 else "uint32_t"
        position = "k" if kind == "int64_t" else "uint32_t(k)"
        body = [*head, *decode(position, variables, self.names, "int64_t"), *lines]
        if times > 1:
            body = ["#pragma unroll", f"for (int u = 0; u < {times}; ++u) {{", *indented(body, 1), "}"]
        return _Written(body, grid, (256, 1))


def _scan(s: Scanning) -> _Written:
    """A thread for each line where lines lie side by side; else a warp for each, with a running total."""
    sign, start, op = ("+", "0.0f", "Sum") if s.op == "sum" else ("*", "1.0f", "Product")
    if s.inner > 1:
        total = s.outer * s.inner
        body = [
            "const int64_t row = int64_t(blockIdx.x) * 128 + threadIdx.x;",
            f"if (row >= {total}) return;",
            f"const int64_t first = row / {s.inner} * {s.n * s.inner} + row % {s.inner};",
            f"float total = {start};",
            "#pragma unroll 8",
            f"for (int64_t k = first; k < first + {s.n * s.inner}; k += {s.inner}) {{",
            f"  total = total {sign} {s.source.name}[k];",
            f"  {s.target.name}[k] = total;",
            "}",
        ]
        return _Written(body, -(-total // 128), (128, 1))
    body = [
        "const int64_t row = int64_t(blockIdx.x) * 8 + threadIdx.y;",
        f"if (row >= {s.outer}) return;",
        f"float before = {start};",
        f"for (int k = 0; k < {s.n}; k += 32) {{",
        "  const int at = k + threadIdx.x;",
        f"  float x = at < {s.n} ? {s.source.name}[row * {s.n} + at] : {start};",
        "#pragma unroll",
        "  for (int step = 1; step < 32; step *= 2) {",
        "    const float other = __shfl_up_sync(0xffffffffu, x, step);",
        f"    if (threadIdx.x >= step) x = {op}::of(x, other);",
        "  }",
        f"  x = {op}::of(before, x);",
        f"  if (at < {s.n}) {s.target.name}[row * {s.n} + at] = x;",
        "  before = __shfl_sync(0xffffffffu, x, 31);",
        "}",
    ]
    return _Written(body, -(-s.outer // 8), (32, 8))

"""Kernels in C++: OpenMP over rows, vectorised loops within them."""

from __future__ import annotations

import math

from .ir import Var
from .plan import Plan, kept_between_passes, plan, split_lane
from .schedule import Scanning
from .text import START, access, affine, decode, expression, indented, literal
from .trace import Kernel, Value

KEPT_ELEMENTS = 32768  # of what is kept between passes, for one thread
SERIAL = 16384  # work over fewer elements is not worth starting threads


def kernel_body(kernel: Kernel | Scanning) -> list[str]:
    """Statements of one kernel, to be put into a function that has its buffers as arguments."""
    if isinstance(kernel, Scanning):
        return _scan(kernel)
    p = plan(kernel)
    split_lane(p, least_rows=64, length=4096)
    return _ByRow(p).write() if p.by_row or not (p.stages or p.over) else _ByLane(p).write()


class _Writer:
    def __init__(self, p: Plan):
        self.plan = p
        self.names: dict[Var, str] = {v: f"i{k}" for k, v in enumerate(p.rows)}
        self.names.update({v: f"r{k}" for k, v in enumerate(p.over)})
        self.names[p.lane] = "l"
        self.numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def loops(self, work: list[list[str]], inner: list[str], inner_head: list[str]) -> list[str]:
        """Nested loops over ``over`` with statements at each depth, and an innermost one."""
        out: list[str] = []
        for depth, var in enumerate(self.plan.over):
            if depth:
                out += indented(work[depth], depth)
            name = self.names[var]
            out.append("  " * depth + f"for (int64_t {name} = 0; {name} < {var.size}; ++{name}) {{")
        depth = len(self.plan.over)
        if depth:
            out += indented(work[depth], depth)
        out += [*inner_head, *indented(inner, depth)]
        out += ["  " * d + "}" for d in reversed(range(depth))]
        return out

    def parallel(self, count: int, per_row: int, body: list[str], head: list[str]) -> list[str]:
        if count == 1:
            return ["{", *indented([*head, *body], 1), "}"]
        serial = f" if({count * per_row} >= {SERIAL})" if count * per_row < SERIAL else ""
        start = [] if serial else ["#pragma omp parallel for schedule(static)"]
        return [*start, f"for (int64_t row = 0; row < {count}; ++row) {{", *indented([*head, *body], 1), "}"]


def accumulate(value: Value, target: str, term: str) -> str:
    """One step of a reduction."""
    if value.op in ("sum", "prod"):
        return f"{target} {'+' if value.op == 'sum' else '*'}= {term};"
    return f"{target} = {target} {'<' if value.op == 'max' else '>'} {term} ? {term} : {target};"


class _ByRow(_Writer):
    """The vectorised loop runs along a row; reductions accumulate in scalars."""

    def write(self) -> list[str]:
        p = self.plan
        length = math.prod(v.size for v in p.passes) if p.stages else p.lane.size
        self.keep = [v for v in kept_between_passes(p, loads=False) if p.lane in v.uses] if p.stages else []
        self.keep = self.keep[: KEPT_ELEMENTS // max(1, length)]
        self.kept: set[Value] = set()
        self.row: list[str] = []
        self.at_row: set[Value] = set()
        out: list[str] = []
        for value in self.keep:
            out.append(f"alignas(64) float k{self.number(value)}[{length}];")
        for stage in p.stages:
            nest = self.loop_nest(stage, [])
            out += [*self.take_row(), *nest]
            for reduction in stage:
                self.at_row.add(reduction)
                if reduction.op.startswith("arg"):
                    n = self.number(reduction)
                    out.append(f"const int64_t t{n} = p{n};")
        element = [
            s
            for s in p.stores
            if p.is_element(s.value) or any(v is p.lane or v in p.over for v in s.offset.variables())
        ]
        if element:
            nest = self.loop_nest([], element)
            out += [*self.take_row(), *nest]
        for store in p.stores:
            if store not in element:
                text = self.text_at_row(store.value)
                self.row.append(f"{access(store.buffer, store.offset, self.names)} = {text};")
        out += self.take_row()
        rows = math.prod(v.size for v in p.rows)
        if rows == 1 and not p.stages and p.lane.size >= SERIAL:
            at = out.index("#pragma omp simd")
            out[at] = "#pragma omp parallel for simd schedule(static)"
        return self.parallel(rows, max(1, length), out, decode("row", p.rows, self.names) if rows > 1 else [])

    def take_row(self) -> list[str]:
        lines, self.row = self.row, []
        return lines

    def text_at_row(self, value: Value) -> str:
        if value.kind == "constant":
            return literal(value.constant, value.dtype)
        if value not in self.at_row:
            text = expression(value, self.names, self.text_at_row)
            self.row.append(f"const {value.dtype} t{self.number(value)} = {text};")
            self.at_row.add(value)
        return f"t{self.number(value)}"

    def loop_nest(self, reductions: list[Value], stores: list) -> list[str]:
        p = self.plan
        depths: list[list[str]] = [[] for _ in range(len(p.over) + 1)]
        inner: list[str] = []
        done: set[Value] = set()
        place = " + ".join(
            self.names[v] if step == 1 else f"{self.names[v]} * {step}"
            for v, step in zip(p.passes, _steps(p.passes), strict=True)
        )

        def text(value: Value) -> str:
            if value.kind == "constant":
                return literal(value.constant, value.dtype)
            depth = self.depth(value)
            if depth == 0:
                return self.text_at_row(value)
            n = self.number(value)
            if value in done:
                return f"t{n}"
            done.add(value)
            lines = inner if depth > len(p.over) else depths[depth]
            if value in self.kept:
                inner.append(f"const {value.dtype} t{n} = k{n}[{place}];")
                return f"t{n}"
            line = f"const {value.dtype} t{n} = {expression(value, self.names, text)};"
            lines.append(line)
            if value in self.keep:
                inner.append(f"k{n}[{place}] = t{n};")
                self.kept.add(value)
            return f"t{n}"

        clauses, starts = [], []
        for r in reductions:
            term, n = text(r.args[0]), self.number(r)
            if r.op.startswith("arg"):
                starts.append(f"float b{n} = {START[r.op[3:]]};")
                starts.append(f"int64_t p{n} = 0;")
                better = ">" if r.op == "argmax" else "<"
                inner.append(f"if ({term} {better} b{n}) {{ b{n} = {term}; p{n} = {affine(r.offset, self.names)}; }}")
                continue
            starts.append(f"float t{n} = {START[r.op]};")
            inner.append(accumulate(r, f"t{n}", term))
            sign = {"sum": "+", "prod": "*"}.get(r.op, r.op)
            clauses.append(f"reduction({sign} : t{n})")
        for store in stores:
            inner.append(f"{access(store.buffer, store.offset, self.names)} = {text(store.value)};")
        head = ["#pragma omp simd" + "".join(f" {c}" for c in clauses)]
        if any(r.op.startswith("arg") for r in reductions):
            head = []
        loop = [f"for (int64_t l = 0; l < {p.lane.size}; ++l) {{", *indented(inner, 1), "}"]
        self.row += starts
        return self.loops(depths, loop, head)

    def depth(self, value: Value) -> int:
        """0 for what is the same within a row; else how many loops it stands in."""
        if self.plan.lane in value.uses:
            return len(self.plan.over) + 1
        return max((k + 1 for k, v in enumerate(self.plan.over) if v in value.uses), default=0)


class _ByLane(_Writer):
    """The vectorised loop runs across rows; reductions accumulate in short arrays, one element for each of the rows."""

    def write(self) -> list[str]:
        p = self.plan
        outer = math.prod(v.size for v in p.rows)
        length = math.prod(v.size for v in p.over)
        block = next((b for b in (256, 128, 64) if outer * (p.lane.size // b) >= 16 and b * length <= 65536), 32)
        self.block = block = min(block, p.lane.size)
        self.arrays: set[Value] = set()
        self.scalars: set[Value] = set()
        self.row: list[str] = []
        out: list[str] = []
        blocks = -(-p.lane.size // block)
        for stage in p.stages:
            nest = self.loop_nest(stage, [])
            out += [*self.take(), *nest]
            self.arrays |= set(stage)
        element = [s for s in p.stores if p.is_element(s.value) or any(v in p.over for v in s.offset.variables())]
        if element:
            nest = self.loop_nest([], element)
            out += [*self.take(), *nest]
        rest = [s for s in p.stores if s not in element]
        if rest:
            lines: list[str] = []
            done: set[Value] = set()
            for store in rest:
                text = self.lane_text(store.value, lines, done)
                lines.append(f"{access(store.buffer, store.offset, self.names)} = {text};")
            out += [*self.take(), *self.lane_loop(lines)]
        chunk = Var(blocks)
        names = {**self.names, chunk: "block"}
        head = decode("row", [*p.rows, chunk], names) if outer * blocks > 1 else ["const int64_t block = 0;"]
        head.append(f"const int64_t first = block * {block};")
        if p.lane.size % block:
            head.append(f"const int64_t count = {p.lane.size} - first < {block} ? {p.lane.size} - first : {block};")
        return self.parallel(outer * blocks, block * length, out, head)

    def take(self) -> list[str]:
        lines, self.row = self.row, []
        return lines

    def lane_loop(self, lines: list[str]) -> list[str]:
        count = "count" if self.plan.lane.size % self.block else str(self.block)
        return [
            "#pragma omp simd",
            f"for (int64_t j = 0; j < {count}; ++j) {{",
            "  const int64_t l = first + j;",
            *indented(lines, 1),
            "}",
        ]

    def scalar_text(self, value: Value) -> str:
        """The text of a value that is the same for the whole block."""
        if value.kind == "constant":
            return literal(value.constant, value.dtype)
        if value not in self.scalars:
            text = expression(value, self.names, self.scalar_text)
            self.row.append(f"const {value.dtype} t{self.number(value)} = {text};")
            self.scalars.add(value)
        return f"t{self.number(value)}"

    def lane_text(self, value: Value, lines: list[str], done: set[Value]) -> str:
        """The text, in a loop over the block, of a value that is the same within a row."""
        if self.plan.lane not in value.uses:
            return self.scalar_text(value)
        n = self.number(value)
        if value in self.arrays:
            return f"a{n}[j]"
        if value not in done:
            text = expression(value, self.names, lambda v: self.lane_text(v, lines, done))
            lines.append(f"const {value.dtype} t{n} = {text};")
            done.add(value)
        return f"t{n}"

    def array_text(self, value: Value) -> str:
        """The same in a loop nest: the value is put into an array before."""
        if self.plan.lane not in value.uses:
            return self.scalar_text(value)
        n = self.number(value)
        if value not in self.arrays:
            lines: list[str] = []
            text = self.lane_text(value, lines, set())
            self.row.append(f"alignas(64) {value.dtype} a{n}[{self.block}];")
            self.row += self.lane_loop([*lines, f"a{n}[j] = {text};"])
            self.arrays.add(value)
        return f"a{n}[j]"

    def loop_nest(self, reductions: list[Value], stores: list) -> list[str]:
        p = self.plan
        depths: list[list[str]] = [[] for _ in range(len(p.over) + 1)]
        inner: list[str] = []
        done: set[Value] = set()

        def text(value: Value) -> str:
            if value.kind == "constant":
                return literal(value.constant, value.dtype)
            if not p.is_element(value):
                return self.array_text(value)
            n = self.number(value)
            if value not in done:
                done.add(value)
                line = f"const {value.dtype} t{n} = {expression(value, self.names, text)};"
                depth = max(k + 1 for k, v in enumerate(p.over) if v in value.uses)
                (inner if p.lane in value.uses else depths[depth]).append(line)
            return f"t{n}"

        for r in reductions:
            term, n = text(r.args[0]), self.number(r)
            dtype = "int64_t" if r.op.startswith("arg") else "float"
            fill = [f"alignas(64) {dtype} a{n}[{self.block}];"]
            start = "0" if dtype == "int64_t" else START[r.op]
            fill.append(f"for (int64_t j = 0; j < {self.block}; ++j) a{n}[j] = {start};")
            if dtype == "int64_t":
                fill.append(f"alignas(64) float b{n}[{self.block}];")
                fill.append(f"for (int64_t j = 0; j < {self.block}; ++j) b{n}[j] = {START[r.op[3:]]};")
                better = ">" if r.op == "argmax" else "<"
                inner.append(f"a{n}[j] = {term} {better} b{n}[j] ? {affine(r.offset, self.names)} : a{n}[j];")
                inner.append(f"b{n}[j] = {term} {better} b{n}[j] ? {term} : b{n}[j];")
            else:
                inner.append(accumulate(r, f"a{n}[j]", term))
            self.row += fill
        for store in stores:
            inner.append(f"{access(store.buffer, store.offset, self.names)} = {text(store.value)};")
        return self.loops(depths, self.lane_loop(inner)[1:], ["#pragma omp simd"])


def _steps(variables: list[Var]) -> list[int]:
    steps, step = [], 1
    for v in reversed(variables):
        steps.append(step)
        step *= v.size
    return steps[::-1]


def _scan(s: Scanning) -> list[str]:
    sign, start = ("+", "0.0f") if s.op == "sum" else ("*", "1.0f")
    if s.inner == 1:
        return [
            "#pragma omp parallel for schedule(static)",
            f"for (int64_t row = 0; row < {s.outer}; ++row) {{",
            f"  double sum = {start};",
            f"  for (int64_t k = row * {s.n}; k < (row + 1) * {s.n}; ++k) {{",
            f"    sum = sum {sign} {s.source.name}[k];",
            f"    {s.target.name}[k] = float(sum);",
            "  }",
            "}",
        ]
    return [
        "#pragma omp parallel for schedule(static)",
        f"for (int64_t row = 0; row < {s.outer}; ++row) {{",
        f"  const float* from = {s.source.name} + row * {s.n * s.inner};",
        f"  float* to = {s.target.name} + row * {s.n * s.inner};",
        f"  for (int64_t l = 0; l < {s.inner}; ++l) to[l] = from[l];",
        f"  for (int64_t k = {s.inner}; k < {s.n * s.inner}; k += {s.inner}) {{",
        "#pragma omp simd",
        f"    for (int64_t l = 0; l < {s.inner}; ++l) to[k + l] = to[k - {s.inner} + l] {sign} from[k + l];",
        "  }",
        "}",
    ]

"""From a traced kernel to loops: their order, which of them merge, and what is kept between passes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .ir import Affine, Var
from .pointwise import EXPRESSIONS
from .trace import Kernel, Store, Value

UNROLLED = 64  # a reduction over at most so many elements may run inside each iteration of the vectorised loop


def values_of(stores: list[Store]) -> list[Value]:
    """All values below the stores, arguments first."""
    out: list[Value] = []
    seen: set[Value] = set()

    def visit(value: Value) -> None:
        if value not in seen:
            seen.add(value)
            for arg in value.args:
                visit(arg)
            out.append(value)

    for store in stores:
        visit(store.value)
    return out


@dataclass
class Plan:
    """A kernel ready to be written.

    Attributes:
        rows: variables of the outer, independent iterations, in order of memory; without ``lane`` if that is one.
        over: variables of the passes over one row, in order of memory; without ``lane`` if that is one.
        lane: the innermost, vectorised variable.
        stages: reductions to be done in each pass before the last; the last one writes.
    """

    stores: list[Store]
    values: list[Value]
    rows: list[Var]
    over: list[Var]
    lane: Var
    stages: list[list[Value]]

    @property
    def by_row(self) -> bool:
        """Whether the vectorised variable is one of those reduced over."""
        return self.lane.reduced

    @property
    def row_variables(self) -> frozenset[Var]:
        return frozenset(self.rows) | (frozenset() if self.by_row else {self.lane})

    @property
    def passes(self) -> list[Var]:
        """Variables of one pass over a row: ``over`` and the vectorised one if it is reduced."""
        return [*self.over, *([self.lane] if self.by_row else [])]

    def is_element(self, value: Value) -> bool:
        """Whether the value differs within a row."""
        return any(v.reduced for v in value.uses)

    def needed(self, value: Value) -> Iterator[Value]:
        """Element values that the value is computed from in one pass, itself included; reductions end the walk."""
        stack, seen = [value], set()
        while stack:
            v = stack.pop()
            if v in seen or not self.is_element(v):
                continue
            seen.add(v)
            yield v
            stack.extend(v.args)


def plan(kernel: Kernel) -> Plan:
    """Order and merge the loops of a kernel."""
    stores = kernel.stores
    variables = [v for v in kernel.variables if v.size > 1]
    variables = _merge(_in_memory_order(variables, stores), stores)
    values = values_of(stores)
    lane = _lane(variables, values, stores)
    rows = [v for v in variables if not v.reduced and v is not lane]
    over = [v for v in variables if v.reduced and v is not lane]
    stages: list[list[Value]] = []
    for value in values:
        if value.kind == "reduce":
            while len(stages) < value.stage:
                stages.append([])
            stages[value.stage - 1].append(value)
    return Plan(stores, values, rows, over, lane, stages)


def _accesses(stores: list[Store]) -> list[tuple[Value | Store, Affine]]:
    out: list[tuple[Value | Store, Affine]] = [(s, s.offset) for s in stores]
    out += [(v, v.offset) for v in values_of(stores) if v.kind == "load"]
    return out


def _in_memory_order(variables: list[Var], stores: list[Store]) -> list[Var]:
    """By the stride of the access that most variables take part in."""
    dominant = max((a for _, a in _accesses(stores)), key=lambda a: len(a.terms), default=Affine())
    rest = next((a for _, a in _accesses(stores) if not a.variables() <= dominant.variables()), Affine())

    def stride(var: Var) -> tuple[float, int]:
        c = abs(dominant.coefficient(var)) or abs(rest.coefficient(var))
        return (c or math.inf, -variables.index(var))

    return sorted(variables, key=stride, reverse=True)


def _affines(stores: list[Store]) -> list[Affine]:
    out = [s.offset for s in stores]
    for value in values_of(stores):
        out.append(value.offset)
        out += [i for i, _ in value.conditions]
    return out


def _merge(variables: list[Var], stores: list[Store]) -> list[Var]:
    """Make one of neighbours that every access runs through as one. Rewrites the accesses."""
    variables = list(variables)
    i = 0
    while i + 1 < len(variables):
        outer, inner = variables[i], variables[i + 1]
        same = outer.reduced == inner.reduced and all(
            a.coefficient(outer) == a.coefficient(inner) * inner.size for a in _affines(stores)
        )
        if not same:
            i += 1
            continue
        both = Var(outer.size * inner.size, outer.reduced)

        def swap(a: Affine, outer=outer, inner=inner, both=both) -> Affine:
            terms = {v: c for v, c in a.terms if v not in (outer, inner)}
            return Affine.of({**terms, both: a.coefficient(inner)}, a.constant)

        for store in stores:
            store.offset = swap(store.offset)
        for value in values_of(stores):
            value.offset = swap(value.offset)
            value.conditions = tuple((swap(a), n) for a, n in value.conditions)
            if value.uses & {outer, inner}:
                value.uses = value.uses - {outer, inner} | {both}
        variables[i : i + 2] = [both]
        i = max(0, i - 1)
    return variables


def _lane(variables: list[Var], values: list[Value], stores: list[Store]) -> Var:
    """The variable to vectorise: the last, or the last outer one where the reduction is short and that reads better."""
    if not variables:
        return Var(1)
    last = variables[-1]
    free = [v for v in variables if not v.reduced]
    short = math.prod(v.size for v in variables if v.reduced) <= UNROLLED
    if not last.reduced or not free or not short or free[-1].size < 8:
        return last
    offsets = [v.offset for v in values if v.kind == "load"] + [s.offset for s in stores]
    return min(
        (free[-1], last), key=lambda v: sum(min(abs(o.coefficient(v)), 64) for o in offsets if o.coefficient(v) != 1)
    )


def cost(value: Value, known: set[Value] | frozenset[Value] = frozenset()) -> int:
    """About how many additions computing a value again takes, given some that are at hand."""
    if value in known or value.kind in ("load", "constant", "reduce"):
        return 0
    own = EXPRESSIONS[value.op][1] if value.kind == "point" else 1
    return own + sum(cost(a, known) for a in dict.fromkeys(value.args))


def kept_between_passes(plan: Plan, loads: bool, threshold: int = 8) -> list[Value]:
    """Element values that later passes should find instead of computing again.

    Args:
        loads: whether values read from memory are worth keeping too.
        threshold: least cost of a value that is worth keeping.
    """
    seen: set[Value] = set()
    kept: list[Value] = []
    passes = [[r.args[0] for r in stage] for stage in plan.stages]
    passes.append([s.value for s in plan.stores if plan.is_element(s.value)])
    for roots in passes:
        now: set[Value] = set()
        stack = list(roots)
        while stack:
            value = stack.pop()
            if value in now or not plan.is_element(value):
                continue
            now.add(value)
            worth = (value.kind == "load" and loads) or (value.kind != "load" and cost(value, set(kept)) >= threshold)
            if value in seen and worth:
                if value not in kept:
                    kept.append(value)
                continue
            stack.extend(value.args)
        seen |= now
    return kept


def divisor_near(n: int, wanted: int) -> int | None:
    """The smallest divisor of ``n`` that is at least ``wanted`` and below ``n``; None if there is none near it."""
    return next((d for d in range(wanted, min(n, 8 * wanted)) if n % d == 0), None)


def split_lane(plan: Plan, least_rows: int, length: int) -> None:
    """Cut the vectorised loop of a kernel without reductions so that there are enough independent iterations."""
    lane = plan.lane
    rows = math.prod(v.size for v in plan.rows)
    if plan.stages or plan.over or lane.reduced or rows >= least_rows or lane.size < 2 * length:
        return
    inner_size = divisor_near(lane.size, length)
    if inner_size is None:
        return
    outer, inner = Var(lane.size // inner_size), Var(inner_size)

    def swap(a: Affine) -> Affine:
        terms = {v: c for v, c in a.terms if v is not lane}
        c = a.coefficient(lane)
        return Affine.of({**terms, outer: c * inner_size, inner: c}, a.constant)

    for store in plan.stores:
        store.offset = swap(store.offset)
    for value in plan.values:
        value.offset = swap(value.offset)
        value.conditions = tuple((swap(a), n) for a, n in value.conditions)
        if lane in value.uses:
            value.uses = value.uses - {lane} | {outer, inner}
    plan.rows, plan.lane = [*plan.rows, outer], inner

"""Take out of a task's syntax tree what changes nothing that it computes.

Only what is sure to be without effect goes: documentation, annotations, imports, prints, statements that are never
reached, values that nothing reads, definitions that nothing refers to.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator

from cuda_agent.tasks import syntax

CONTRACT = ("Model", "get_inputs", "get_init_inputs")
_READ_ALL = {"modules", "children", "parameters", "named_modules", "named_children", "named_parameters", "_modules"}
_READ_ALL |= {"buffers", "named_buffers", "state_dict", "apply", "__dict__"}
_MODULE_METHODS = {"forward", "train", "eval", "to", "half", "float", "double", "cuda", "cpu", "load_state_dict"}
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


class _Strip(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                end = next((i for i, s in enumerate(block) if isinstance(s, _ENDS)), len(block))
                setattr(node, name, block[: end + 1])
        return node

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        self.generic_visit(node)
        value = node.value
        printing = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"
        return None if printing or isinstance(value, ast.Constant) else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | None:
        self.generic_visit(node)
        return None if node.value is None else ast.Assign(targets=[node.target], value=node.value)

    def visit_If(self, node: ast.If) -> ast.If | None:
        return None if _is_main_guard(node) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = []
        if all(k.arg and isinstance(k.value, ast.Constant | ast.Name | ast.Attribute) for k in node.keywords):
            node.keywords.sort(key=lambda k: k.arg)  # evaluating these has no effect, so their order has none
        return node


class _Inline(ast.NodeTransformer):
    def __init__(self, constants: dict[str, ast.expr]) -> None:
        self.constants = constants
        self._bound: list[set[str]] = []

    def _function(self, node: ast.AST) -> ast.AST:
        self._bound.append(syntax.bound_names(node))
        try:
            return self.generic_visit(node)
        finally:
            self._bound.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.constants and not any(node.id in b for b in self._bound):
            return copy.deepcopy(self.constants[node.id])
        return node


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return all(_is_literal(n) for n in node.elts)
    return isinstance(node, ast.Constant)


def _unpacked(statement: ast.stmt) -> list[ast.stmt]:
    """``a, b = 1, 2`` as two statements."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
        if both and _is_literal(value):
            pairs = zip(target.elts, value.elts, strict=True)
            return [ast.Assign(targets=[name], value=one) for name, one in pairs]
    return [statement]


def _inline_constants(tree: ast.Module) -> ast.Module:
    """Write module-level names for literals out where they are used."""
    assigned = Counter(
        n.id
        for s in tree.body
        if not isinstance(s, (ast.ClassDef, *_FUNCTIONS))
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    declared = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
    inline, body = _Inline({}), []
    for statement in [part for s in tree.body for part in _unpacked(s)]:
        statement = syntax.Fold().visit(inline.visit(statement))  # noqa: PLW2901
        if isinstance(statement, ast.Assign) and _is_literal(statement.value):
            names = [t.id for t in statement.targets if isinstance(t, ast.Name)]
            free = all(assigned[n] == 1 for n in names) and not declared & set(names)
            if len(names) == len(statement.targets) and free:
                inline.constants |= dict.fromkeys(names, statement.value)
                continue
        body.append(statement)
    tree.body = body
    return syntax.Fold().visit(inline.visit(tree))  # again: functions may stand above the constants they read


def _is_pure(node: ast.expr) -> bool:
    """Whether computing it has no effect: no call but of torch functions that write to nothing."""
    for part in ast.walk(node):
        if isinstance(part, ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr):
            return False
        if isinstance(part, ast.Call):
            known = isinstance(part.func, syntax.Path) and part.func.id.startswith("torch.")
            if not known or part.func.id.endswith("_") or any(k.arg == "out" for k in part.keywords):
                return False
    return True


def _own_blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _drop_unread_locals(tree: ast.Module) -> bool:
    changed = False
    for function in [n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS)]:
        read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
        read |= {name for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
        for block in _own_blocks(function):
            kept = [
                s
                for s in block
                if not (
                    isinstance(s, ast.Assign)
                    and all(isinstance(t, ast.Name) and t.id not in read for t in s.targets)
                    and _is_pure(s.value)
                )
            ]
            changed |= len(kept) < len(block)
            block[:] = kept
    return changed


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_plain_base(base: ast.expr) -> bool:
    """Whether a base class reads no attributes of its own: ``torch.nn.Module``, or a class of the task."""
    return isinstance(base, ast.Name) and (base.id == "torch.nn.Module" or not isinstance(base, syntax.Path))


def _assigns_only(statement: ast.stmt, unread: Callable[[str], bool]) -> bool:
    """Whether a statement does nothing but give an attribute of ``self`` that nothing reads a value."""
    return (
        isinstance(statement, ast.Assign)
        and all(isinstance(t, ast.Attribute) and _is_self(t.value) and unread(t.attr) for t in statement.targets)
        and _is_pure(statement.value)
    )


def _drop_unread_attributes(tree: ast.Module) -> bool:
    """Drop ``self.x = ...`` and methods that nothing reads, in classes that hand ``self`` to nobody."""
    read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}
    read |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}

    def unread(name: str) -> bool:
        return name not in read

    changed = False
    for kind in [n for n in tree.body if isinstance(n, ast.ClassDef)]:
        accesses = sum(isinstance(n, ast.Attribute) and _is_self(n.value) for n in ast.walk(kind))
        handed_on = sum(_is_self(n) for n in ast.walk(kind)) != accesses
        if handed_on or read & _READ_ALL or not all(_is_plain_base(b) for b in kind.bases):
            continue
        for block in _own_blocks(kind):
            kept = [s for s in block if not _assigns_only(s, unread)]
            if block is kind.body:
                kept = [s for s in kept if not (isinstance(s, _FUNCTIONS) and unread(s.name) and _is_extra(s.name))]
            changed |= len(kept) < len(block)
            block[:] = kept
    return changed


def _is_extra(method: str) -> bool:
    """Whether nobody outside calls a method of this name: it is neither private nor one of ``torch.nn.Module``."""
    return not method.startswith("_") and method not in _MODULE_METHODS


def _defined(statement: ast.stmt) -> str | None:
    """The one name that a top-level statement defines, None for other statements."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return statement.name
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def reachable(tree: ast.Module, roots: tuple[str, ...] = CONTRACT) -> ast.Module:
    """Top-level definitions that the roots refer to, directly or not, in the order in which they are first met.

    Other top-level statements (a seed that is set, a loop) keep their order and stand last when the roots are all
    three parts of the contract; they are left out otherwise.
    """
    defined: dict[str, list[ast.stmt]] = {}
    others = []
    for statement in tree.body:
        name = _defined(statement)
        if name is None:
            others.append(statement)
        else:
            defined.setdefault(name, []).append(statement)
    others = others if roots == CONTRACT else []
    order: dict[str, None] = {}
    todo = [*roots, *(n.id for s in others for n in ast.walk(s) if isinstance(n, ast.Name))]
    while todo:
        name = todo.pop(0)
        if name in defined and name not in order:
            order[name] = None
            todo += [n.id for s in defined[name] for n in ast.walk(s) if isinstance(n, ast.Name)]
    return ast.Module(body=[s for name in order for s in defined[name]] + others, type_ignores=[])


def clean(code: str) -> ast.Module:
    """The tree of a task without what changes nothing, names resolved and constants written out.

    Raises:
        SyntaxError: the text is not Python.
    """
    tree = syntax.Resolve().visit(syntax.parse(code))
    tree = reachable(_inline_constants(_Strip().visit(tree)))
    while _drop_unread_locals(tree) | _drop_unread_attributes(tree):
        tree = reachable(tree)
    return tree

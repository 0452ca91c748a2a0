"""Syntax trees of tasks: names resolved through imports, constants folded, written out the same by every Python.

``ast.dump`` and ``ast.unparse`` differ between Python versions; ``dump`` here writes only what all of them agree on.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator

_NOT_MEANING = {"ctx", "type_comment", "type_ignores", "type_params", "kind", "returns", "annotation"}
_FOLD = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
_LARGEST = 2**63


def _tokens(node: object) -> Iterator[str]:
    if isinstance(node, ast.AST):
        yield "("
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if name not in _NOT_MEANING and value is not None and value != []:
                yield f":{name}"
                yield from _tokens(value)
        if isinstance(node, ast.Constant) and node.value is None:
            yield "None"
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            yield from _tokens(item)
        yield "]"
    else:
        yield repr(node)


def parse(code: str) -> ast.Module:
    """The syntax tree of a text that somebody else wrote.

    Raises:
        SyntaxError: it is no Python, or Python's parser cannot hold it: nested too deeply, or with a NUL.
    """
    try:
        return ast.parse(code)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or "nested too deeply") from None


def dump(node: ast.AST) -> str:
    """The tree as text in one line; equal for equal trees, in every supported Python."""
    return " ".join(_tokens(node))


def bound_names(function: ast.AST) -> set[str]:
    """Names that a function (or lambda, or comprehension) binds anywhere inside it, its parameters included."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        elif node is not function and isinstance(node, _NAMED) and node.name:
            found.add(node.name)
    return found


def is_number(node: ast.AST | None) -> bool:
    """Whether the node is a literal number (True and False are not)."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


class Path(ast.Name):
    """A name that holds the full path of something imported, e.g. ``torch.nn.Conv2d``."""


class Resolve(ast.NodeTransformer):
    """Replace what an import brought in by one name that holds its full path; imports disappear.

    ``nn.Conv2d`` becomes the name ``torch.nn.Conv2d``. Names that a function binds itself are left alone.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._bound: list[set[str]] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            head = alias.name.partition(".")[0]
            self._known[alias.asname or head] = alias.name if alias.asname else head

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._known[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"

    def _function(self, node: ast.AST) -> ast.AST:
        self._bound.append(bound_names(node))
        try:
            return self.generic_visit(node)
        finally:
            self._bound.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self._known and not any(node.id in names for names in self._bound):
            return Path(id=self._known[node.id], ctx=node.ctx)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        node.value = self.visit(node.value)
        if isinstance(node.value, Path):
            return Path(id=f"{node.value.id}.{node.attr}", ctx=node.ctx)
        return node


class Fold(ast.NodeTransformer):
    """Compute what is written as arithmetic on literal numbers."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and is_number(node.operand):
            return ast.Constant(value=-node.operand.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        compute = _FOLD.get(type(node.op))
        if compute is None or not (is_number(node.left) and is_number(node.right)):
            return node
        left, right = node.left.value, node.right.value
        if isinstance(node.op, ast.Pow) and (abs(right) > 64 or abs(left) > _LARGEST):
            return node
        try:
            value = compute(left, right)
        except (ArithmeticError, ValueError):
            return node
        return ast.Constant(value=value) if isinstance(value, int | float) and abs(value) < _LARGEST else node

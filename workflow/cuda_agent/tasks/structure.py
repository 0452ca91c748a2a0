"""What is left of a task's model without names, sizes and other numbers: the operators and how they nest."""

from __future__ import annotations

import ast
import copy

from cuda_agent.tasks import syntax
from cuda_agent.tasks.clean import reachable

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_STRUCTURE = {"ctx", "annotation", "returns", "type_params", "type_ignores", "type_comment", "kind"}
_BUILTINS = {"super", "len", "range", "zip", "enumerate", "int", "float", "tuple", "list", "isinstance", "getattr"}


class _Size(ast.expr):
    """A number, or anything computed from numbers and constructor arguments alone."""

    _fields = ()


def _sizes(nodes: list[ast.expr]) -> bool:
    return all(isinstance(n, _Size) for n in nodes)


class _Sizes(ast.NodeTransformer):
    """Replace numbers, constructor arguments and what is computed from them alone by one mark."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._attributes: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        outer, self._attributes = self._attributes, set()
        self.generic_visit(copy.deepcopy(node))  # finds attributes that are sizes, which methods above may read
        self.generic_visit(node)
        self._attributes = outer
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return _Size() if syntax.is_number(node) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef | None:
        outer = self._names
        if node.name == "__init__":
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            self._names = {a.arg for a in arguments[1:]}
            node.args = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        else:
            self._names = set()
        node.body = [s for s in map(self.visit, node.body) if s is not None]
        self._names = outer
        return None if node.name == "__init__" and not node.body else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _Size() if node.id in self._names else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if own and node.attr in self._attributes and isinstance(node.ctx, ast.Load):
            return _Size()
        self.generic_visit(node)
        return _Size() if isinstance(node.value, _Size) or node.attr == "shape" else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return node.value if isinstance(node.value, _Size) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _Size() if _sizes([node.left, node.right]) else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _Size() if _sizes([node.operand]) else node

    def _several(self, node: ast.Tuple | ast.List) -> ast.expr:
        self.generic_visit(node)
        return _Size() if node.elts and _sizes(node.elts) else node

    visit_Tuple = visit_List = _several

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "dim"):
            return _Size()
        builtin = isinstance(node.func, ast.Name) and node.func.id in _BUILTINS
        if builtin and node.args and _sizes(node.args):
            return _Size()
        node.args = [a for a in node.args if not isinstance(a, _Size)]
        node.keywords = [k for k in node.keywords if not isinstance(k.value, _Size)]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        self.generic_visit(node)
        call = node.value
        starts = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        return None if starts or isinstance(call, _Size) else node

    def visit_Assert(self, node: ast.Assert) -> None:
        return None

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        self.generic_visit(node)
        if not isinstance(node.value, _Size):
            return node
        for target in node.targets:
            for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if isinstance(part, ast.Name):
                    self._names.add(part.id)
                elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                    self._attributes.add(part.attr)
        return None


class _Anonymous(ast.NodeTransformer):
    """One name for all variables, and one for all attributes of ``self``; of other objects the attribute stays."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node, syntax.Path) or node.id in _BUILTINS or node.id == "self":
            return node
        return ast.Name(id="v", ctx=node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(arg="v")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        self.generic_visit(node)
        return ast.Attribute(value=node.value, attr="a" if own else node.attr, ctx=node.ctx)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.name = "c"
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.name = node.name if node.name in ("__init__", "forward") else "f"
        return node


def model_only(tree: ast.Module) -> ast.Module:
    """The model's class and what it refers to, without ``get_inputs`` and ``get_init_inputs``."""
    return reachable(tree, ("Model",))


def structure(tree: ast.Module) -> ast.Module:
    """The structure of a cleaned task; changes the tree that it is given."""
    return _Anonymous().visit(_Sizes().visit(model_only(tree)))


def _parts(node: ast.AST, subtrees: list[list[str]]) -> list[str]:
    found = [type(node).__name__.lstrip("_")]
    for name, value in ast.iter_fields(node):
        if name in _NOT_STRUCTURE or value is None:
            continue
        for item in value if isinstance(value, list) else [value]:
            found += _parts(item, subtrees) if isinstance(item, ast.AST) else [str(item)]
    subtrees.append(found)
    return found


def tokens(tree: ast.AST) -> list[str]:
    """Kinds of nodes and the names in them, in order."""
    return _parts(tree, [])


def subtrees(tree: ast.AST) -> list[list[str]]:
    """Tokens of all subtrees that hold at least three, the whole included."""
    found: list[list[str]] = []
    _parts(tree, found)
    return [part for part in found if len(part) >= 3]

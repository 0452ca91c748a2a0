"""Operators that the text of a task calls, found without running it, under names that don't depend on the spelling."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from cuda_agent.tasks import syntax

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.FloorDiv: "floordivide",
    ast.Mod: "remainder",
}
_ALIASES = {
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "dot": "matmul",
    "subtract": "sub",
    "rsub": "sub",
    "multiply": "mul",
    "divide": "div",
    "truedivide": "div",
    "absolute": "abs",
    "negative": "neg",
    "amax": "max",
    "amin": "min",
    "clip": "clamp",
    "expit": "sigmoid",
    "swish": "silu",
    "scaleddotproduct": "scaleddotproductattention",
}
# What only arranges, makes or describes tensors, or does nothing in evaluation mode.
_ARRANGING = """
    view viewas reshape reshapeas flatten unflatten transpose permute contiguous squeeze unsqueeze size dim shape to
    float double half bfloat16 int long bool type typeas expand expandas clone detach t mt h mh getitem numel item
    swapaxes movedim unbind chunk split narrow select asstrided device cpu cuda
    zeros ones empty full tensor arange linspace eye zeroslike oneslike emptylike fulllike rand randn randint randlike
    randnlike randperm parameter buffer registerbuffer registerparameter nograd
    identity dropout dropout1d dropout2d dropout3d alphadropout featurealphadropout
    append extend items keys values
"""
_NO_OPERATORS = frozenset(_ARRANGING.split())


def canonical(name: str) -> str | None:
    """One name for an operator's module, function, method and in-place spellings; None for what computes nothing.

    ``torch.nn.LeakyReLU``, ``torch.nn.functional.leaky_relu`` and ``torch.Tensor.leaky_relu_`` are all ``leakyrelu``.
    """
    last = name.rpartition(".")[2].replace("_", "").lower()
    last = re.sub(r"^(batchnorm|instancenorm)[123]d$", r"\1", last.removesuffix("loss"))
    last = _ALIASES.get(last, last)
    return None if last in _NO_OPERATORS else last


def canonical_sequence(names: Iterable[str]) -> tuple[str, ...]:
    """Canonical names of traced operators, in order, without those that compute nothing."""
    return tuple(c for c in map(canonical, names) if c is not None)


class _Walk:
    """Follows ``forward`` through the task's own classes, functions and containers; each loop body counts once."""

    def __init__(self, tree: ast.Module) -> None:
        self.classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
        self.functions = {n.name: n for n in tree.body if isinstance(n, _FUNCTIONS)}
        self.found: list[str] = []
        self._open: list[str] = []

    def enter(self, key: str, body: list[ast.stmt], kind: ast.ClassDef | None) -> None:
        if key in self._open or len(self.found) > 10_000:
            return
        self._open.append(key)
        for statement in body:
            self.visit(statement, kind)
        self._open.pop()

    def forward(self, kind: ast.ClassDef, method: str = "forward") -> bool:
        node = _method(kind, method)
        if node is None:
            return False
        self.enter(f"{kind.name}.{method}", node.body, kind)
        return True

    def called(self, maker: ast.AST, kind: ast.ClassDef) -> None:
        """What calling a module runs, given the expression that made it in a class of the task."""
        if isinstance(maker, ast.Name) and not isinstance(maker, syntax.Path):
            self._filled(maker.id, kind)
        elif not isinstance(maker, ast.Call):
            for child in ast.iter_child_nodes(maker):
                self.called(child, kind)
        elif isinstance(maker.func, syntax.Path):
            name = maker.func.id
            if name.endswith((".Sequential", ".ModuleList", ".ModuleDict")):
                for argument in [*maker.args, *(k.value for k in maker.keywords)]:
                    self.called(argument, kind)
            elif name.startswith(("torch.nn.", "transformers.")) and canonical(name) is not None:
                self.found.append(name)
        elif isinstance(maker.func, ast.Name) and maker.func.id in self.classes:
            self.forward(self.classes[maker.func.id])
        elif _own_attribute(maker.func) is not None:  # a method that makes layers
            method = _method(kind, _own_attribute(maker.func))
            for node in ast.walk(method) if method is not None else ():
                if isinstance(node, ast.Return) and node.value is not None:
                    self.called(node.value, kind)

    def _filled(self, name: str, kind: ast.ClassDef) -> None:
        """Modules that a local list holds: those it was made with, then those that were appended."""
        key = f"{kind.name}:{name}"
        if key in self._open:
            return
        self._open.append(key)
        for node in ast.walk(kind):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                self.called(node.value, kind)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                on = node.func.value
                if node.func.attr in ("append", "extend") and isinstance(on, ast.Name) and on.id == name:
                    for argument in node.args:
                        self.called(argument, kind)
        self._open.pop()

    def attribute(self, kind: ast.ClassDef | None, attr: str) -> None:
        """What calling ``self.attr`` runs."""
        if kind is None or self.forward(kind, attr):
            return
        for node in ast.walk(kind):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and _is_self(target.value) and target.attr == attr:
                        self.called(node.value, kind)

    def visit(self, node: ast.AST, kind: ast.ClassDef | None) -> None:
        if isinstance(node, ast.AugAssign):
            self.visit(node.value, kind)
            self._binary(node)
            return
        if isinstance(node, ast.For | ast.comprehension):
            attr = _own_attribute(node.iter)
            if attr is not None:
                self.attribute(kind, attr)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
            children = children[1:] + children[:1]  # nn.ReLU()(conv(x)) runs conv first
        for child in children:
            self.visit(child, kind)
        if isinstance(node, ast.BinOp):
            self._binary(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self.found.append("neg")
        elif isinstance(node, ast.Call):
            self._call(node, kind)

    def _binary(self, node: ast.BinOp | ast.AugAssign) -> None:
        name = _BINARY.get(type(node.op))
        if name is not None:
            self.found.append(name)

    def _call(self, node: ast.Call, kind: ast.ClassDef | None) -> None:
        function = node.func
        if isinstance(function, syntax.Path):
            if canonical(function.id) is not None and function.id.startswith(("torch.", "transformers.")):
                self.found.append(function.id)
        elif isinstance(function, ast.Name):
            if function.id in self.functions:
                self.enter(function.id, self.functions[function.id].body, None)
        elif isinstance(function, ast.Attribute):
            attr = _own_attribute(function)
            if attr is not None:
                self.attribute(kind, attr)
            elif canonical(function.attr) is not None:
                self.found.append(f"torch.Tensor.{function.attr}")


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _own_attribute(node: ast.AST) -> str | None:
    """``x`` of ``self.x``, also where it is indexed, as in ``self.x[0]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) and _is_self(node.value) else None


def _method(kind: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((n for n in kind.body if isinstance(n, _FUNCTIONS) and n.name == name), None)


def called_operators(tree: ast.Module) -> tuple[str, ...]:
    """Canonical names of the operators that ``Model.forward`` calls, in the order of the text."""
    walk = _Walk(tree)
    if "Model" in walk.classes:
        walk.forward(walk.classes["Model"])
    return canonical_sequence(walk.found)

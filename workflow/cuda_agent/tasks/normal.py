"""Normal form of a task: equal for texts that differ only in names, order of definitions, formatting or dead code."""

from __future__ import annotations

import ast

from cuda_agent.tasks import syntax
from cuda_agent.tasks.clean import CONTRACT, clean
from cuda_agent.tasks.hashes import text_hash

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED = (ast.ExceptHandler, *_FUNCTIONS)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, *_FUNCTIONS)
_BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.AugAssign, ast.NamedExpr, ast.Delete, ast.Match)
_KEPT_METHODS = ("forward",)


def _order_methods(kind: ast.ClassDef) -> None:
    """Constructor, forward, then other methods in the order in which those refer to them; unreferenced ones last."""
    methods = {n.name: n for n in kind.body if isinstance(n, _FUNCTIONS)}
    order: dict[str, None] = {}
    todo = ["__init__", "forward"]
    while todo:
        name = todo.pop(0)
        if name in methods and name not in order:
            order[name] = None
            todo += [n.attr for n in ast.walk(methods[name]) if isinstance(n, ast.Attribute)]
    rest = [n for name, n in methods.items() if name not in order]
    kind.body = [n for n in kind.body if not isinstance(n, _FUNCTIONS)] + [methods[n] for n in order] + rest


def _order_attributes(kind: ast.ClassDef) -> None:
    """Put neighbouring ``self.x = ...`` of the constructor that read no ``self`` in the order of their first use."""
    use: dict[str, int] = {}
    for method in (n for n in kind.body if isinstance(n, _FUNCTIONS) and n.name != "__init__"):
        for node in _in_order(method):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                use.setdefault(node.attr, len(use))
    for init in (n for n in kind.body if isinstance(n, _FUNCTIONS) and n.name == "__init__"):
        start = 0
        body = init.body
        for i in range(len(body) + 1):
            if i == len(body) or not _is_free_attribute(body[i]):
                body[start:i] = sorted(body[start:i], key=lambda s: use.get(s.targets[0].attr, len(use)))
                start = i + 1


def _is_free_attribute(statement: ast.stmt) -> bool:
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return False
    target = statement.targets[0]
    own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return own and not any(isinstance(n, ast.Name) and n.id == "self" for n in ast.walk(statement.value))


def _in_order(node: ast.AST):
    """Nodes in the order of evaluation as far as naming needs it: the value of an assignment before its targets."""
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign):
        children = [node.value, *node.targets]
    for child in children:
        yield from _in_order(child)
    yield node


def _rename_locals(function: ast.FunctionDef, keep: set[str]) -> None:
    """Number a function's own names by first appearance; in straight code every assignment makes a new one."""
    straight = not any(isinstance(n, (*_BRANCHES, *_SCOPES)) for s in function.body for n in ast.walk(s))
    bound = syntax.bound_names(function) - keep
    for node in ast.walk(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            bound -= set(node.names)
    names: dict[str, str] = {}
    count = 0

    def fresh(name: str) -> str:
        nonlocal count
        names[name] = f"v{count}"
        count += 1
        return names[name]

    for node in _in_order(function):
        if isinstance(node, ast.arg) and node.arg in bound:
            node.arg = names.get(node.arg) or fresh(node.arg)
        elif isinstance(node, ast.Name) and node.id in bound and not isinstance(node, syntax.Path):
            new = straight and isinstance(node.ctx, ast.Store)
            node.id = fresh(node.id) if new or node.id not in names else names[node.id]
        elif node is not function and isinstance(node, _NAMED) and node.name in bound:
            node.name = names.get(node.name) or fresh(node.name)


def _rename(tree: ast.Module) -> None:
    """Number top-level names, the attributes and methods of the task's own classes, and local names."""
    passed = {
        k.arg
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and not isinstance(n.func, syntax.Path)
        for k in n.keywords
        if k.arg
    }
    own: set[str] = set()
    for kind in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        own |= {n.name for n in kind.body if isinstance(n, _FUNCTIONS)}
        for node in ast.walk(kind):
            stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if stored and isinstance(node.value, ast.Name) and node.value.id == "self":
                own.add(node.attr)
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    own = {n for n in own - texts if n not in _KEPT_METHODS and not n.startswith("__")}

    for function in (n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS)):
        function.is_nested = False
    for outer in (n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS)):
        for inner in (n for n in ast.walk(outer) if isinstance(n, _FUNCTIONS) and n is not outer):
            inner.is_nested = True
    for function in [n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS) and not n.is_nested]:
        _rename_locals(function, passed)

    top = [n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    top += [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    globals_ = {name: f"g{i}" for i, name in enumerate(dict.fromkeys(n for n in top if n not in CONTRACT))}
    attributes: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node, syntax.Path):
            node.id = globals_.get(node.id, node.id)
        elif isinstance(node, ast.Attribute) and node.attr in own:
            node.attr = attributes.setdefault(node.attr, f"a{len(attributes)}")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.name = attributes.get(node.name, globals_.get(node.name, node.name))


def normal_form(code: str) -> str:
    """The task as text in which only meaning is left, one top-level definition a line.

    Raises:
        SyntaxError: the text is not Python.
    """
    return normal_form_of(clean(code))


def normal_form_of(tree: ast.Module) -> str:
    """The normal form of a cleaned task; changes the tree that it is given."""
    for kind in [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]:
        _order_methods(kind)
        _order_attributes(kind)
    _rename(tree)
    return "\n".join(syntax.dump(statement) for statement in tree.body)


def task_id(code: str) -> str:
    """Identifier of a task: a hash of its normal form, 16 hexadecimal digits."""
    return text_hash(normal_form(code))

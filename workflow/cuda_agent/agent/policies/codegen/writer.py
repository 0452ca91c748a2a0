"""The files of a submission: kernels, their binding and ``model_new.py``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .cpp import kernel_body
from .ir import Buffer, GiveUpError, Program
from .plan import values_of
from .prelude_cpp import PRELUDE
from .reader import read
from .schedule import CPU, GPU, Scanning, Schedule, schedule

CTYPES = {"float": "torch.float32", "bool": "torch.bool", "int64_t": "torch.int64"}


def write(graph: dict[str, Any], model: str, backend: str, name: str = "", fuse: bool = True) -> dict[str, str]:
    """All files for a task.

    Args:
        graph: what `cuda_agent.tasks.graph` printed.
        model: text of ``model.py``.
        backend: cpp or cuda.
        name: of the function that ``cuda_extension`` will have; made from the operators if empty.
        fuse: whether reductions share kernels with what uses them; without, kernels are simpler and slower.

    Returns:
        Path in the workspace -> text.

    Raises:
        GiveUpError: there is no rule for something in the graph.
    """
    program = read(graph)
    plan = schedule(program, replace(GPU if backend == "cuda" else CPU, fuse=fuse))
    name = name or _name(program)
    if backend == "cuda":
        from .cuda import source
    else:
        source = _cpp_source
    reads = _used(plan)
    return {
        f"kernels/{name}.{'cu' if backend == 'cuda' else 'cpp'}": source(name, plan, _arguments(plan, reads)),
        f"kernels/{name}_binding.cpp": _binding(name, plan, reads, backend),
        "model_new.py": _model_new(model, name, program, plan, reads),
    }


def _name(program: Program) -> str:
    words = [re.sub(r"^(native|legit|aten)_|_(default|with_indices)$", "", o.strip("_")) for o in program.operators]
    words = [w for w in dict.fromkeys(words) if w not in ("view", "expand", "clone", "alias", "unsqueeze", "squeeze")]
    return re.sub(r"\W", "_", "_".join(["fused", *words])[:60]).strip("_")


def _used(plan: Schedule) -> list[Buffer]:
    """Inputs and parameters that the kernels read, in the order in which they first do."""
    found: dict[Buffer, None] = {}
    for kernel in plan.kernels:
        buffers = [kernel.source] if isinstance(kernel, Scanning) else [
            v.buffer for v in values_of(kernel.stores) if v.kind == "load"
        ]  # fmt: skip
        for buffer in buffers:
            if buffer.source is not None:
                found[buffer] = None
    return list(found)


def _written(plan: Schedule) -> list[Buffer]:
    return [*dict.fromkeys(plan.outputs), *plan.temporaries]


def _arguments(plan: Schedule, reads: list[Buffer]) -> str:
    """Arguments of the launcher, as C declares them."""
    out = [f"{b.dtype}* {b.name}" for b in _written(plan)]
    out += [f"const {b.dtype}* {b.name}" for b in reads]
    return ", ".join([*out, "void* stream"])


def touched(kernel: Any) -> tuple[list[Buffer], list[Buffer]]:
    """Buffers that a kernel writes, and those that it only reads."""
    if isinstance(kernel, Scanning):
        return [kernel.target], [kernel.source]
    writes = list(dict.fromkeys(s.buffer for s in kernel.stores))
    reads = dict.fromkeys(v.buffer for v in values_of(kernel.stores) if v.kind == "load")
    return writes, [b for b in reads if b not in writes]


def _cpp_source(name: str, plan: Schedule, arguments: str) -> str:
    parts, calls = [], []
    for k, kernel in enumerate(plan.kernels):
        writes, reads = touched(kernel)
        declared = [f"{b.dtype}* __restrict__ {b.name}" for b in writes]
        declared += [f"const {b.dtype}* __restrict__ {b.name}" for b in reads]
        body = "\n".join(line if line.startswith("#") else f"  {line}" for line in kernel_body(kernel))
        parts.append(f"static void kernel{k}({', '.join(declared)}) {{\n{body}\n}}\n")
        calls.append(f"  kernel{k}({', '.join(b.name for b in [*writes, *reads])});")
    joined = "\n".join(parts)
    launches = "\n".join(calls)
    return f'{PRELUDE}\n{joined}\nextern "C" void {name}_launcher({arguments}) {{\n  (void)stream;\n{launches}\n}}\n'


def _binding(name: str, plan: Schedule, reads: list[Buffer], backend: str) -> str:
    buffers = [*_written(plan), *reads]
    arguments = ", ".join(f"Tensor {b.name}" for b in buffers)
    checks = [
        f'  check({b.name}.numel() == {_numel(b)}, "{b.name}: the kernels are for another shape");' for b in buffers
    ]
    if backend == "cuda":
        checks += [
            f'  check(reinterpret_cast<uintptr_t>({b.name}.data_ptr()) % 16 == 0, "{b.name}: not aligned to 16 bytes");'
            for b in buffers
        ]
    passed = ", ".join([*(f"data<{b.dtype}>({b.name})" for b in buffers), f"stream({buffers[0].name})"])
    lines = "\n".join(checks)
    return f"""#include "../binding_registry.h"

extern "C" void {name}_launcher({_arguments(plan, reads)});

static void {name}_forward({arguments}) {{
{lines}
  {name}_launcher({passed});
}}

REGISTER_BINDING({name}, {name}_forward)
"""


def _numel(buffer: Buffer) -> int:
    out = 1
    for n in buffer.shape:
        out *= n
    return out


class _Renamer(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name("ModelNew", node.ctx), node) if node.id == "Model" else node


def _model_new(model: str, name: str, program: Program, plan: Schedule, reads: list[Buffer]) -> str:
    """``model.py`` with another ``forward``: the constructor, and so the state_dict, stay what they are."""
    tree = ast.parse(model)
    kept: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            continue
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            node.name = "ModelNew"
            _replace_forward(node, _forward(name, program, plan, reads))
        kept.append(_Renamer().visit(node))
    used = {n.id for node in kept for n in ast.walk(node) if isinstance(n, ast.Name)}
    kept = [node for node in kept if not isinstance(node, ast.Import | ast.ImportFrom) or _is_used(node, used)]
    has_torch = any(
        isinstance(n, ast.Import) and any(a.name == "torch" and not a.asname for a in n.names) for n in kept
    )
    imports = ast.parse("import cuda_extension" if has_torch else "import cuda_extension\nimport torch").body
    at = 1 if kept and isinstance(kept[0], ast.Expr) and isinstance(kept[0].value, ast.Constant) else 0
    while at < len(kept) and isinstance(kept[at], ast.ImportFrom) and kept[at].module == "__future__":
        at += 1
    tree.body = [*kept[:at], *imports, *kept[at:]]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _is_used(node: ast.Import | ast.ImportFrom, used: set[str]) -> bool:
    """Whether an import is needed; names in it that are not used are dropped."""
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return True
    node.names = [a for a in node.names if (a.asname or a.name).split(".")[0] in used]
    return bool(node.names)


def _replace_forward(node: ast.ClassDef, body: Callable[[list[str], str], str]) -> None:
    for k, item in enumerate(node.body):
        if isinstance(item, ast.FunctionDef) and item.name == "forward":
            names = [a.arg for a in [*item.args.posonlyargs, *item.args.args]]
            variadic = item.args.vararg.arg if item.args.vararg else ""
            item.body = ast.parse(body(names, variadic)).body
            item.returns = None
            node.body[k] = item
            return
    raise GiveUpError("class Model has no forward of its own")


def _forward(name: str, program: Program, plan: Schedule, reads: list[Buffer]) -> Callable[[list[str], str], str]:
    def body(names: list[str], variadic: str) -> str:
        this, positional = names[0], names[1:]

        def source(buffer: Buffer) -> str:
            if buffer.source.startswith("input:"):
                position = int(buffer.source.removeprefix("input:"))
                if position < len(positional):
                    return positional[position]
                if not variadic:
                    raise GiveUpError("an input that forward takes under no name")
                return f"{variadic}[{position - len(positional)}]"
            return buffer.source.replace("self", this, 1)

        sources = {b: source(b) for b in reads}
        inputs = [s for b, s in sources.items() if b.source.startswith("input:")]
        device = f"{(inputs or list(sources.values()) or ['cpu'])[0]}.device"
        taken = set(names) | {variadic}
        local = {b: b.name + "_" * (b.name in taken) for b in _written(plan)}
        lines = [
            f"{local[b]} = torch.empty({tuple(b.shape)!r}, dtype={CTYPES[b.dtype]}, device={device})"
            for b in _written(plan)
        ]
        lines.append(f"cuda_extension.{name}({', '.join([*local.values(), *sources.values()])})")
        results = [local[b] for b in plan.outputs]
        form = {"tensor": "{}", "tuple": "({},)", "list": "[{}]"}[program.output_form]
        lines.append("return " + form.format(", ".join(results)))
        return "\n".join(lines)

    return body

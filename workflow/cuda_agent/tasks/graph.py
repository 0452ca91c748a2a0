"""Export a task's computation as a graph of ATen operators, in JSON.

``torch.export`` traces the model in evaluation mode and its decompositions bring it down to the core ATen operators
(https://docs.pytorch.org/docs/stable/torch.compiler_ir.html). Activations with an operator of their own stay whole:
their exact formula is worth more to a writer of kernels than its pieces.

Run it inside a workspace: ``python3 -m cuda_agent.tasks.graph model.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

KEPT_WHOLE = ("softplus", "mish", "hardswish", "hardsigmoid", "hardtanh", "silu", "elu", "celu", "leaky_relu", "gelu")
SMALL_CONSTANT = 16  # constants with at most this many values are given by value


class GraphError(RuntimeError):
    """The model cannot be exported as one graph of operators with fixed shapes."""


def _decompositions() -> dict:
    table = torch.export.default_decompositions()
    kept = {f"aten::{name}" for name in KEPT_WHOLE} | {f"aten::{name}_" for name in KEPT_WHOLE}
    for op in list(table):
        if op.name().split(".")[0] in kept:
            table.pop(op, None)
    return table


def _number(value: float | int | bool) -> Any:
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _argument(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return {"ref": value.name}
    if isinstance(value, list | tuple):
        return [_argument(v) for v in value]
    if isinstance(value, bool | int | float):
        return _number(value)
    if value is None or isinstance(value, str):
        return value
    return str(value)


def _describe(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return {
            "shape": [int(n) for n in value.shape],
            "dtype": str(value.dtype).removeprefix("torch."),
            "stride": [int(n) for n in value.stride()],
        }
    if isinstance(value, list | tuple):
        return [_describe(v) for v in value]
    return None


def _attribute(model: torch.nn.Module, path: str) -> Any:
    value: Any = model
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def export(model: torch.nn.Module, inputs: list[Any]) -> dict[str, Any]:
    """Export one forward pass.

    Args:
        model: the model; it is put into evaluation mode.
        inputs: positional arguments of ``forward``; their shapes become fixed.

    Returns:
        JSON: ``inputs``: list of {name, kind, target, shape, dtype, stride, value}, where kind is input, parameter,
        buffer or constant, target is the attribute path below the model (or the position of an input; null if the
        model holds no such attribute) and value is there for small constants only; ``nodes``: list of {name, op, args,
        kwargs, out}, in order, where {"ref": name} is a tensor and ``out`` its description (a list of them for several
        results); ``outputs``: list of names; ``output_form``: "tensor", "tuple", "list" or "other".

    Raises:
        GraphError: data-dependent control flow, an output that is no tensor, or whatever else stops the export.
    """
    model = model.eval()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, tuple(inputs)).run_decompositions(_decompositions())
    except Exception as error:
        raise GraphError(f"torch.export failed: {type(error).__name__}: {str(error).splitlines()[0][:300]}") from error

    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    kinds = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant", "USER_INPUT": "input"}
    entries, nodes, outputs, position = [], [], [], 0
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            kind, target = kinds.get(spec.kind.name, spec.kind.name.lower()), spec.target
            entry: dict[str, Any] = {"name": node.name, "kind": kind}
            if kind == "input":
                target, position = position, position + 1
            elif kind == "constant":
                constant = program.constants[target]
                if constant.numel() <= SMALL_CONSTANT:
                    entry["value"] = [_number(v) for v in constant.flatten().tolist()]
                target = target if isinstance(_attribute(model, target), torch.Tensor) else None
            description = _describe(node.meta.get("val")) or {"shape": None, "dtype": None, "stride": None}
            entries.append({**entry, "target": target, **description})
        elif node.op == "call_function":
            entry = {
                "name": node.name,
                "op": str(node.target) if isinstance(node.target, torch._ops.OpOverload) else node.target.__name__,
                "args": [_argument(a) for a in node.args],
                "kwargs": {k: _argument(v) for k, v in sorted(node.kwargs.items())},
                "out": _describe(node.meta.get("val")),
            }
            nodes.append(entry)
        elif node.op == "output":
            outputs = [_argument(a) for a in node.args[0]]
    if not all(isinstance(o, dict) and "ref" in o for o in outputs):
        raise GraphError(f"an output is no tensor: {outputs}")
    used = {ref for n in nodes for ref in _refs(n["args"]) | _refs(list(n["kwargs"].values()))}
    used |= {o["ref"] for o in outputs}
    return {
        "inputs": [e for e in entries if e["kind"] == "input" or e["name"] in used],
        "nodes": nodes,
        "outputs": [o["ref"] for o in outputs],
        "output_form": _form(program.call_spec.out_spec),
    }


def _form(spec: Any) -> str:
    if spec.is_leaf():
        return "tensor"
    flat = all(child.is_leaf() for child in spec.children())
    return {tuple: "tuple", list: "list"}.get(spec.type, "other") if flat else "other"


def _refs(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {value["ref"]} if "ref" in value else set()
    if isinstance(value, list):
        return set().union(*(_refs(v) for v in value))
    return set()


def main(argv: list[str] | None = None) -> int:
    """Print the graph of a task's file as JSON; 1 and a message on the standard error if it has none."""
    parser = argparse.ArgumentParser(prog="python3 -m cuda_agent.tasks.graph", description=main.__doc__)
    parser.add_argument("model", type=Path, help="file with Model, get_inputs and get_init_inputs")
    parser.add_argument("--json", type=Path, help="write there instead of printing")
    args = parser.parse_args(argv)
    from .load import load_task

    task = load_task(args.model.read_text(encoding="utf-8"))
    device = "cuda" if torch.cuda.is_available() else "cpu"  # large inputs are drawn faster there
    try:
        graph = export(task.build(0, device), task.inputs(0, device))
    except GraphError as error:
        print(error, file=sys.stderr)
        return 1
    text = json.dumps(graph, separators=(",", ":"), allow_nan=False)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""From the JSON of `cuda_agent.tasks.graph` to a program."""

from __future__ import annotations

import math
from typing import Any

from .ir import BOOL, FLOAT, LONG, Buffer, Constant, GiveUpError, Leaf, Node, Program, strides_of
from .rules import RULES, constant
from .views import expand

DTYPES = {"float32": FLOAT, "bool": BOOL, "int64": LONG}
FILLED = {
    "full": lambda args: args[1],
    "full_like": lambda args: args[1],
    "new_full": lambda args: args[2],
    "scalar_tensor": lambda args: args[0],
    "zeros": lambda args: 0.0,
    "zeros_like": lambda args: 0.0,
    "ones": lambda args: 1.0,
    "ones_like": lambda args: 1.0,
}


def _name(op: str) -> str:
    return op.removeprefix("aten.").removeprefix("prims.").rsplit(".", 1)[0] if "." in op else op


def _argument(value: Any, nodes: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return float(value["float"]) if "float" in value else nodes[value["ref"]]
    if isinstance(value, list):
        return [_argument(v, nodes) for v in value]
    return value


def _input(entry: dict[str, Any]) -> Node:
    if entry["shape"] is None:
        return constant(float("nan"))
    shape, dtype = tuple(entry["shape"]), DTYPES.get(entry["dtype"])
    if "value" in entry and math.prod(shape) == 1 and dtype is not None:
        value = float(_argument(entry["value"][0], {}))
        return expand(Constant((), FLOAT, value), shape)
    if dtype is None:
        raise GiveUpError(f"{entry['kind']} of dtype {entry['dtype']}")
    if entry["target"] is None:
        raise GiveUpError("a constant that the model holds under no name")
    if tuple(entry["stride"]) != strides_of(shape):
        compact = [(n, s) for n, s in zip(shape, entry["stride"], strict=True) if n != 1]
        if compact != [(n, s) for n, s in zip(shape, strides_of(shape), strict=True) if n != 1]:
            raise GiveUpError(f"{entry['kind']} that is not contiguous")
    source = f"input:{entry['target']}" if entry["kind"] == "input" else f"self.{entry['target']}"
    name = f"in{entry['target']}" if entry["kind"] == "input" else entry["target"].replace(".", "_")
    return Leaf(shape, dtype, Buffer(name, shape, dtype, source), strides_of(shape))


def read(graph: dict[str, Any]) -> Program:
    """Read a graph.

    Raises:
        GiveUpError: an operator or dtype that no rule knows; the message names it.
    """
    nodes: dict[str, Any] = {}
    needed = _needed(graph)
    for entry in graph["inputs"]:
        if entry["name"] in needed:
            nodes[entry["name"]] = _input(entry)
    operators = []
    for entry in graph["nodes"]:
        if entry["name"] not in needed:
            continue
        args = _argument(entry["args"], nodes)
        if entry["op"] == "getitem":
            value = args[0][args[1]]
            if value is None:
                raise GiveUpError(f"result {args[1]} of {operators[-1] if operators else 'an operator'}")
            nodes[entry["name"]] = value
            continue
        name = _name(entry["op"])
        operators.append(name)
        out = entry["out"]
        if name in FILLED:
            value = FILLED[name](args)
            if out["dtype"] not in ("float32", "bool") or isinstance(value, Node):
                raise GiveUpError(f"{name} of dtype {out['dtype']}")
            filled = bool(value) if out["dtype"] == "bool" else float(value)
            nodes[entry["name"]] = expand(constant(filled), tuple(out["shape"]))
            continue
        if name not in RULES:
            raise GiveUpError(f"no rule for {name}")
        for description in out if isinstance(out, list) else [out]:
            if description and description["dtype"] not in DTYPES:
                raise GiveUpError(f"{name} gives {description['dtype']}")
        kwargs = {k: _argument(v, nodes) for k, v in entry["kwargs"].items()}
        try:
            value = RULES[name](*args, **kwargs)
        except (TypeError, KeyError, NotImplementedError) as error:
            raise GiveUpError(f"no rule for {name} with these arguments ({error})") from error
        if isinstance(value, Node) and not isinstance(out, list) and tuple(value.shape) != tuple(out["shape"]):
            raise GiveUpError(f"{name} on these shapes: {tuple(value.shape)} instead of {tuple(out['shape'])}")
        counts = (
            isinstance(value, Node) and value.dtype == FLOAT and not isinstance(out, list) and out["dtype"] == "int64"
        )
        if isinstance(value, Node) and not counts and value.dtype != DTYPES[out["dtype"]]:
            raise GiveUpError(f"{name} that gives {out['dtype']}")
        nodes[entry["name"]] = value
    outputs = [nodes[name] for name in graph["outputs"]]
    described = {e["name"]: e["out"] for e in graph["nodes"]}
    for name, node in zip(graph["outputs"], outputs, strict=True):
        if isinstance(described.get(name), dict) and DTYPES.get(described[name]["dtype"]) != node.dtype:
            raise GiveUpError(f"an output of dtype {described[name]['dtype']}")  # counts are floats inside kernels
    if graph["output_form"] == "other":
        raise GiveUpError("outputs that are neither a tensor nor a tuple or list of tensors")
    if any(isinstance(node, Leaf) for node in outputs):
        raise GiveUpError("a model that returns its input")
    return Program(_buffers(nodes.values()), outputs, graph["output_form"], operators)


def _needed(graph: dict[str, Any]) -> set[str]:
    """Names that the outputs depend on."""
    needed = set(graph["outputs"])

    def refs(value: Any) -> None:
        if isinstance(value, dict) and "ref" in value:
            needed.add(value["ref"])
        elif isinstance(value, list):
            for v in value:
                refs(v)

    for entry in reversed(graph["nodes"]):
        if entry["name"] in needed:
            refs(entry["args"])
            refs(list(entry["kwargs"].values()))
    return needed


def _buffers(nodes) -> list[Buffer]:
    found: dict[Buffer, None] = {}
    for node in nodes:
        if isinstance(node, Leaf):
            found[node.buffer] = None
    return list(found)

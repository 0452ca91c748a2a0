"""Tensors in shared memory, and trees of arguments as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

_ALIGNMENT = 256


def spec(tensor: torch.Tensor) -> dict[str, Any]:
    """``{"shape", "dtype"}`` of a tensor, as JSON."""
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


def dtype_of(spec: dict[str, Any]) -> torch.dtype:
    """The dtype that a spec names."""
    return getattr(torch, spec["dtype"])


def bytes_of(spec: dict[str, Any], dtype: torch.dtype | None = None) -> int:
    """Bytes of a contiguous tensor; ``dtype`` instead of the spec's own if given."""
    return math.prod(spec["shape"]) * (dtype or dtype_of(spec)).itemsize


def total(specs: Sequence[dict[str, Any]], dtype: torch.dtype | None = None) -> int:
    """Bytes of memory that hold these tensors one after the other; at least one page."""
    return max(sum(_padded(bytes_of(s, dtype)) for s in specs), 4096)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def views(memory: memoryview, specs: Sequence[dict[str, Any]], dtype: torch.dtype | None = None) -> list[torch.Tensor]:
    """Tensors over shared memory, without copying; ``dtype`` instead of the specs' own if given."""
    out, offset = [], 0
    for s in specs:
        size, kind = bytes_of(s, dtype), dtype or dtype_of(s)
        if size == 0:
            out.append(torch.empty(s["shape"], dtype=kind))
            continue
        flat = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=offset)
        out.append(flat.view(kind).view(s["shape"]))
        offset += _padded(size)
    return out


def write(memory: memoryview, tensors: Sequence[torch.Tensor], dtype: torch.dtype | None = None) -> None:
    """Copy tensors into shared memory, converted to ``dtype`` if given."""
    for place, tensor in zip(views(memory, [spec(t) for t in tensors], dtype), tensors, strict=True):
        place.copy_(tensor.detach())


def flatten(value: Any, tensors: list[torch.Tensor]) -> Any:
    """A tree of arguments as JSON, its tensors appended to ``tensors`` and named by their number.

    Raises:
        TypeError: it holds something that JSON has no form for.
    """
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [flatten(v, tensors) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[k, flatten(v, tensors)] for k, v in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"an input of type {type(value).__name__} cannot be handed over")


def unflatten(tree: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The reverse of `flatten`."""
    ((kind, value),) = tree.items()
    if kind == "tensor":
        return tensors[value]
    if kind in ("list", "tuple"):
        items = [unflatten(v, tensors) for v in value]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {k: unflatten(v, tensors) for k, v in value}
    return value


def outputs(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Leaves of what a model returned, with where they stand; the structure itself is not kept."""
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in outputs(v, f"{path}.{k}")]
    if isinstance(value, list | tuple):
        return [leaf for i, v in enumerate(value) for leaf in outputs(v, f"{path}.{i}")]
    return [(path, value)]

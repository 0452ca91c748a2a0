"""Statistics of a model's outputs, and how far two of them are apart.

Everything is computed in float64, in chunks, so that comparing needs little memory beside the outputs themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

_CHUNK = 1 << 22

Tensors = Sequence[torch.Tensor]


def _chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Values of a tensor as float64, some at a time; a complex value counts as two."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    for part in tensor.detach().reshape(-1).split(_CHUNK):
        yield part.double()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def comparable(a: Tensors, b: Tensors) -> bool:
    """Whether two outputs have the same structure and shapes."""
    return [(t.shape, t.is_complex()) for t in a] == [(t.shape, t.is_complex()) for t in b]


def nonfinite(tensors: Tensors) -> int:
    """How many values are NaN or infinite."""
    return sum(int((~part.isfinite()).sum()) for t in tensors for part in _chunks(t))


def spread(tensors: Tensors) -> tuple[float | None, float | None]:
    """Standard deviation and root mean square over all finite values; None where there are none, or they overflow."""
    count, total, squares = 0, 0.0, 0.0
    for tensor in tensors:
        for chunk in _chunks(tensor):
            part = chunk[chunk.isfinite()]
            count += part.numel()
            total += float(part.sum())
            squares += float((part * part).sum())
    if not count:
        return None, None
    mean = total / count
    deviations = 0.0  # a second pass: subtracting squares would lose a small spread around a large mean
    for tensor in tensors:
        for chunk in _chunks(tensor):
            part = chunk[chunk.isfinite()] - mean
            deviations += float((part * part).sum())
    return _finite(math.sqrt(deviations / count)), _finite(math.sqrt(squares / count))


def difference(a: Tensors, b: Tensors, scale: float | None) -> float | None:
    """Largest absolute difference between two outputs, over ``scale``.

    Values that are equal, both NaN or the same infinity differ by 0.

    Returns:
        None where it is undefined: other shapes, a value that is not finite in one only, or no scale.
    """
    if not comparable(a, b):
        return None
    largest = 0.0
    for x, y in zip(a, b, strict=True):
        for p, q in zip(_chunks(x), _chunks(y), strict=True):
            same = (p == q) | (p.isnan() & q.isnan())
            apart = torch.where(same, 0.0, (p - q).abs())
            if apart.numel():
                if apart.isnan().any():
                    return None
                largest = max(largest, float(apart.max()))
    if largest == 0.0:
        return 0.0
    return _finite(largest / scale) if scale else None


def disagreement(value: Tensors, reference: Tensors, scale: float | None) -> float | None:
    """Smallest tolerance t with ``|value - reference| <= t * (scale + |reference|)`` everywhere.

    A NaN agrees with a NaN and an infinity with the same infinity only.

    Returns:
        None where no tolerance would do: other shapes, a value that is not finite in one only.
    """
    if not comparable(value, reference):
        return None
    largest = 0.0
    for x, y in zip(value, reference, strict=True):
        for p, q in zip(_chunks(x), _chunks(y), strict=True):
            same = (p == q) | (p.isnan() & q.isnan())
            needed = torch.where(same, 0.0, (p - q).abs() / ((scale or 0.0) + q.abs()))
            if needed.numel():
                if not needed.isfinite().all():
                    return None
                largest = max(largest, float(needed.max()))
    return largest

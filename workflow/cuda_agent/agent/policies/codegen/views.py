"""Operators that only move elements: maps from the index of the result to that of the operand."""

from __future__ import annotations

import math

from .ir import Affine, GiveUpError, Index, Leaf, Node, View, normal_dims, reshape_index, strides_of


def reshape(x: Node, shape) -> Node:
    """``x`` with its elements, in row-major order, in another shape; one size may be -1."""
    shape = list(shape)
    if -1 in shape:
        shape[shape.index(-1)] = x.numel // -math.prod(shape)
    shape = tuple(shape)
    if shape == tuple(x.shape):
        return x
    if isinstance(x, Leaf) and x.strides == strides_of(x.shape):
        return Leaf(shape, x.dtype, x.buffer, strides_of(shape))
    return View(shape, x.dtype, x, reshape_index(tuple(x.shape), shape), flat=True)


def permute(x: Node, dims) -> View:
    dims = [d % len(x.shape) for d in dims]

    def index(idx: Index) -> Index:
        out = [Affine()] * len(dims)
        for i, d in zip(idx, dims, strict=True):
            out[d] = i
        return tuple(out)

    return View(tuple(x.shape[d] for d in dims), x.dtype, x, index)


def transpose(x: Node, a: int, b: int) -> View:
    dims = list(range(len(x.shape)))
    dims[a], dims[b] = dims[b], dims[a]
    return permute(x, dims)


def expand(x: Node, shape) -> View:
    lead = len(shape) - len(x.shape)
    full = tuple(x.shape[d - lead] if n == -1 else n for d, n in enumerate(shape))

    def index(idx: Index) -> Index:
        return tuple(Affine() if n == 1 else i for i, n in zip(idx[lead:], x.shape, strict=True))

    return View(full, x.dtype, x, index)


def unsqueeze_dims(x: Node, dims, rank: int) -> View:
    """Insert dimensions of size 1; ``dims`` are their places in the result, which has ``rank`` dimensions."""
    dims = set(dims)
    kept = [d for d in range(rank) if d not in dims]
    shape = [1] * rank
    for d, n in zip(kept, x.shape, strict=True):
        shape[d] = n
    return View(tuple(shape), x.dtype, x, lambda idx: tuple(idx[d] for d in kept))


def squeeze(x: Node, dims=None) -> Node:
    dims = [d for d in normal_dims(dims, len(x.shape)) if x.shape[d] == 1]
    kept = [d for d in range(len(x.shape)) if d not in dims]

    def index(idx: Index) -> Index:
        out = [Affine()] * len(x.shape)
        for d, i in zip(kept, idx, strict=True):
            out[d] = i
        return tuple(out)

    return View(tuple(x.shape[d] for d in kept), x.dtype, x, index)


def slice_(x: Node, dim=0, start=None, end=None, step=1) -> View:
    dim %= len(x.shape)
    n = x.shape[dim]
    positions = range(n)[slice(start, end, step)]
    shape = list(x.shape)
    shape[dim] = len(positions)
    if not positions:
        raise GiveUpError("empty tensors")

    def index(idx: Index) -> Index:
        return tuple((i * step).shifted(positions[0]) if d == dim else i for d, i in enumerate(idx))

    return View(tuple(shape), x.dtype, x, index)


def select(x: Node, dim: int, position: int) -> View:
    dim, position = dim % len(x.shape), position % x.shape[dim]

    def index(idx: Index) -> Index:
        return (*idx[:dim], Affine((), position), *idx[dim:])

    return View((*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype, x, index)


def flip(x: Node, dims) -> View:
    dims = normal_dims(dims, len(x.shape))

    def index(idx: Index) -> Index:
        return tuple((i * -1).shifted(x.shape[d] - 1) if d in dims else i for d, i in enumerate(idx))

    return View(x.shape, x.dtype, x, index)


def pad(x: Node, amounts, value=0.0) -> View:
    """``amounts``: before and after, from the last dimension on; negative ones cut."""
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for k in range(len(amounts) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = amounts[2 * k], amounts[2 * k + 1]
    shape = tuple(n + b + a for n, b, a in zip(x.shape, before, after, strict=True))
    bounds = tuple(d for d in range(rank) if before[d] > 0 or after[d] > 0)
    if min(shape) <= 0:
        raise GiveUpError("empty tensors")

    def index(idx: Index) -> Index:
        return tuple(i.shifted(-b) for i, b in zip(idx, before, strict=True))

    return View(shape, x.dtype, x, index, bounds, float(value or 0.0))


def window(x: Node, size, stride, padding, dilation, fill: float) -> View:  # noqa: PLR0917 (ATen's own arguments)
    """All windows over the last dimensions: [..., *places, *size]."""
    rank, lead = len(size), len(x.shape) - len(size)
    places = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(x.shape[lead:], size, stride, padding, dilation, strict=True)
    )

    def index(idx: Index) -> Index:
        moved = [
            (idx[lead + j] * stride[j] + idx[lead + rank + j] * dilation[j]).shifted(-padding[j]) for j in range(rank)
        ]
        return (*idx[:lead], *moved)

    bounds = tuple(lead + j for j in range(rank) if padding[j])
    return View((*x.shape[:lead], *places, *size), x.dtype, x, index, bounds, fill)


VIEW_RULES = {
    "view": reshape,
    "_unsafe_view": reshape,
    "reshape": reshape,
    "transpose": transpose,
    "squeeze": squeeze,
    "unsqueeze": lambda x, d: unsqueeze_dims(x, [d % (len(x.shape) + 1)], len(x.shape) + 1),
    "slice": lambda x, dim=0, start=None, end=None, step=1: slice_(x, dim, start, end, step),
    "select": select,
    "flip": flip,
    "constant_pad_nd": pad,
}

"""Hold a candidate's outputs against the reference's, where the reference is: no code of the candidate's runs there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

TOLERANCE = 1e-2  # published: |c - e| <= TOLERANCE + TOLERANCE |e|

# Values at a time. On a CPU small outputs go in parts that stay in the cache and for which torch starts no threads,
# since other work may hold all cores; large ones in parts that are worth threads.
_CHUNK, _LARGE_CHUNK, _LARGE, _GPU_CHUNK = 1 << 14, 1 << 22, 1 << 23, 1 << 26


def _reals(tensor: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).reshape(-1)


def _chunks(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    n = tensors[0].numel()
    step = _GPU_CHUNK if tensors[0].is_cuda else _CHUNK if n < _LARGE else _LARGE_CHUNK
    for start in range(0, n, step):
        yield tuple(t[start : start + step].double() for t in tensors)


def compare(
    got: Sequence[torch.Tensor], eager: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], *, scaled: bool
) -> dict[str, Any]:
    """Errors of all outputs together; for each figure the worst of the outputs.

    Args:
        got, eager, exact: outputs of the candidate, of the reference in its own precision, and in float64.
        scaled: the tolerance's absolute part grows with the outputs where they are larger than 1.

    Returns:
        ``nonfinite``: values that are NaN or infinite where the exact one is not; ``max_error`` and ``rms_error``:
        against ``exact``, over the root mean square of ``exact``; ``excess``: share of values outside the published
        tolerance around ``eager``; ``mismatched``: share of other integers; and with the prefix ``eager_`` what the
        reference itself shows against ``exact``.
    """
    worst: dict[str, Any] = dict.fromkeys(
        [f"{who}{what}" for what in ("max_error", "rms_error", "excess", "mismatched") for who in ("", "eager_")], 0.0
    )
    worst["nonfinite"] = 0
    for c, e, x in zip(got, eager, exact, strict=True):
        found = _floats(c, e, x, scaled) if c.is_floating_point() or c.is_complex() else _integers(c, e, x)
        for name, value in found.items():
            worst[name] = worst[name] + value if name == "nonfinite" else max(worst[name], value)
    return worst


def _integers(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> dict[str, float]:
    n = max(got.numel(), 1)
    out = {"mismatched": 0.0, "eager_mismatched": 0.0}
    for a, b, y in _chunks(got.reshape(-1), eager.reshape(-1), exact.reshape(-1)):
        out["mismatched"] += int((a != b).sum()) / n
        out["eager_mismatched"] += int((b != y).sum()) / n
    return out


def _floats(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, scaled: bool) -> dict[str, float]:
    c, e, x = _reals(got), _reals(eager), _reals(exact)
    n = max(c.numel(), 1)
    squares = sum(float(torch.dot(part, part)) for (part,) in _chunks(x))
    scale = max((squares / n) ** 0.5, 1e-30)
    absolute = TOLERANCE * max(scale, 1.0) if scaled else TOLERANCE
    sums = {"": 0.0, "eager_": 0.0}
    out = {"nonfinite": 0, "max_error": 0.0, "eager_max_error": 0.0, "excess": 0, "eager_excess": 0}
    for a, b, y in _chunks(c, e, x):
        out["nonfinite"] += int((~torch.isfinite(a) & torch.isfinite(y)).sum())
        for who, values, target in (("", a, b), ("eager_", b, y)):
            error = (values - y).nan_to_num_(nan=float("inf")).abs_()
            out[f"{who}max_error"] = max(out[f"{who}max_error"], float(error.max()) / scale)
            sums[who] += float(torch.dot(error, error))
            inside = (values - target).abs_() <= torch.add(target.abs().mul_(TOLERANCE), absolute)
            out[f"{who}excess"] += a.numel() - int(inside.sum())
    for who, value in sums.items():
        out[f"{who}rms_error"] = (value / n) ** 0.5 / scale
        out[f"{who}excess"] /= n
    return out

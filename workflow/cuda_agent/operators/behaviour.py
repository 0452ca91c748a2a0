"""What an elementwise function does to the range of its values, by trying it.

Synthesis uses these words to leave out compositions whose outputs would be constant, infinite or redundant.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

# Words, in the order in which they are reported.
FINITE = "finite"  # finite for every real input that was tried
FINITE_POSITIVE = "finite_positive"  # finite for positive inputs
NONNEGATIVE = "nonnegative"  # no output below zero
GROWS = "grows"  # much faster than linear
SATURATES = "saturates"  # constant for large inputs
BOUNDED = "bounded"  # outputs stay within [-8, 8]
KEEPS_POSITIVE = "keeps_positive"  # the identity on positive inputs
FLAT_POSITIVE = "flat_positive"  # constant, or nearly, on positive inputs
FLAT = "flat"  # takes few values: sign, round, ...
IDEMPOTENT = "idempotent"  # twice is the same as once
EVEN = "even"  # the sign of the input does not matter


def _few_values(y: torch.Tensor) -> bool:
    return y.unique().numel() < y.numel() // 8


def words(function: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    """Words that are true of an elementwise function of one float32 tensor."""
    x = torch.linspace(-4.0, 4.0, 801)
    p = torch.linspace(0.05, 4.0, 400)
    wide = torch.tensor([-45.0, -40.0, -35.0, -30.0, 30.0, 35.0, 40.0, 45.0])
    y, q, w = function(x.clone()), function(p.clone()), function(wide.clone())
    finite, positive = bool(y.isfinite().all()), bool(q.isfinite().all())
    found = {FINITE: finite, FINITE_POSITIVE: positive}
    seen, far = (y, w) if finite else (q, w[4:])
    if not seen.isfinite().all():
        return []
    large = torch.nan_to_num(far, nan=0.0, posinf=1e30, neginf=-1e30).abs()
    found[NONNEGATIVE] = bool((seen >= 0).all())
    found[GROWS] = bool(large.max() > 500)
    found[SATURATES] = bool(far.isfinite().all()) and bool(torch.allclose(far[-4:], far[-1:].expand(4), atol=1e-3))
    found[BOUNDED] = bool(large.max() <= 8) and bool(seen.abs().max() <= 8)
    found[KEEPS_POSITIVE] = positive and bool(torch.allclose(q, p))
    found[FLAT_POSITIVE] = positive and bool(q.std() < 0.05)
    found[FLAT] = _few_values(seen)
    if finite:
        found[IDEMPOTENT] = bool(torch.allclose(function(y.clone()), y, equal_nan=True))
        found[EVEN] = bool(torch.allclose(y, y.flip(0)))
    return [word for word, true in found.items() if true]

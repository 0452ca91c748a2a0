"""Confidence intervals over tasks, the unit that a policy is evaluated on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

Interval = tuple[float | None, float | None]
_ROUNDING = 1e-12  # values that differ by no more than this share of the largest are equal
NORMAL = NormalDist()


def settled(value: float) -> float:
    """A computed number to 12 significant digits, which every processor agrees on.

    Logarithms, exponentials and sums come out one unit in the last place apart on processors with other vector units.
    """
    return float(f"{value:.12g}")


def generator(seed: int, *names: str) -> np.random.Generator:
    """Random numbers that depend on the seed and on what they are for, not on what was drawn before."""
    digest = hashlib.sha256("\0".join([str(seed), *names]).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def bootstrap(
    values: Sequence[float],
    statistic: Callable[[np.ndarray], np.ndarray],
    *,
    samples: int,
    confidence: float,
    rng: np.random.Generator,
) -> Interval:
    """Bias-corrected and accelerated (BCa) bootstrap interval of a statistic.

    Source: Efron 1987, Better Bootstrap Confidence Intervals, doi:10.1080/01621459.1987.10478410.

    Args:
        values: one number for each task.
        statistic: maps an array ``[..., n]`` to ``[...]`` along its last axis.
        samples: number of resamples.
        confidence: e.g. 0.95.

    Returns:
        The ends, or ``(None, None)`` where resampling shows no spread at all: fewer than two values, or all equal
        but for rounding.
        An interval of width zero would claim a certainty that so little data cannot give.
    """
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 2 or np.ptp(x) <= _ROUNDING * np.abs(x).max():
        return None, None
    point = float(statistic(x))
    draws = np.sort(statistic(x[rng.integers(0, n, size=(samples, n))]))
    # Half of the ties count as below: resamples of a few values often give the point itself, up to rounding.
    ties = np.isclose(draws, point, rtol=1e-9, atol=0)
    below = (np.count_nonzero(draws[~ties] < point) + 0.5 * np.count_nonzero(ties)) / samples
    bias = NORMAL.inv_cdf(min(max(below, 0.5 / samples), 1 - 0.5 / samples))
    without = statistic(np.stack([np.delete(x, i) for i in range(n)]))
    centred = without.mean() - without
    spread = float(np.sum(centred**2)) ** 1.5
    acceleration = float(np.sum(centred**3)) / (6 * spread) if spread > 0 else 0.0
    ends = []
    for share in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = bias + NORMAL.inv_cdf(share)
        ends.append(NORMAL.cdf(bias + z / (1 - acceleration * z)))
    low, high = np.quantile(draws, ends)
    return settled(low), settled(high)


def wilson(successes: int, n: int, confidence: float) -> Interval:
    """Wilson score interval of a share (Wilson 1927, doi:10.1080/01621459.1927.10502953); ``(None, None)`` for n = 0.

    Shares are not bootstrapped: every resample of 0 out of 24, or of 24 out of 24, is the same, and the bootstrap would
    then report no uncertainty at all.
    """
    if n == 0:
        return None, None
    z = NORMAL.inv_cdf((1 + confidence) / 2)
    p = successes / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    low, high = settled(centre - half), settled(centre + half)
    return max(0.0, low) if successes else 0.0, min(1.0, high) if successes < n else 1.0


def geometric_mean(x: np.ndarray) -> np.ndarray:
    """Geometric mean along the last axis."""
    return np.exp(np.mean(np.log(x), axis=-1))


def mean(x: np.ndarray) -> np.ndarray:
    """Arithmetic mean along the last axis."""
    return np.mean(x, axis=-1)

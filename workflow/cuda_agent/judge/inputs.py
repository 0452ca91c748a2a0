"""What a candidate is tried on: the task's own inputs, and the same values differently spread."""

from __future__ import annotations

from collections.abc import Callable

import torch


def _generator(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def _drawn(x: torch.Tensor, seed: int) -> torch.Tensor:
    return x


def _scaled(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Ten times as large: approximations that hold near the usual values fail."""
    return x * 10


def _shifted(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Moved by five standard deviations: means and variances are no longer those of the usual values."""
    return x + 5 * x.std(correction=0)


def _sorted(x: torch.Tensor, seed: int) -> torch.Tensor:
    """The same values in ascending order: every region matters, and samples do not speak for the whole."""
    return x.flatten().sort().values.view(x.shape)


def _outliers(x: torch.Tensor, seed: int) -> torch.Tensor:
    """One value in a hundred is thirty times as large."""
    n = x.numel()
    where = torch.randint(n, (max(n // 100, 1),), generator=_generator(seed, x.device), device=x.device)
    out = x.clone().flatten()
    out[where] *= 30
    return out.view(x.shape)


DISTRIBUTIONS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "drawn": _drawn,
    "shifted": _shifted,
    "sorted": _sorted,
    "scaled": _scaled,
    "outliers": _outliers,
}


def spread(x: torch.Tensor, distribution: str, seed: int) -> torch.Tensor:
    """An input under a named distribution; integers are left as drawn, since they may be indices."""
    if not x.is_floating_point() or x.numel() < 2:
        return x
    return DISTRIBUTIONS[distribution](x, seed)


def perturbed(x: torch.Tensor, seed: int) -> torch.Tensor:
    """An input changed everywhere: floats by half their spread in either direction, others by taking another order.

    What is nowhere negative stays so.
    """
    n = x.numel()
    if not x.is_floating_point():
        order = torch.randperm(n, generator=_generator(seed, x.device), device=x.device)
        return x.flatten()[order].view(x.shape)
    noise = torch.randn(x.shape, generator=_generator(seed, x.device), device=x.device).to(x.dtype)
    if n and x.min() >= 0:
        return x * torch.exp(0.5 * noise)
    spread = x.std(correction=0) if n > 1 else x.abs().mean()
    return x + 0.5 * spread.clamp(min=0.1) * noise


def poke_places(n: int, count: int, seed: int) -> tuple[list[int], list[int]]:
    """Two disjoint lists of places in a tensor of ``n`` values: copy the second to the first, and it has changed.

    Copies keep to the values that the tensor had, and doing it twice is the same as once.
    """
    count = min(count, n // 2)
    if count == 0:
        return [], []
    cpu = torch.device("cpu")
    drawn = torch.randint(n, (4 * count,), generator=_generator(seed, cpu)).unique()
    drawn = drawn[torch.randperm(len(drawn), generator=_generator(seed + 1, cpu))].tolist()
    half = len(drawn) // 2
    return drawn[:half][:count], drawn[half : 2 * half][:count]

"""Runs of many calls on distinct inputs: the same code for the candidate and for the baselines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cuda_agent.judge import layout


def set_up(device: str, threads: int) -> None:
    """Give torch and OpenMP their threads. Both must come before the first parallel region."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    if device == "cuda":
        torch.cuda.init()


def synchronize(device: str) -> None:
    """Wait for all work on all streams of the device."""
    if device == "cuda":
        torch.cuda.synchronize()


class Ring:
    """Sets of inputs at different addresses with different contents.

    Args:
        tree: the arguments, as `layout.flatten` gives them.
        tensors: set 0; the others are the same values turned around by a secret amount.
        sets: how many.
        seed: what the amounts come from.
    """

    def __init__(self, tree: Any, tensors: Sequence[torch.Tensor], sets: int, seed: int, turn: bool) -> None:
        self.rings = []
        generator = torch.Generator().manual_seed(seed)
        for tensor in tensors:
            ring = tensor.new_empty((sets, *tensor.shape))
            for k in range(sets):
                amount = int(torch.randint(max(tensor.numel(), 1), (), generator=generator))
                moved = tensor.flatten().roll(amount) if turn and k else tensor.flatten()
                ring[k].copy_(moved.view(tensor.shape))
            self.rings.append(ring)
        self._tree = tree

    def arguments(self, k: int) -> list[Any]:
        """Set ``k``, ready to be given to a model."""
        return layout.unflatten(self._tree, [ring[k] for ring in self.rings])

    def poke(self, places: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
        """Change some values in each tensor; see `inputs.poke_places`."""
        for ring, (to, source) in zip(self.rings, places, strict=True):
            if to:
                flat = ring.view(-1)
                flat[torch.tensor(to, device=ring.device)] = flat[torch.tensor(source, device=ring.device)]


def run(model: Callable[..., Any], ring: Ring, sets: Sequence[int], places: Any, device: str) -> list[Any]:
    """Call a model once for each of the sets; what it returned, when the device has finished all of it."""
    ring.poke(places)
    arguments = [ring.arguments(k) for k in sets]
    with torch.no_grad():
        results = [model(*args) for args in arguments]
    synchronize(device)
    return results

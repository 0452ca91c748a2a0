"""Time a candidate against its baselines: interleaved, by the parent's clock, on inputs that nobody has seen.

Each sample comes of a run of N calls and one of 2N calls on other inputs; what a request costs follows from both and is
taken off. Before each run some values of the inputs change, and outputs of the run are compared afterwards.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuda_agent.judge import inputs

WARMUP = 3
MAX_CALLS = 1000
BUDGET_S = 12.0  # after this no further pair is begun, if there are MIN_PAIRS
MIN_PAIRS = 5
POKES = 64  # values changed in each tensor before each run, and four more for each set
CHECKED = 0.3  # share of runs whose outputs are compared
MEMORY = {"cpu": 2**29, "cuda": 2**33}  # bytes for sets of inputs, and again for outputs that are kept


@dataclass(frozen=True)
class Runners:
    """How to do things in the two children; each raises where the child did not do it.

    Attributes:
        run: name of a model -> (sets, places) -> None.
        make_ring: lay out this many sets in both children.
        compare: compare the candidate's output number ``index``, which set ``k`` gave, with eager's; adds a check.
    """

    run: dict[str, Callable[[list[int], list[Any]], None]]
    make_ring: Callable[[int, int], None]
    compare: Callable[[int, int], None]


def _timed(run: Callable[[list[int], list[Any]], None], sets: list[int], places: list[Any]) -> float:
    start = time.perf_counter()
    run(sets, places)
    return time.perf_counter() - start


def measure(
    runners: Runners, sizes: list[int], *, in_bytes: int, out_bytes: int, judging: Any, rng: random.Random
) -> dict[str, list[float]]:
    """Milliseconds of one call, by name, one sample for each pair.

    Args:
        sizes: number of values of each input tensor.
        in_bytes, out_bytes: of one call.
        judging: the ``judging`` section of the parameters.
    """
    memory = MEMORY[judging.device]
    names = list(runners.run)
    capacity = max(3, min(3 * MAX_CALLS, memory // max(in_bytes, 1)))
    most = max(1, min(MAX_CALLS, capacity // 3, memory // max(2 * out_bytes, 1)))

    def places(count: int) -> list[Any]:
        # `sizes` are of one set; the ring holds `count` of them one after the other.
        return [inputs.poke_places(n * count, min(POKES + 4 * count, 4096), rng.getrandbits(40)) for n in sizes]

    runners.make_ring(3, rng.getrandbits(40))
    calls = {}
    for name in names:
        for _ in range(WARMUP):
            once = _timed(runners.run[name], [0], places(0))
        twice = _timed(runners.run[name], [1, 2], places(0))
        per_call = max(twice - once, once / 4, 1e-6)
        calls[name] = max(1, min(most, round(1e-3 * judging.min_sample_ms / per_call)))
    sets = min(capacity, max(3 * max(calls.values()), 3))
    runners.make_ring(sets, rng.getrandbits(40))
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    deadline = time.monotonic() + BUDGET_S
    for pair in range(judging.timing_pairs):
        if pair >= MIN_PAIRS and time.monotonic() > deadline:
            break
        took: dict[str, list[float]] = {name: [] for name in names}
        order = rng.sample(range(sets), sets)
        for phase in (1, 2):
            changed = places(sets)
            for name in rng.sample(names, len(names)):
                n = calls[name]
                chosen = [order[i % sets] for i in (range(n) if phase == 1 else range(n, 3 * n))]
                took[name].append(_timed(runners.run[name], chosen, changed))
                if name == "candidate":
                    asked = chosen
            if rng.random() < CHECKED or (pair == 0 and phase == 2):
                index = rng.randrange(len(asked))
                runners.compare(index, asked[index])
        for name in names:
            seconds[name].append((took[name][0], took[name][1]))
    return {name: samples(seconds[name], calls[name]) for name in names}


def samples(seconds: list[tuple[float, float]], calls: int) -> list[float]:
    """Milliseconds of one call for each pair of runs of N and of 2N calls.

    What a request costs, whatever the number of calls, is the median over all pairs of twice the first less the second;
    taking the difference pair by pair would double the noise of every sample.
    """
    request = max(statistics.median(2 * first - second for first, second in seconds), 0.0)
    request = min(request, *(min(pair) / 2 for pair in seconds))
    return [1e3 * (first + second - 2 * request) / (3 * calls) for first, second in seconds]

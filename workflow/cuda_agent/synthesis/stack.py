"""The stack composer: one to five operators in sequence, whose shapes and ranges fit.

Candidate ``i`` is a function of the seed, of ``i`` and of the catalogue alone. Its mix of sources follows the
published one (CUDA-Agent, arXiv 2602.24286, section 3.1), spread evenly over the numbers, so that any stretch of them
has about the same mix.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.draft import FLOAT_BYTES, Draft, Misfit
from cuda_agent.synthesis.families import FIRST, NEXT, Emit, family

Member = tuple[Operator, Emit]

FLOPS_PER_BYTE = 50  # of the largest tensor: keeps matrix products within the time that elementwise ones take
_PROBE = 1 << 16  # a batch so large that the tensors which grow with it are the largest
_ATTEMPTS = 12  # layouts and sizes to try before operators are said not to fit
_REDRAWS = 2000  # the same for a candidate, which has to keep within its size as well
_FEATURES = (96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 4096)
_LAYOUT_NAMES = ("matrix", "sequence", "image", "signal", "volume")


def sources(mix: Mapping[str, float], count: int) -> list[tuple[str, int]]:
    """For each of so many candidates its data source, and how many candidates before it have the same.

    Each source's share of the first n candidates is within one of its weight's share of n.
    """
    total = sum(mix.values())
    names = [n for n in sorted(mix) if mix[n] > 0]
    counts: Counter[str] = Counter()
    found = []
    for i in range(count):
        name = max(names, key=lambda n: mix[n] / total * (i + 1) - counts[n])
        found.append((name, counts[name]))
        counts[name] += 1
    return found


def target_of(target_bytes: tuple[int, int], seed: int, index: int) -> int:
    """Bytes that the largest tensor of a candidate should take: log-uniform between the ends."""
    low, high = target_bytes
    return int(low * (high / low) ** Random(f"{seed}/target/{index}").random())


def _weighted(weights: Mapping[str, float], rng: Random) -> str:
    names = sorted(weights)
    return rng.choices(names, [weights[n] for n in names])[0]


class Stack:
    """Composes candidates from a catalogue.

    Args:
        operators: the verified operators.
        target_bytes: smallest and largest size of a task's largest tensor, bytes.
        seed: of the run.
    """

    def __init__(self, operators: Sequence[Operator], target_bytes: tuple[int, int], seed: int) -> None:
        self.target_bytes, self.seed = target_bytes, seed
        self._families: dict[str, dict[str, list[Member]]] = {}
        for op in operators:
            found = family(op)
            if found is not None:
                name, emit = found
                self._families.setdefault(name, {}).setdefault(op.same_as, []).append((op, emit))
        self._streams: dict[tuple[str, ...], tuple[Iterator[tuple[str, ...]], list[tuple[str, ...]]]] = {}
        self._patterns: dict[int, list[tuple[tuple[str, ...], int]]] = {}
        self._drawn: Counter[tuple[str, ...]] = Counter()

    def _pattern(self, length: int, rank: int) -> tuple[tuple[str, ...], int]:
        """The families of the rank-th candidate of this length, and how many earlier ones have the same."""
        made = self._patterns.setdefault(length, [])
        while len(made) <= rank:
            rng = Random(f"{self.seed}/pattern/{length}/{len(made)}")
            pattern = self._draw_pattern(length, rng)
            while self._nth(pattern, 0) is None:
                pattern = self._draw_pattern(length, rng)
            made.append((pattern, self._drawn[pattern]))
            self._drawn[pattern] += 1
        return made[rank]

    def _draw_pattern(self, length: int, rng: Random) -> tuple[str, ...]:
        while True:
            found: list[str] = []
            weights: Mapping[str, float] = FIRST
            while len(found) < length:
                weights = {n: w for n, w in weights.items() if n in self._families}
                if not weights:
                    break
                found.append(_weighted(weights, rng))
                weights = NEXT[found[-1]]
            heavy = sum(f in ("contraction", "convolution", "attention", "recurrent") for f in found)
            if len(found) == length and heavy <= 2:
                return tuple(found)

    def _stream(self, pattern: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Endless tuples of operators (by `Operator.same_as`) for a pattern; each once before any comes again."""
        rng = Random(f"{self.seed}/stream/{'/'.join(pattern)}")
        groups = [sorted(self._families[name]) for name in pattern]
        fits = functools.cache(functools.partial(self._fits, pattern))
        seen: set[tuple[str, ...]] = set()
        fruitless = 0
        while True:
            chosen = tuple(rng.choice(g) for g in groups)
            if chosen in seen or not fits(chosen):
                fruitless += 1
                if fruitless > 500:
                    if not seen:
                        return
                    seen.clear()
                    fruitless = 0
                continue
            fruitless = 0
            seen.add(chosen)
            yield chosen

    def _fits(self, pattern: tuple[str, ...], chosen: tuple[str, ...]) -> bool:
        members = [self._families[f][c][0] for f, c in zip(pattern, chosen, strict=True)]
        return any(self._try(members, f"fit/{n}", 1 << 20) is not None for n in range(_ATTEMPTS))

    def _nth(self, pattern: tuple[str, ...], n: int) -> tuple[str, ...] | None:
        stream, made = self._streams.setdefault(pattern, (self._stream(pattern), []))
        while len(made) <= n:
            following = next(stream, None)
            if following is None:
                return None
            made.append(following)
        return made[n]

    def _sizes(self, layout: str, elements: int, rng: Random) -> list[int]:
        """Sizes of the axes after the batch."""
        if layout == "matrix":
            return [rng.choice([f for f in _FEATURES if f * f <= 4 * elements] or [64])]
        if layout == "sequence":
            return [rng.choice((32, 64, 100, 128, 256)), rng.choice((64, 96, 128, 192, 256, 384, 512))]
        if layout == "signal":
            return [rng.choice((16, 24, 32, 48, 64)), rng.choice((128, 250, 256, 512, 1000, 1024))]
        if layout == "image":
            side = rng.choice((16, 28, 32, 48, 56, 64))
            return [rng.choice((8, 16, 24, 32, 48, 64)), side, rng.choice((side, side, 2 * side))]
        side = rng.choice((8, 12, 16, 20))
        return [rng.choice((8, 16, 32)), rng.choice((8, 12, 16)), side, side]

    def _emit(self, members: Sequence[Member], layout: str, sizes: Sequence[int], rng: Random) -> Draft:
        draft = Draft(layout, sizes)
        for i, (op, emit) in enumerate(members):
            draft.last = i == len(members) - 1
            emit(draft, op, rng)
        return draft

    def _try(self, members: Sequence[Member], key: str, target: int) -> Draft | None:
        """A task of these operators, or None if the layout or the sizes that were drawn do not suit them."""
        elements = target // FLOAT_BYTES
        rng = Random(key)
        layout = rng.choice(_LAYOUT_NAMES)
        sizes = self._sizes(layout, elements, rng)
        try:
            probe = self._emit(members, layout, [_PROBE, *sizes], Random(key))
            batch = _PROBE * min(elements / probe.largest, FLOPS_PER_BYTE * target / max(probe.flops, 1))
            if batch < 1:
                return None
            draft = self._emit(members, layout, [_round(batch), *sizes], Random(key))
            return draft if draft.largest <= elements else None
        except Misfit:
            return None

    def compose(self, source: str, rank: int, index: int) -> Draft:
        """The rank-th candidate of a source ``torch#k``."""
        length = int(source.partition("#")[2])
        rng = Random(f"{self.seed}/candidate/{index}")
        target = target_of(self.target_bytes, self.seed, index)
        pattern, earlier = self._pattern(length, rank)
        chosen = self._nth(pattern, earlier)
        assert chosen is not None  # `_pattern` gives no pattern without members
        for attempt in range(_REDRAWS):
            members = [rng.choice(self._families[f][c]) for f, c in zip(pattern, chosen, strict=True)]
            draft = self._try(members, f"{self.seed}/candidate/{index}/{attempt}", target)
            if draft is not None:
                return draft
        names = " -> ".join(op.name for op, _ in members)
        raise ValueError(
            f"synthesis.target_bytes: {list(self.target_bytes)} leaves no room for {names}; raise both ends"
        )


def _round(batch: float) -> int:
    """A batch size that people would choose: a power of two, or one and a half times one."""
    power = 1
    while 2 * power <= batch:
        power *= 2
    return power * 3 // 2 if power >= 2 and power * 3 / 2 <= batch else power

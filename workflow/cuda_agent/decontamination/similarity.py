"""How similar a task is to each of a set of fingerprinted problems."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Fingerprint = Mapping[str, Any]


def signature_similarity(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimated Jaccard similarity of one MinHash signature (P,) with each of several (N, P)."""
    return (others == one).mean(axis=1)


def _numbered(hashes: Sequence[int]) -> list[tuple[int, int]]:
    """Each hash with how often it was seen before, so that repetitions count in a set."""
    seen: Counter[int] = Counter()
    out = []
    for value in hashes:
        out.append((value, seen[value]))
        seen[value] += 1
    return out


class Problems:
    """Fingerprinted problems, and their similarity to a task.

    The similarity is 1 where the structures (models without names, sizes and numbers) are equal or the same operators
    follow each other; otherwise the larger of two Jaccard similarities: of token shingles, estimated by MinHash, and
    of subtrees with their repetitions, exactly.

    Args:
        fingerprints: rows of ``records.FINGERPRINTS``.
        permutations: how much of the signatures to compare.
    """

    def __init__(self, fingerprints: Sequence[Fingerprint], permutations: int) -> None:
        rows = sorted(fingerprints, key=lambda row: row["name"])
        self.names = [row["name"] for row in rows]
        self._permutations = permutations
        self._signatures = np.array([row["minhash"][:permutations] for row in rows], dtype=np.uint32)
        self._structures = np.array([row["structure"] for row in rows])
        self._sequences = np.array([row["sequence"] for row in rows])
        self._sizes = np.array([len(row["subtrees"]) for row in rows])
        self._holders: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, row in enumerate(rows):
            for key in _numbered(row["subtrees"]):
                self._holders[key].append(i)

    def _subtrees(self, hashes: Sequence[int]) -> np.ndarray:
        shared = np.zeros(len(self.names), dtype=np.int64)
        for key in _numbered(hashes):
            shared[self._holders.get(key, [])] += 1
        return shared / np.maximum(self._sizes + len(hashes) - shared, 1)

    def similarities(self, task: Fingerprint) -> np.ndarray:
        """Similarity to each problem, in the order of ``names``, from 0 to 1."""
        signature = np.array(task["minhash"][: self._permutations], dtype=np.uint32)
        found = np.maximum(signature_similarity(signature, self._signatures), self._subtrees(task["subtrees"]))
        same = self._structures == task["structure"]
        for sequence in (task["sequence"], task["traced"]):
            if sequence:
                same |= self._sequences == sequence
        return np.where(same, 1.0, found)

    def nearest(self, task: Fingerprint) -> tuple[str, float]:
        """The most similar problem (the first by name among equals) and its similarity."""
        found = self.similarities(task)
        best = int(found.argmax())
        return self.names[best], float(found[best])

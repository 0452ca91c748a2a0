"""Tasks that repeat an earlier one of the same set."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from cuda_agent.decontamination.similarity import Fingerprint, signature_similarity


class Repeats:
    """Looks tasks up among those kept so far.

    A task repeats another if their normal forms are equal, or if both call the same operators and the tokens of their
    normal forms, sizes included, are more similar than the limit. The same operators at other sizes are another task.
    """

    def __init__(self, max_similarity: float, permutations: int) -> None:
        self._limit, self._permutations = max_similarity, permutations
        self._exact: dict[str, str] = {}
        self._kept: dict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)

    def find(self, name: str, task: Fingerprint) -> tuple[str, float] | None:
        """The kept task that this one repeats and their similarity; None keeps this one too."""
        if task["exact"] in self._exact:
            return self._exact[task["exact"]], 1.0
        signature = np.array(task["sized_minhash"][: self._permutations], dtype=np.uint32)
        alike = self._kept[task["multiset"] or task["structure"]]
        if alike:
            found = signature_similarity(signature, np.array([s for _, s in alike]))
            best = int(found.argmax())
            if found[best] > self._limit:
                return alike[best][0], float(found[best])
        self._exact[task["exact"]] = name
        alike.append((name, signature))
        return None

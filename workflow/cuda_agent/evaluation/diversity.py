"""How varied candidates and tasks are: distinct operators, sets, sequences, pairs and forms; entropies of their parts.

An entropy is Shannon's, in bits, of the shares of the values: 0 where all are the same, log2(n) where n values are
equally frequent. Sizes are counted by powers of two.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.evaluation.intervals import settled
from cuda_agent.records import Row
from cuda_agent.tasks.normal import task_id

GROUPS = ("candidates", "tasks")
# Of the 6,000 released rows 352 are byte-identical repeats, and 437 more mean the same as another.
PUBLISHED = {"count": 6000, "normal_forms": 6000 - 352 - 437}


def diversity(rows: Rows) -> list[dict[str, Any]]:
    """Measures of the candidates and of the tasks that are left of them.

    Args:
        rows: artefacts by name (:func:`cuda_agent.evaluation.read`).

    Returns:
        A list of ``{"measure", "unit", "candidates", "tasks", "published"}``. Operators are counted by the names that
        synthesis gave candidates and that a trace saw in tasks. ``pair_coverage`` is the share of all ordered pairs of
        these operators that stand side by side in some item. None where there is nothing to measure.
    """
    measured = {group: _measures(rows[group], spread(rows, group)) for group in GROUPS}
    return [
        {"measure": name, "unit": unit}
        | {group: measured[group][name] for group in GROUPS}
        | {"published": PUBLISHED.get(name)}
        for name, unit in _UNITS.items()
    ]


_UNITS = {
    "count": "",
    "normal_forms": "",
    "operators": "",
    "operator_sets": "",
    "operator_sequences": "",
    "operator_pairs": "",
    "pair_coverage": "share",
    "kind_entropy": "bits",
    "rank_entropy": "bits",
    "dtype_entropy": "bits",
    "size_entropy": "bits",
}


def spread(rows: Rows, group: str) -> dict[str, Counter[Any]]:
    """How often each value occurs in ``candidates`` or ``tasks``.

    Returns:
        ``kind``: of each operator, as the catalogue has it; ``rank`` and ``dtype``: of each input; ``size``: of each
        item, the largest k with 2**k elements in its largest input. What never ran has no inputs to count.
    """
    kinds = {o["name"]: o["kind"] for o in rows["operators"]}
    composed = {c["candidate_id"]: c["operators"] for c in rows["candidates"]}
    inputs = {o["candidate_id"]: json.loads(o["inputs"] or "[]") for o in rows["observations"]}
    found: dict[str, Counter[Any]] = {name: Counter() for name in ("kind", "rank", "dtype", "size")}
    for item in rows[group]:
        found["kind"].update(kinds.get(name, "unknown") for name in composed.get(item["candidate_id"]) or ())
        tensors = [t for t in inputs.get(item["candidate_id"], ()) if "shape" in t]
        found["rank"].update(len(t["shape"]) for t in tensors)
        found["dtype"].update(t["dtype"] for t in tensors)
        elements = [math.prod(t["shape"]) for t in tensors]
        if any(elements):
            found["size"][max(elements).bit_length() - 1] += 1
    return found


def _measures(items: Sequence[Row], counts: dict[str, Counter[Any]]) -> dict[str, Any]:
    sequences = [tuple(item["ops"]) for item in items]
    names = {name for sequence in sequences for name in sequence}
    pairs = {pair for sequence in sequences for pair in itertools.pairwise(sequence)}
    return {
        "count": len(items),
        "normal_forms": len({task_id(item["code"]) for item in items}),
        "operators": len(names),
        "operator_sets": len({frozenset(s) for s in sequences}),
        "operator_sequences": len(set(sequences)),
        "operator_pairs": len(pairs),
        "pair_coverage": len(pairs) / len(names) ** 2 if names else None,
    } | {f"{name}_entropy": entropy(of.elements()) for name, of in counts.items()}


def entropy(values: Iterable[Hashable]) -> float | None:
    """Shannon entropy of the shares of the values, bits; None where there are none."""
    counts = Counter(values)
    total = counts.total()
    if not total:
        return None
    return settled(math.fsum(n / total * math.log2(total / n) for n in counts.values()))

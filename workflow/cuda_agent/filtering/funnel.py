"""How many candidates each rule let through, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cuda_agent.filtering.rules import RULES
from cuda_agent.records import Row

DECONTAMINATION_RULES = ("unreadable", "duplicate", "kernelbench")


def funnel(candidates: int, rejections: Iterable[Row], contaminated: Iterable[Row] | None = None) -> list[Row]:
    """Rows ``{rule, before, dropped, left}`` in the order in which the rules are applied.

    Args:
        candidates: how many there were.
        rejections: rows of ``records.REJECTIONS`` that filtering made.
        contaminated: those that decontamination made; None leaves its rules out.

    Raises:
        ValueError: a rejection names a rule that is not applied, or there are more rejections than candidates.
    """
    rules: Sequence[str] = [*RULES, *(DECONTAMINATION_RULES if contaminated is not None else ())]
    dropped = Counter(row["rule"] for row in (*rejections, *(contaminated or ())))
    unknown = sorted(dropped.keys() - set(rules))
    if unknown:
        raise ValueError(f"rejections name rules that are not applied: {unknown}; known: {list(rules)}")
    rows, left = [], candidates
    for rule in rules:
        rows.append({"rule": rule, "before": left, "dropped": dropped[rule], "left": left - dropped[rule]})
        left -= dropped[rule]
    if left < 0:
        raise ValueError(f"{sum(dropped.values())} rejections of {candidates} candidates")
    return rows

"""What a policy achieved: shares, speed-ups and rewards over its verdicts, each with an interval.

Definitions
-----------
pass rate
    Share of all judged tasks whose kernel passed every check and complied with the rules.
faster rate
    Share of all judged tasks whose kernel passed and is faster than a baseline by more than a margin:
    (t_base - t) / t_base > margin (CUDA Agent, arXiv:2602.24286, section 3.3; margin 0.05 there).
clearly faster rate
    The same where also the lower end of the speed-up's own interval is faster by more than the margin.
fast_p
    Share of all judged tasks whose kernel passed and t_base / t > p, strictly (KernelBench, arXiv:2502.10517).
geometric mean speed-up
    Over the kernels that passed and could be timed (as in Table 1 of CUDA Agent).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cuda_agent.evaluation import intervals
from cuda_agent.params import Results
from cuda_agent.records import Row

BASELINES = ("eager", "compile")


def passed(verdict: Mapping[str, Any]) -> bool:
    """Whether a kernel counts as right: every check passed, and by work of its own."""
    return bool(verdict.get("correct")) and bool(verdict.get("compliant"))


def speedup(verdict: Mapping[str, Any], baseline: str) -> float | None:
    """Baseline time over candidate time of a kernel that passed; None where it did not or was not timed."""
    value = verdict.get(f"speedup_{baseline}")
    if not passed(verdict) or value is None or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def faster(ratio: float | None, margin: float) -> bool:
    """(t_base - t) / t_base > margin, for ratio = t_base / t."""
    return ratio is not None and 1 - 1 / ratio > margin


def kind_of(reason: str) -> str:
    """The kind of a verdict's reason, to count by: what was checked or what ended it, without names and figures."""
    head = reason.partition(": ")[0]
    name, _, where = head.partition(" (")
    if name in ("no_submission", "build") or where.rstrip(")") not in ("load", "check", "time"):
        head = name
    for start in ("torch operator", "device kernel"):
        if head.startswith(start):
            return start
    return re.sub(r"^\d+ ", "", head)[:60] or "unknown"


def first_reason(verdict: Mapping[str, Any]) -> str:
    """Kind of the most important reason why a kernel did not pass."""
    reasons = verdict.get("reasons") or []
    return kind_of(reasons[0]) if reasons else "unknown"


def metrics(verdicts: Iterable[Row], tasks: Iterable[Row], results: Results, seed: int) -> dict[str, dict[str, Any]]:
    """Metrics of each policy, over all its tasks and for each ``data_source``.

    Args:
        verdicts: rows of ``records.VERDICTS``, of any number of policies.
        tasks: rows of ``records.TASKS``; gives each verdict its ``data_source``.
        results: section ``results`` of the parameters.
        seed: seed of the bootstrap.

    Returns:
        ``{policy: {...}}`` with policies in alphabetical order; see :func:`summary` for the entries, which
        ``by_data_source`` repeats for each group. Empty where there are no verdicts.
    """
    source = {t["task_id"]: t["data_source"] for t in tasks}
    out: dict[str, dict[str, Any]] = {}
    rows = sorted(verdicts, key=lambda v: (v["policy"], v["task_id"]))
    for policy in sorted({v["policy"] for v in rows}):
        mine = [v for v in rows if v["policy"] == policy]
        groups: dict[str, list[Row]] = {}
        for v in mine:
            groups.setdefault(source.get(v["task_id"], "unknown"), []).append(v)
        out[policy] = summary(mine, results, seed, policy) | {
            "by_data_source": {name: summary(groups[name], results, seed, policy, name) for name in sorted(groups)}
        }
    return out


def summary(verdicts: Sequence[Row], results: Results, seed: int, *names: str) -> dict[str, Any]:
    """Metrics of one group of verdicts.

    Every measure is ``{"value", "low", "high", "n", "interval"}``: the number, its interval at ``results.confidence``
    (``wilson`` for shares, ``bca`` for means), and how many verdicts it was computed from. ``value`` is None where
    there is nothing to compute it from, and the ends are None where the data show no spread to judge by.
    """
    n = len(verdicts)

    def share(hits: Iterable[bool]) -> dict[str, Any]:
        k = sum(hits)
        low, high = intervals.wilson(k, n, results.confidence)
        return {"value": k / n if n else None, "low": low, "high": high, "n": n, "interval": "wilson"}

    def average(values: Sequence[float], statistic: Any, what: str) -> dict[str, Any]:
        low, high = intervals.bootstrap(
            values,
            statistic,
            samples=results.bootstrap_samples,
            confidence=results.confidence,
            rng=intervals.generator(seed, "metrics", *names, what),
        )
        value = intervals.settled(statistic(np.asarray(values, dtype=np.float64))) if len(values) else None
        return {"value": value, "low": low, "high": high, "n": len(values), "interval": "bca"}

    ratios = {b: [speedup(v, b) for v in verdicts] for b in BASELINES}
    rewards = [v["reward"] for v in verdicts if v.get("reward") is not None]
    out: dict[str, Any] = {
        "n": n,
        "passed": sum(map(passed, verdicts)),
        "compiled_rate": share(bool(v.get("compiled")) for v in verdicts),
        "correct_rate": share(bool(v.get("correct")) for v in verdicts),
        "pass_rate": share(map(passed, verdicts)),
        "mean_reward": average(rewards, intervals.mean, "reward"),
        "rewards": {str(r): c for r, c in sorted(Counter(rewards).items())},
        "precision": dict(sorted(Counter(v.get("precision") or "unknown" for v in verdicts if passed(v)).items())),
        "failures": dict(sorted(Counter(first_reason(v) for v in verdicts if not passed(v)).items())),
    }
    for b in BASELINES:
        timed = [r for r in ratios[b] if r is not None]
        out[f"faster_{b}"] = share(faster(r, results.faster_margin) for r in ratios[b])
        out[f"clearly_faster_{b}"] = share(
            r is not None and faster(v.get(f"speedup_{b}_low"), results.faster_margin)
            for v, r in zip(verdicts, ratios[b], strict=True)
        )
        out[f"speedup_{b}"] = average(timed, intervals.geometric_mean, f"speedup_{b}")
        out[f"fast_p_{b}"] = {
            f"{p:g}": share(r is not None and r > p for r in ratios[b]) for p in sorted(set(results.fast_p))
        }
    return out

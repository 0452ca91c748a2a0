"""Verdicts from what was measured: pure functions of judgements and of the ``results`` section of the parameters.

Rules: https://arxiv.org/abs/2602.24286 (reward: section 3; tolerance: the released workspace).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from cuda_agent.judge import compliance

Row = dict[str, Any]

_NULL_ANSWER = 0.05  # an answer this far off in the mean is none, however small the outputs are
_STRICT_FACTOR = 10.0  # strict: how much worse than the reference's own float32 an answer may be, in the largest error
_STRICT_FLOOR = 1e-5  # ... and what is always allowed, over the outputs' root mean square
_CLASSES = (("float32", 4e-6), ("tf32", 1e-3))  # by root mean square error; what is larger is half
_EXCESS_ALLOWANCE = 2.0  # the reference's own share of values outside the tolerance may be passed by this factor


def check_fails(record: Row, rules: str) -> str:
    """Why a check fails under a rule set, in words; empty if it holds."""
    name = record["check"]
    if name == "skipped":
        return ""
    where = f"{name}" + (f" ({record['distribution']})" if record.get("distribution") else "")
    if record["changed"]:
        return f"{where}: input {record['changed'][0]} was changed"
    if record["nonfinite"]:
        return f"{where}: {record['nonfinite']} values are NaN or infinite"
    if record["mismatched"] > _EXCESS_ALLOWANCE * record["eager_mismatched"]:
        return f"{where}: {record['mismatched']:.2%} of the integers differ"
    if _number(record["rms_error"]) > max(_NULL_ANSWER, _EXCESS_ALLOWANCE * _number(record["eager_rms_error"])):
        return f"{where}: outputs are off by {_number(record['rms_error']):.2g} of their root mean square"
    if record["excess"] > _EXCESS_ALLOWANCE * record["eager_excess"]:
        return f"{where}: {record['excess']:.2%} of the values differ by more than 1e-2 (1 + |expected|)"
    if rules == "strict":
        allowed = max(_STRICT_FLOOR, _STRICT_FACTOR * _number(record["eager_max_error"]))
        if _number(record["max_error"]) > allowed:
            return (
                f"{where}: largest error {_number(record['max_error']):.2g} of the outputs' scale, over {allowed:.2g}"
            )
    return ""


def _number(value: Any) -> float:
    return float(value)  # infinities are text in JSON


def precision(checks: Iterable[Row]) -> str:
    """Precision class of a candidate, by its errors against float64 where that ran."""
    found = [c for c in checks if c.get("float64") and "rms_error" in c]
    if not found:
        return ""
    for name, limit in _CLASSES:
        if all(_number(c["rms_error"]) <= max(limit, 8 * _number(c["eager_rms_error"])) for c in found):
            return name
    return "half"


def reward(correct: bool, speedup_eager: float | None, speedup_compile: float | None, margin: float) -> int:
    """-1 if not correct; 3 if faster than eager and compile; 2 if faster than eager; else 1.

    "Faster" means ``(t_base - t) / t_base > margin``, that is, a speed-up of more than ``1 / (1 - margin)``.
    """
    if not correct or speedup_eager is None:
        return -1

    def faster(speedup: float) -> bool:
        return 1 - 1 / speedup > margin

    if not faster(speedup_eager):
        return 1
    return 3 if speedup_compile is not None and faster(speedup_compile) else 2


def _interval(ratios: np.ndarray, key: str, results: Any) -> tuple[float, float, float]:
    """Median of paired ratios, and its percentile bootstrap interval (seeded by the item's own id)."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    drawn = np.random.default_rng(seed).integers(len(ratios), size=(results.bootstrap_samples, len(ratios)))
    medians = np.median(ratios[drawn], axis=1)
    edge = (1 - results.confidence) / 2
    low, high = np.quantile(medians, [edge, 1 - edge])
    return float(np.median(ratios)), float(low), float(high)


def verdict(row: Row, results: Any) -> Row:
    """The verdict on one judgement; see `records.VERDICTS`. A judgement of status ``machine`` has none."""
    checks, launched, times = (json.loads(row[name]) for name in ("checks", "launched", "times"))
    status = row["status"]
    compiled = status not in ("no_submission", "build") and not (row["stage"] == "load" and status == "load")
    broken = [launched[k] for k in ("source", "binary") if k in launched]
    violations = [v for found in broken for v in found] + compliance.run_findings(launched)
    failures = list(dict.fromkeys(filter(None, (check_fails(c, results.rules) for c in checks))))
    ended = (
        [] if status == "ok" else [f"{status} ({row['stage']}): {row['error'].splitlines()[0] if row['error'] else ''}"]
    )
    compared = any(c["check"] != "skipped" for c in checks)
    if status == "ok" and not compared:
        failures.append("nothing could be compared")
    correct = status == "ok" and not failures
    compliant = compiled and not violations
    out: Row = {
        "task_id": row["task_id"],
        "policy": row["policy"],
        "compiled": compiled,
        "correct": correct,
        "compliant": compliant,
        "reasons": ended + failures + violations,
        "precision": precision(checks) if correct else "",
    }
    own = np.array(times.get("candidate", []), dtype=float)
    speedups: dict[str, float | None] = {}
    out["time_ms"] = float(np.median(own)) if len(own) else None
    for name in ("eager", "compile"):
        base = np.array(times.get(name, []), dtype=float)
        have = len(base) > 0 and len(own) > 0
        out[f"{name}_ms"] = float(np.median(base)) if len(base) else None
        found = _interval(base / own, f"{row['task_id']}/{row['policy']}/{name}", results) if have else (None,) * 3
        for suffix, value in zip(("", "_low", "_high"), found, strict=True):
            out[f"speedup_{name}{suffix}"] = value
        speedups[name] = found[0]
    good = correct and compliant
    out["reward"] = reward(good, speedups["eager"], speedups["compile"], results.faster_margin)
    assert all(v is None or not isinstance(v, float) or math.isfinite(v) for v in out.values())
    return out


def verdicts(judgements: Iterable[Row], results: Any) -> list[Row]:
    """Verdicts on all judgements that have one: what the machine failed to measure is left out."""
    return [verdict(row, results) for row in judgements if row["status"] != "machine"]

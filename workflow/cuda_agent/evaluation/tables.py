"""Tables of a run as CSV text. Shares are fractions of 1, times are milliseconds, an empty cell is "not known".

In ``per_task``, ``time_ms``, ``eager_ms`` and ``compile_ms`` are medians of each; ``speedup_eager`` and
``speedup_compile`` are medians of the ratios of samples taken side by side, as in the verdicts, so that they need not
be the quotients of these times. They are empty for a kernel that did not pass.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent.evaluation import dataset, diversity
from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.evaluation.metrics import BASELINES, passed, speedup

TABLES = ("results", "by_data_source", "fast_p", "failures", "per_task", "funnel", "mix", "operators")
TABLES += ("diversity", "table1")
MEASURES = ("compiled_rate", "correct_rate", "pass_rate", "faster_eager", "faster_compile", "speedup_eager")
MEASURES += ("speedup_compile", "mean_reward")


def tables(rows: Rows, metrics: Mapping[str, Any], published: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """All tables of a run.

    Args:
        rows: artefacts by name (:func:`cuda_agent.evaluation.read`).
        metrics: of :func:`cuda_agent.evaluation.metrics`.
        published: rows of ``paper/published_table1.csv``.

    Returns:
        ``{name: CSV text}`` with the names in ``TABLES``.
    """
    return {
        "results": _csv(["policy", "n", "passed", *_columns()], [_measures(p, m) for p, m in metrics.items()]),
        "by_data_source": _csv(
            ["policy", "data_source", "n", "passed", *_columns()],
            [
                {"data_source": source} | _measures(policy, m)
                for policy, of_policy in metrics.items()
                for source, m in of_policy["by_data_source"].items()
            ],
        ),
        "fast_p": _csv(
            ["policy", "baseline", "p", "fast_p", "fast_p_low", "fast_p_high", "n"],
            [
                {"policy": policy, "baseline": b, "p": p, "n": m["n"]} | _ends("fast_p", m)
                for policy, of_policy in metrics.items()
                for b in BASELINES
                for p, m in of_policy[f"fast_p_{b}"].items()
            ],
        ),
        "failures": _csv(
            ["policy", "reason", "tasks", "share"],
            [
                {"policy": policy, "reason": reason, "tasks": count, "share": count / m["n"]}
                for policy, m in metrics.items()
                for reason, count in sorted(m["failures"].items(), key=lambda item: (-item[1], item[0]))
            ],
        ),
        "per_task": _per_task(rows),
        "funnel": _csv(["step", "rule", "dropped", "left"], dataset.funnel(rows)),
        "mix": _csv(["data_source", "tasks", "share", "published", "published_share"], dataset.mix(rows)),
        "operators": _csv(
            ["operator", "tasks"], [{"operator": name, "tasks": n} for name, n in dataset.operators(rows)]
        ),
        "diversity": _csv(["measure", "unit", *diversity.GROUPS, "published"], diversity.diversity(rows)),
        "table1": _table1(metrics, published),
    }


def _columns() -> list[str]:
    return [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]


def _ends(name: str, measure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: measure["value"], f"{name}_low": measure["low"], f"{name}_high": measure["high"]}


def _measures(policy: str, m: Mapping[str, Any]) -> dict[str, Any]:
    out = {"policy": policy, "n": m["n"], "passed": m["passed"]}
    for name in MEASURES:
        out |= _ends(name, m[name])
    return out


def _per_task(rows: Rows) -> str:
    source = {t["task_id"]: t for t in rows["tasks"]}
    columns = ["task_id", "policy", "data_source", "ops", "passed", "precision", "time_ms", "eager_ms", "compile_ms"]
    columns += ["speedup_eager", "speedup_compile", "reward", "reasons"]
    out = []
    for v in sorted(rows["verdicts"], key=lambda v: (v["policy"], v["task_id"])):
        task = source.get(v["task_id"], {})
        out.append(
            v
            | {
                "data_source": task.get("data_source"),
                "ops": " ".join(task.get("ops") or []),
                "passed": str(passed(v)).lower(),
                "reasons": " ".join(v.get("reasons") or []),
            }
            | {f"speedup_{b}": speedup(v, b) for b in BASELINES}
        )
    return _csv(columns, out)


def _table1(metrics: Mapping[str, Any], published: Sequence[Mapping[str, str]]) -> str:
    """Published rows as they stand, and ours in the same units; ``source`` says which is which."""
    columns = ["source", "benchmark", "level", "model", "pass_percent", "faster_eager_percent"]
    columns += ["faster_compile_percent", "speedup_eager", "speedup_compile", "n"]
    counts = {"all": 250, "1": 100, "2": 100, "3": 50}
    out = [
        {"source": "published", "benchmark": "KernelBench", "n": counts.get(row["level"])} | row for row in published
    ]
    for policy, m in metrics.items():
        ours = {"source": "this run", "benchmark": "own tasks", "level": "all", "model": policy, "n": m["n"]}
        for column, name in zip(columns[4:7], ("pass_rate", "faster_eager", "faster_compile"), strict=True):
            ours[column] = None if m[name]["value"] is None else 100 * m[name]["value"]
        out.append(ours | {f"speedup_{b}": m[f"speedup_{b}"]["value"] for b in BASELINES})
    return _csv(columns, out)


def _csv(columns: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        writer.writerow([_cell(line.get(c)) for c in columns])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)

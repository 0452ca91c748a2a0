"""Every number that the paper may state, with its unit, where it came from and over how many items."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from cuda_agent.evaluation import dataset, diversity
from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.evaluation.metrics import BASELINES
from cuda_agent.params import Params
from cuda_agent.records import Row

Entry = dict[str, Any]

# Sections of the parameters that the appendix prints; how the work was spread changes no result and is left out.
SECTIONS = ("sandbox", "operators", "synthesis", "observation", "filtering", "decontamination", "rollouts", "judging")
SECTIONS += ("results",)
# An endpoint is no part of a result; what it answered is in the artefacts.
ENDPOINT = {"llm", "base_url", "api_key_env"}


def numbers(
    rows: Rows,
    metrics: Mapping[str, Any],
    params: Params,
    published: Sequence[Mapping[str, str]],
    facts: Sequence[Mapping[str, str]],
) -> dict[str, Entry]:
    """All numbers of a run.

    Args:
        rows: artefacts by name (:func:`cuda_agent.evaluation.read`).
        metrics: of :func:`cuda_agent.evaluation.metrics`.
        params: parameters of the run.
        published: rows of ``paper/published_table1.csv``.
        facts: rows of ``paper/published_facts.csv``: ``key, value, unit, source``.

    Returns:
        ``{key: {"value", "unit", "source", "n"}}``; measures with an interval also have ``low`` and ``high``. A value
        that this run does not have is None; a key that does not exist is a mistake in the text.
    """
    out: dict[str, Entry] = {}
    out["run"] = _entry(params.run, "", "params.yaml")
    printed = {"seed": params.seed} | {section: getattr(params, section).model_dump() for section in SECTIONS}
    printed["policies"] = {name: params.policies[name].model_dump() for name in params.rollouts.policies}
    for key, value in _flat("params", printed):
        out[key] = _entry(value, _unit(key), "params.yaml")
    out |= _dataset(rows, params)
    out |= _machines(rows)
    out |= _policies(rows, metrics, params)
    for row in published:
        for column, value in row.items():
            if column not in ("level", "model"):
                name = row["model"].lower().replace(" ", "_")
                unit = "%" if column.endswith("_percent") else "x"
                out[f"published.{name}.{row['level']}.{column}"] = _entry(
                    float(value), unit, "published: arXiv:2602.24286, Table 1"
                )
    for fact in facts:
        value = float(fact["value"])
        out[f"published.{fact['key']}"] = _entry(
            int(value) if value.is_integer() else value, fact["unit"], f"published: {fact['source']}"
        )
    return out


def _entry(value: Any, unit: str, source: str, n: int | None = None, **more: Any) -> Entry:
    return {"value": value, "unit": unit, "source": source, "n": n} | more


def _unit(key: str) -> str:
    key = key.removesuffix(".low").removesuffix(".high")
    for end, unit in (("_ms", "ms"), ("_s", "s"), ("_mb", "MiB"), ("_bytes", "bytes")):
        if key.endswith(end):
            return unit
    return ""


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ENDPOINT:
                yield from _flat(f"{prefix}.{key}", inner)
    elif isinstance(value, tuple):  # a range
        yield from ((f"{prefix}.{end}", v) for end, v in zip(("low", "high"), value, strict=True))
    else:
        yield prefix, value.as_posix() if isinstance(value, PurePath) else value


def _median(values: Sequence[float | int | None]) -> float | int | None:
    known = [v for v in values if v is not None]
    middle = statistics.median(known) if known else None
    whole = middle is not None and all(isinstance(v, int) for v in known) and middle == int(middle)
    return int(middle) if whole else middle


def _dataset(rows: Rows, params: Params) -> dict[str, Entry]:
    home = f"data/{params.run}"
    tasks, observations = rows["tasks"], rows["observations"]
    verified = Counter(o["status"] for o in rows["operators"])
    # Without the build, as in +cpu: operators are the same in each, and so are the bytes of the paper.
    libraries = sorted({f"{o['source']} {o['version'].partition('+')[0]}" for o in rows["operators"] if o["version"]})
    out = {
        "operators.libraries": _entry(libraries, "", f"{home}/operators.parquet"),
        "operators.verified": _entry(verified["verified"], "operators", f"{home}/operators.parquet"),
        "operators.excluded": _entry(verified["excluded"], "operators", f"{home}/operators.parquet"),
        "candidates": _entry(len(rows["candidates"]), "candidates", f"{home}/candidates.parquet"),
        "observed_ok": _entry(
            sum(o["status"] == "ok" for o in observations),
            "candidates",
            f"{home}/observations.parquet",
            len(observations),
        ),
        "rejected": _entry(len(rows["rejections"]), "candidates", f"{home}/rejections.parquet"),
        "contaminated": _entry(len(rows["contaminated"]), "candidates", f"{home}/contaminated.parquet"),
        "rules": _entry(len({r["rule"] for r in rows["rejections"]}), "rules", f"{home}/rejections.parquet"),
        "tasks": _entry(len(tasks), "tasks", f"{home}/tasks.parquet"),
        "tasks.missing_sources": _entry(
            [m["data_source"] for m in dataset.mix(rows) if not m["tasks"]], "", f"{home}/tasks.parquet", len(tasks)
        ),
        "task_operators": _entry(len(dataset.operators(rows)), "names", f"{home}/tasks.parquet", len(tasks)),
    }
    for row in diversity.diversity(rows):
        for group in diversity.GROUPS:
            source = f"{home}/{group}.parquet"
            out[f"diversity.{row['measure']}.{group}"] = _entry(row[group], row["unit"], source, len(rows[group]))
    for column, unit in (("eager_ms", "ms"), ("compile_ms", "ms"), ("nearest_similarity", ""), ("bytes", "bytes")):
        values = [t[column] for t in tasks if t.get(column) is not None]
        for name, f in (("min", min), ("median", _median), ("max", max)):
            value = f(values) if values else None
            out[f"tasks.{column}.{name}"] = _entry(value, unit, f"{home}/tasks.parquet", len(values))
    return out


def _machines(rows: Rows) -> dict[str, Entry]:
    out: dict[str, Entry] = {}
    for what, name in (("observed", "observations"), ("judged", "judgements")):
        found = dataset.hardware(rows[name])
        main = found[0] if found else {"device": None, "versions": {}}
        machine = dataset.machine(rows[name])
        out[f"{what}.device"] = _entry(main["device"], "", f"{name}.parquet", len(rows[name]))
        out[f"{what}.device_name"] = _entry(machine, "", f"{name}.parquet", len(rows[name]))
        out[f"{what}.machines"] = _entry(len(found), "machines", f"{name}.parquet", len(rows[name]))
        out[f"{what}.versions"] = _entry(
            {k: str(v) for k, v in sorted(main["versions"].items())}, "", f"{name}.parquet", len(rows[name])
        )
        for column in ("isolation", "code_hash"):
            values = sorted({r.get(column) for r in rows[name]} - {None, ""})
            out[f"{what}.{column}"] = _entry(", ".join(values), "", f"{name}.parquet", len(rows[name]))
    return out


def _policies(rows: Rows, metrics: Mapping[str, Any], params: Params) -> dict[str, Entry]:
    source = f"results/{params.run}/metrics.json"
    out = {
        "policies": _entry(sorted(metrics), "", source),
        # One for each policy and task, whether it left a kernel or not: all are in the shares.
        "rollouts_judged": _entry(sum(m["n"] for m in metrics.values()), "rollouts", source),
        "submitted": _entry(
            sum(j["status"] != "no_submission" for j in rows["judgements"]),
            "kernels",
            "judgements.parquet",
            len(rows["judgements"]),
        ),
        "passed": _entry(sum(m["passed"] for m in metrics.values()), "kernels", source),
    }
    for policy, m in metrics.items():
        key = f"policy.{policy}"
        out[f"{key}.kind"] = _entry(getattr(params.policies.get(policy), "kind", None), "", "params.yaml")
        out[f"{key}.n"] = _entry(m["n"], "tasks", source)
        out[f"{key}.passed"] = _entry(m["passed"], "tasks", source, m["n"])
        for precision, count in m["precision"].items():
            out[f"{key}.precision.{precision}"] = _entry(count, "kernels", source, m["passed"])
        shares = [
            "compiled_rate",
            "correct_rate",
            "pass_rate",
            *(f"{word}_{b}" for word in ("faster", "clearly_faster") for b in BASELINES),
        ]
        for name in [*shares, "mean_reward", *(f"speedup_{b}" for b in BASELINES)]:
            unit = "share" if name in shares else "x" if name.startswith("speedup") else "reward"
            measure = m[name]
            ends = {"low": measure["low"], "high": measure["high"]}
            out[f"{key}.{name}"] = _entry(measure["value"], unit, source, measure["n"], **ends)
        mine: list[Row] = [s for s in rows["submissions"] if s["policy"] == policy]
        where = f"data/{params.run}/{policy}/submissions.parquet"
        for status, count in sorted(Counter(s["status"] for s in mine).items()):
            out[f"{key}.ended.{status}"] = _entry(count, "rollouts", where, len(mine))
        for column, unit in (
            ("turns", "turns"),
            ("tool_calls", "calls"),
            ("completion_tokens", "tokens"),
            ("wall_s", "s"),
        ):
            value = _median([s.get(column) for s in mine])
            out[f"{key}.{column}.median"] = _entry(value, unit, where, len(mine))
    return json.loads(json.dumps(out))

"""Counts that describe the dataset of a run: the filter funnel and the mix."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from cuda_agent import filtering
from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.records import Row

# Rows of CUDA-Agent-Ops-6K by data_source (https://huggingface.co/datasets/BytedTsinghua-SIA/CUDA-Agent-Ops-6K).
PUBLISHED_MIX = {"torch#1": 204, "torch#2": 5026, "torch#3": 457, "torch#4": 168, "torch#5": 74, "transformers": 71}


def funnel(rows: Rows) -> list[dict[str, Any]]:
    """How many candidates each rule dropped, and how many were left.

    Returns:
        A list of ``{"step", "rule", "dropped", "left"}``: first ``synthesis`` with all candidates, then every rule of
        ``filter`` and ``decontaminate`` in the order in which they are applied, then ``tasks``. Each candidate counts
        once, under the rule that it failed first.
    """
    total = len(rows["candidates"])
    out = [{"step": "synthesis", "rule": "candidates", "dropped": 0, "left": total}]
    for row in filtering.funnel(total, rows["rejections"], rows["contaminated"]):
        step = "filter" if row["rule"] in filtering.RULES else "decontaminate"
        out.append({"step": step, "rule": row["rule"], "dropped": row["dropped"], "left": row["left"]})
    out.append({"step": "tasks", "rule": "tasks", "dropped": 0, "left": len(rows["tasks"])})
    return out


def mix(rows: Rows) -> list[dict[str, Any]]:
    """Tasks by ``data_source`` beside the published set: ``{"data_source", "tasks", "share", "published", ...}``."""
    counts = Counter(t["data_source"] for t in rows["tasks"])
    n, published = len(rows["tasks"]), sum(PUBLISHED_MIX.values())
    return [
        {
            "data_source": name,
            "tasks": counts[name],
            "share": counts[name] / n if n else None,
            "published": PUBLISHED_MIX.get(name),
            "published_share": PUBLISHED_MIX[name] / published if name in PUBLISHED_MIX else None,
        }
        for name in [*PUBLISHED_MIX, *sorted(set(counts) - set(PUBLISHED_MIX))]
    ]


def operators(rows: Rows) -> list[tuple[str, int]]:
    """Operators by how many tasks were seen to run them, most first."""
    counts = Counter(op for t in rows["tasks"] for op in set(t.get("ops") or []))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def hardware(measured: list[Row]) -> list[dict[str, Any]]:
    """The distinct machines that measured some rows: ``device``, ``device_name``, ``versions`` and how many rows."""
    counts = Counter((r.get("device") or "", r.get("device_name") or "", r.get("versions") or "{}") for r in measured)
    return [
        {"device": device, "device_name": name, "versions": json.loads(versions), "n": n}
        for (device, name, versions), n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def machine(measured: list[Row]) -> str:
    """Name of the hardware that measured some rows, for a caption; several are joined, none is said to be unknown."""
    names = sorted({h["device_name"] for h in hardware(measured) if h["device_name"]})
    return " and ".join(names) if names else "unknown hardware"

"""Figures of what policies achieved: fast_p, speed-ups, rewards, turns."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from matplotlib.ticker import MaxNLocator, PercentFormatter

from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.evaluation.dataset import machine
from cuda_agent.evaluation.metrics import BASELINES, first_reason, passed, speedup
from cuda_agent.figures import style
from cuda_agent.params import Params
from cuda_agent.records import Row

NAMES = {"eager": "PyTorch eager", "compile": "torch.compile"}
REWARDS = (-1, 1, 2, 3)
MOST_REASONS = 8


def fast_p(rows: Rows, params: Params) -> bytes:
    """Share of tasks with a right kernel that is more than p times as fast as a baseline, over p."""
    policies = _by_policy(rows["verdicts"])
    if not policies:
        return _no_data("no verdicts")
    marks = np.array(params.results.fast_p, dtype=float)
    shares = [np.mean([bool(speedup(v, b)) for v in verdicts]) for verdicts in policies.values() for b in BASELINES]
    top = max(1, math.ceil(5 * max(shares))) / 5
    with style.styled():
        fig, axes = style.figure(2.7, 2, sharey=True)
        for ax, baseline in zip(axes, BASELINES, strict=True):
            ratios = [s for v in rows["verdicts"] if (s := speedup(v, baseline))]
            # Left of the slowest kernel a curve stays at fast_0; right of the fastest one it is 0.
            left, right = min([0.5, *marks[marks > 0], *ratios]) / 1.15, max([2.0, *marks, *ratios]) * 1.15
            for i, (policy, verdicts) in enumerate(policies.items()):
                values = np.sort([s for v in verdicts if (s := speedup(v, baseline))])
                # Above p there are as many as lie to the right of it: a step down at each speed-up.
                x = np.concatenate([[left], values, [right]])
                above = len(values) - np.arange(len(values) + 1)
                y = np.concatenate([above, [0]]) / len(verdicts)
                ax.step(x, y, where="post", color=style.CYCLE[i % len(style.CYCLE)], linewidth=1.6,
                        label=f"{policy} (n = {len(verdicts)})")  # fmt: skip
                ax.plot(np.maximum(marks, left), [np.sum(values > p) / len(verdicts) for p in marks],
                        "o", markersize=3.2, clip_on=False, color=style.CYCLE[i % len(style.CYCLE)])  # fmt: skip
            ax.axvline(1, color=style.MUTED, linewidth=0.8, linestyle=":")
            ax.set_xscale("log")
            ax.set_xlim(left, right)
            style.log_ticks(ax.xaxis)
            ax.set_ylim(0, top * 1.04)
            ax.grid(axis="y")
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            ax.set_xlabel(f"p (times as fast as {NAMES[baseline]}, log scale)")
            style.panel(ax, f"against {NAMES[baseline]}")
        axes[0].set_ylabel("fast$_p$: share of tasks")
        style.legend(fig, axes[0])
        edge = "; on the left edge p = 0" if 0 in marks else ""
        style.caption(fig, f"{_where(rows, params)}{edge}")
        return style.svg(fig)


def speedups(rows: Rows, params: Params) -> bytes:
    """Speed-up of every right kernel over both baselines, with the interval of its timing."""
    right = [v for v in rows["verdicts"] if any(speedup(v, b) for b in BASELINES)]
    if not rows["verdicts"]:
        return _no_data("no verdicts")
    if not right:
        return _no_data(f"none of {style.count(len(rows['verdicts']), 'task')} has a kernel that passed and was timed")
    right.sort(key=lambda v: (speedup(v, "eager") or speedup(v, "compile"), v["policy"], v["task_id"]))
    tasks = {t["task_id"]: t for t in rows["tasks"]}
    several = len({v["policy"] for v in right}) > 1
    named = len(right) <= 60
    with style.styled():
        fig, (ax,) = style.figure(1.35 + (0.17 * len(right) if named else 4.5))
        y = np.arange(len(right))
        for baseline, offset, colour, marker in (
            ("eager", -0.14, style.BLUE, "o"),
            ("compile", 0.14, style.ORANGE, "s"),
        ):
            rows_with = [(i, v) for i, v in enumerate(right) if speedup(v, baseline)]
            for i, v in rows_with:
                low, high = v.get(f"speedup_{baseline}_low"), v.get(f"speedup_{baseline}_high")
                if low is not None and high is not None and low > 0:
                    ax.plot([low, high], [i + offset] * 2, color=colour, linewidth=1, alpha=0.6)
            ax.plot([speedup(v, baseline) for _, v in rows_with], [i + offset for i, _ in rows_with], marker,
                    color=colour, markersize=3.4 if named else 2, label=NAMES[baseline])  # fmt: skip
        ax.axvline(1, color=style.MUTED, linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        style.log_ticks(ax.xaxis)
        ax.set_ylim(-0.8, len(right) - 0.2)
        if named:
            ax.set_yticks(y, [_label(v, tasks.get(v["task_id"], {}), several) for v in right], fontsize=6.2)
        else:
            ax.set_ylabel("kernels, slowest first")
        ax.grid(axis="x")
        ax.set_xlabel("speed-up (times as fast as the baseline, log scale)")
        style.legend(fig, ax)
        style.caption(fig, f"kernels that passed and were timed: {len(right)}, of "
                          f"{style.count(len(rows['verdicts']), 'task')} tried; {_where(rows, params)}")  # fmt: skip
        return style.svg(fig)


def rewards(rows: Rows, params: Params) -> bytes:
    """How many tasks of each policy got each reward, and the first reason of those that got none."""
    policies = {
        policy: [v for v in verdicts if v.get("reward") is not None]
        for policy, verdicts in _by_policy(rows["verdicts"]).items()
    }
    if not any(policies.values()):
        return _no_data("no rewards")
    reasons = Counter(first_reason(v) for v in rows["verdicts"] if not passed(v))
    with style.styled():
        fig, (left, right) = style.figure(2.6, 2, width_ratios=[1.2, 1])
        width = 0.8 / len(policies)
        for i, (policy, verdicts) in enumerate(policies.items()):
            counts = Counter(v["reward"] for v in verdicts)
            x = np.arange(len(REWARDS)) + (i - (len(policies) - 1) / 2) * width
            bars = left.bar(x, [counts[r] for r in REWARDS], width * 0.92, color=style.CYCLE[i % len(style.CYCLE)],
                            label=f"{policy} (n = {len(verdicts)})")  # fmt: skip
            left.bar_label(bars, fontsize=7.5, padding=1)
        left.set_xticks(range(len(REWARDS)), ["−1\nnot right", "1\nright", "2\nbeats\neager", "3\nbeats\nboth"])
        left.set_ylabel("tasks")
        left.yaxis.set_major_locator(MaxNLocator(integer=True))
        left.margins(y=0.12)
        style.legend(fig, left)
        style.panel(left, "reward")
        style.caption(fig, _where(rows, params))
        top = reasons.most_common()
        top = sorted(top, key=lambda item: (-item[1], item[0]))[:MOST_REASONS]
        if top:
            bars = right.barh(range(len(top)), [n for _, n in top], 0.7, color=style.VERMILION)
            right.bar_label(bars, fontsize=7.5, padding=2)
            right.margins(x=0.12)
            right.set_yticks(
                range(len(top)), [style.shorten(name.replace("_", " "), 26) for name, _ in top], fontsize=7.5
            )
            right.set_ylim(MOST_REASONS - 0.5, -0.5)  # as many places in every figure: a bar is as thick in each
            right.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
            right.set_xlabel("tasks")
        else:
            right.axis("off")
            right.text(0.5, 0.5, "every kernel passed", ha="center", color=style.MUTED, transform=right.transAxes)
        style.panel(right, "first reason of those that did not pass" if top else "")
        return style.svg(fig)


def turns(rows: Rows, params: Params) -> bytes:
    """Turns of each rollout and the tokens that it wrote, by policy; its seconds where nobody wrote tokens."""
    policies = _by_policy([s for s in rows["submissions"] if s.get("turns") is not None])
    if not policies:
        return _no_data("no rollouts")
    tokens = any(s.get("completion_tokens") for group in policies.values() for s in group)
    second = ("completion_tokens", "tokens written") if tokens else ("wall_s", "seconds of a rollout")
    with style.styled():
        fig, (left, right) = style.figure(2.5, 2)
        for ax, column, label in ((left, "turns", "turns of a rollout"), (right, *second)):
            groups = {p: [s[column] for s in group if s.get(column) is not None] for p, group in policies.items()}
            largest = max((max(g) for g in groups.values() if g), default=0)
            edges = _whole_edges(int(largest))
            for i, (policy, values) in enumerate(groups.items()):
                colour = style.CYCLE[i % len(style.CYCLE)]
                if largest:
                    ax.hist(values, bins=edges, histtype="stepfilled", color=colour, alpha=0.55, edgecolor=colour,
                            label=f"{policy} (median {np.median(values):.3g})" if values else policy)  # fmt: skip
            if largest:
                ax.legend(fontsize=7.5, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)
            else:
                ax.text(0.5, 0.5, f"no {label}", ha="center", color=style.MUTED, transform=ax.transAxes)
            ax.yaxis.set_major_locator(MaxNLocator(integer=True))
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
            ax.grid(axis="y")
            ax.set_xlabel(label)
        left.set_ylabel("rollouts")
        style.caption(fig, f"{style.count(sum(map(len, policies.values())), 'rollout')}, run {params.run}, "
                            f"at most {params.rollouts.max_turns} turns")  # fmt: skip
        return style.svg(fig)


def _whole_edges(largest: int) -> np.ndarray:
    """Edges between whole numbers, at most 30 bins, so that no bin holds more numbers than its neighbours."""
    step = max(1, -(-(largest + 1) // 30))
    return np.arange(0, largest + step + 1, step) - 0.5


def _by_policy(rows: list[Row]) -> dict[str, list[Row]]:
    return {p: [r for r in rows if r["policy"] == p] for p in sorted({r["policy"] for r in rows})}


def _where(rows: Rows, params: Params) -> str:
    return f"run {params.run}, {machine(rows['judgements'])}"


def _label(verdict: Row, task: Row, several: bool) -> str:
    ops = " + ".join(style.shorten(op).rpartition(".")[2] for op in (task.get("ops") or []))
    ops = ops if len(ops) <= 40 else ops[:39] + "…"
    name = f"{ops or 'task'} [{verdict['task_id'][:6]}]"
    return f"{name} {verdict['policy']}" if several else name


def _no_data(what: str) -> bytes:
    with style.styled():
        return style.no_data(what)

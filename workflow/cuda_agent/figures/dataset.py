"""Figures of the dataset: the filter funnel, the mix, the distance to KernelBench, how long tasks run."""

from __future__ import annotations

from collections import Counter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from cuda_agent.evaluation import dataset
from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.evaluation.diversity import entropy, spread
from cuda_agent.figures import style
from cuda_agent.params import Params


def funnel(rows: Rows, params: Params) -> bytes:
    """Candidates left after each rule, and how many it dropped."""
    steps = dataset.funnel(rows)
    if not steps[0]["left"]:
        return _styled_no_data("no candidates")
    with style.styled():
        fig, (ax,) = style.figure(0.95 + 0.22 * len(steps))
        colours = {"synthesis": style.FAINT, "filter": style.BLUE, "decontaminate": style.ORANGE, "tasks": style.GREEN}
        total = steps[0]["left"]
        for y, step in enumerate(steps):
            ax.barh(y, step["left"], color=colours[step["step"]], height=0.7)
            if step["dropped"]:
                ax.barh(y, step["dropped"], left=step["left"], color=colours[step["step"]], alpha=0.25, height=0.7)
            right = step["left"] + step["dropped"]
            text = f"{step['left']:,}" + (f"   −{step['dropped']:,}" if step["dropped"] else "")
            ax.text(right + 0.012 * total, y, text, va="center", fontsize=7.5)
        ax.set_yticks(range(len(steps)), [f"{s['rule'].replace('_', ' ')}" for s in steps])
        ax.set_xlim(0, total * 1.16)
        ax.invert_yaxis()
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        ax.set_xlabel("candidates left (solid) and dropped by this rule (pale)")
        for label in ("filter", "decontaminate", "tasks"):
            ax.barh(0, 0, color=colours[label], label=label)
        style.legend(fig, ax)
        observed = dataset.machine(rows["observations"])
        style.caption(fig, f"{style.count(total, 'candidate')}, run {params.run}, observed on {observed}")
        return style.svg(fig)


def operator_mix(rows: Rows, params: Params) -> bytes:
    """Tasks by data_source beside the published set, and the operators seen most."""
    if not rows["tasks"]:
        return _styled_no_data("no tasks")
    mix, operators = dataset.mix(rows), dataset.operators(rows)
    top = operators[:14]
    with style.styled():
        fig, (left, right) = style.figure(max(2.8, 1.0 + 0.19 * len(top)), 2, width_ratios=[1, 1.15])
        y = np.arange(len(mix))
        left.barh(y - 0.2, [m["share"] for m in mix], 0.38, color=style.BLUE, label="this run")
        left.barh(
            y + 0.2, [m["published_share"] or 0 for m in mix], 0.38, color=style.FAINT, label="published (6,000 rows)"
        )
        left.set_yticks(y, [m["data_source"] for m in mix])
        left.invert_yaxis()
        left.set_xlim(0, 1)
        left.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        left.set_xlabel("share of tasks")
        style.legend(fig, left)
        style.caption(fig, f"{style.count(len(rows['tasks']), 'task')}, run {params.run}")
        style.panel(left, "tasks by data_source")
        right.barh(range(len(top)), [n for _, n in top], 0.7, color=style.BLUE)
        right.set_yticks(range(len(top)), [style.shorten(name, 26) for name, _ in top], fontsize=7.5)
        right.invert_yaxis()
        right.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        right.set_xlabel("tasks that were seen to run it")
        more = f"{len(top)} most frequent of {len(operators)}" if len(operators) > len(top) else "all"
        style.panel(right, f"operators ({more})")
        return style.svg(fig)


def diversity(rows: Rows, params: Params) -> bytes:
    """What the tasks are made of: kinds of operators, ranks of inputs, sizes of the largest input."""
    if not rows["tasks"]:
        return _styled_no_data("no tasks")
    counts = spread(rows, "tasks")
    with style.styled():
        fig, axes = style.figure(3.0, 3, width_ratios=[1.3, 0.8, 1.3])
        for ax, (name, label) in zip(axes, _SPREADS.items(), strict=True):
            _bars(ax, counts[name], horizontal=name == "kind")
            ax.set_xlabel(label, fontsize=7.5)
            style.panel(ax, f"{name} (entropy {entropy(counts[name].elements()) or 0:.2f} bits)")
        axes[1].set_ylabel("inputs")
        axes[2].set_ylabel("tasks")
        style.caption(fig, f"{style.count(len(rows['tasks']), 'task')}, run {params.run}; data types of inputs: "
                            f"{', '.join(sorted(counts['dtype']))}")  # fmt: skip
        return style.svg(fig)


_SPREADS = {
    "kind": "operators in tasks",
    "rank": "axes of an input",
    "size": "log$_2$ elements of the largest input",
}


def _bars(ax: Axes, counts: Counter, *, horizontal: bool) -> None:
    if horizontal:
        items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ax.barh(range(len(items)), [n for _, n in items], 0.7, color=style.BLUE)
        ax.set_yticks(range(len(items)), [str(value) for value, _ in items], fontsize=7.5)
        ax.invert_yaxis()
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    else:
        ax.bar(sorted(counts), [counts[value] for value in sorted(counts)], 0.7, color=style.BLUE)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))


def similarity(rows: Rows, params: Params) -> bytes:
    """Similarity of each task to its nearest KernelBench problem, as a cumulative share."""
    values = _numbers(rows["tasks"], "nearest_similarity")
    if not len(values):
        return _styled_no_data("no task has a similarity to KernelBench")
    limit = params.decontamination.max_similarity
    with style.styled():
        fig, (ax,) = style.figure(2.4)
        ax.hist(values, bins=np.linspace(0, 1, 41), color=style.BLUE, alpha=0.8)
        ax.axvline(limit, color=style.VERMILION, linewidth=1.2, linestyle="--")
        ax.text(limit + 0.008, 0.97, f"limit\n{limit:g}", color=style.VERMILION, fontsize=7.5, va="top",
                transform=ax.get_xaxis_transform())  # fmt: skip
        ax.set_xlim(0, 1)
        ax.grid(axis="y")
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("similarity to the nearest KernelBench problem (0: nothing in common, 1: equal)")
        ax.set_ylabel("tasks")
        style.caption(fig, f"{style.count(len(values), 'task')}, run {params.run}; median {np.median(values):.2f}, "
                          f"largest {values.max():.2f}")  # fmt: skip
        return style.svg(fig)


def eager_times(rows: Rows, params: Params) -> bytes:
    """Eager time of every candidate that ran, and the window that tasks must lie in."""
    every, kept = _numbers(rows["observations"], "eager_ms"), _numbers(rows["tasks"], "eager_ms")
    every, kept = every[every > 0], kept[kept > 0]
    if not len(every):
        every = kept
    if not len(every):
        return _styled_no_data("nothing was timed")
    low, high = params.filtering.time_window_ms
    edges = edges_around(low, high, every)
    with style.styled():
        fig, (ax,) = style.figure(2.6)
        ax.hist(every, bins=edges, color=style.FAINT, label=f"candidates that ran ({len(every):,})")
        ax.hist(kept, bins=edges, color=style.BLUE, label=f"tasks ({len(kept):,})")
        for end in (low, high):
            ax.axvline(end, color=style.VERMILION, linewidth=1.2, linestyle="--")
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.grid(axis="y")
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("median eager time of one forward pass (ms)")
        ax.set_ylabel("count")
        style.legend(fig, ax)
        where = dataset.machine(rows["observations"] or rows["tasks"])
        style.caption(fig, f"window {low:g} to {high:g} ms (dashed); {where}")
        return style.svg(fig)


def edges_around(low: float, high: float, values: np.ndarray, bins: int = 40) -> np.ndarray:
    """Edges of about so many log bins over all values, both ends of the window among them.

    The window holds its upper end, a bin does not hold its own; so that edge is the next larger number.
    """
    least, most = np.log10(min(values.min(), low)), np.log10(max(values.max(), high))
    inside = max(1, round((np.log10(high) - np.log10(low)) / (most - least) * bins))
    width = (np.log10(high) - np.log10(low)) / inside
    first, last = -int((np.log10(low) - least) // width + 1), inside + int((most - np.log10(high)) // width + 1)
    edges = low * 10 ** (width * np.arange(first, last + 1))
    edges[-first], edges[inside - first] = low, np.nextafter(high, np.inf)
    return edges


def _numbers(rows: list[dict], column: str) -> np.ndarray:
    values = np.array([r[column] for r in rows if r.get(column) is not None], dtype=np.float64)
    return values[np.isfinite(values)]


def _styled_no_data(what: str) -> bytes:
    with style.styled():
        return style.no_data(what)

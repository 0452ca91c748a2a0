"""The picture of the pipeline in the README: ``python -m cuda_agent.figures.pipeline docs/pipeline.svg``."""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from cuda_agent.figures import style

BOX = (1.62, 0.78)  # width and height
PURE, MEASURED, RESULT = "#DCEBF5", "#FBE6C4", "#D9F0E7"
# name, what it does, its colour, the centre of its box
STEPS = {
    "operators": ("introspect torch\nand transformers", PURE, (0.9, 3.1)),
    "candidates": ("compose 1 to 5\ninto a task", PURE, (2.9, 3.1)),
    "observe": ("run in a sandbox,\nrecord and time", MEASURED, (4.9, 3.1)),
    "filter": ("rules on what\nwas observed", PURE, (6.9, 3.1)),
    "decontaminate": ("repeats, similarity\nto KernelBench", PURE, (8.9, 3.1)),
    "rollouts": ("policies write kernels\nin workspaces", MEASURED, (8.9, 1.55)),
    "judge": ("check, comply, time\noutside the candidate", MEASURED, (6.4, 1.55)),
    "verdicts": ("correct? compliant?\nspeed-up? reward", PURE, (3.9, 1.55)),
    "results": ("tables, figures,\nnotebooks, paper", RESULT, (1.4, 1.55)),
}
ARROWS = {
    ("operators", "candidates"): "",
    ("candidates", "observe"): "",
    ("observe", "filter"): "",
    ("filter", "decontaminate"): "",
    ("decontaminate", "rollouts"): "tasks",
    ("rollouts", "judge"): "submissions",
    ("judge", "verdicts"): "judgements",
    ("verdicts", "results"): "metrics",
}


def pipeline() -> bytes:
    """The steps and what flows between them, as SVG."""
    with style.styled():
        fig = Figure(figsize=(9.8, 3.4))
        FigureCanvasSVG(fig)
        ax = fig.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, 9.8), ylim=(0.25, 3.65), aspect="equal")
        ax.axis("off")
        for name, (text, colour, centre) in STEPS.items():
            _box(ax, name, text, colour, centre)
        for (start, end), text in ARROWS.items():
            _arrow(ax, STEPS[start][2], STEPS[end][2], text)
        for start, end in (((6.9, 2.7), (7.35, 2.42)), ((8.55, 2.7), (8.45, 2.45))):
            ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=8, color=style.FAINT))
        ax.text(7.9, 2.33, "rejections, with rule,\nnumbers and limits", ha="center", va="center", fontsize=7.5,
                color=style.MUTED)  # fmt: skip
        _legend(ax)
        return style.svg(fig)


def _box(ax: Axes, name: str, text: str, colour: str, centre: tuple[float, float]) -> None:
    (x, y), (width, height) = centre, BOX
    corner = (x - width / 2, y - height / 2)
    ax.add_patch(FancyBboxPatch(corner, width, height, "round,pad=0,rounding_size=0.09", facecolor=colour,
                                edgecolor=style.MUTED, linewidth=0.8))  # fmt: skip
    ax.text(x, y + 0.2, name, ha="center", va="center", fontsize=10, fontweight="bold")
    ax.text(x, y - 0.12, text, ha="center", va="center", fontsize=7.5)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], text: str) -> None:
    (x0, y0), (x1, y1), (width, height) = start, end, BOX
    if y0 == y1:
        step = width / 2 if x1 > x0 else -width / 2
        ends, label, side = ((x0 + step, y0), (x1 - step, y1)), ((x0 + x1) / 2, y0 + 0.13), "center"
    else:
        ends, label, side = ((x0, y0 - height / 2), (x1, y1 + height / 2)), (x0 + 0.1, (y0 + y1) / 2), "left"
    ax.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=11, color=style.MUTED, linewidth=1,
                                 shrinkA=1, shrinkB=1))  # fmt: skip
    if text:
        ax.text(*label, text, ha=side, va="center", fontsize=7.5, color=style.INK)


def _legend(ax: Axes) -> None:
    entries = (
        (PURE, "pure function: same bytes everywhere"),
        (MEASURED, "measured: written once, with hardware and versions; can be pinned"),
        (RESULT, "published"),
    )
    x = 0.6
    for colour, text in entries:
        ax.add_patch(FancyBboxPatch((x, 0.43), 0.2, 0.14, "round,pad=0,rounding_size=0.03", facecolor=colour,
                                    edgecolor=style.MUTED, linewidth=0.6))  # fmt: skip
        ax.text(x + 0.3, 0.5, text, va="center", fontsize=7.5)
        x += 0.75 + 0.062 * len(text)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pipeline())

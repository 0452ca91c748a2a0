"""The look that all figures share, and their deterministic SVG."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

WIDTH = 6.4  # inches; a figure fills the paper's text block at the size that its fonts were chosen for
# Okabe and Ito's palette, told apart with every common colour vision (https://jfly.uni-koeln.de/color/).
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
CYCLE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY)
INK, MUTED, FAINT = "#222222", "#666666", "#BBBBBB"

STYLE: dict[str, Any] = {
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": INK,
    "text.usetex": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "white",
}

_FRACTION = re.compile(r"(?<!scale\()(?<![\d.])-?\d+\.\d{4,}")
_NAME = re.compile(r'(?<=id=")[pmh][0-9a-f]{10}(?=")')


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """matplotlib's defaults with this style on top, whatever the user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def figure(height: float, columns: int = 1, **kwargs: Any) -> tuple[Figure, list[Axes]]:
    """An empty figure of the standard width, outside pyplot's global state, and its axes in a row."""
    fig = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasSVG(fig)
    return fig, list(fig.subplots(1, columns, squeeze=False, **kwargs)[0])


def caption(fig: Figure, text: str) -> None:
    """Say above the figure what was measured, on how many items and on which machine."""
    fig.suptitle(textwrap.fill(text, 105), fontsize=7.5, color=MUTED, x=0.01, ha="left")


def panel(ax: Axes, text: str) -> None:
    """Name one of several panels."""
    ax.set_title(text, fontsize=7.5, color=INK, pad=6)


def legend(fig: Figure, ax: Axes) -> None:
    """One legend below the whole figure, where it hides no data."""
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), fontsize=7.5)


def log_ticks(axis: Axis) -> None:
    """Plain numbers beside a log axis whose limits are set: 0.5, 1, 2, 5, 10.

    Powers of ten alone over many decades, even steps over a part of one.
    """
    low, high = sorted(axis.get_view_interval())
    if high < 4 * low:
        axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def svg(fig: Figure) -> bytes:
    """The figure as SVG, the same bytes for what looks the same: no date, coordinates to a thousandth of a point.

    Processors do not agree on the last digits that matplotlib writes, nor on the names it makes of unrounded
    coordinates; clips and markers are therefore named by what is drawn.
    """
    out = io.StringIO()
    fig.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    # Lines end without blanks, so that a figure kept in git passes whitespace checks.
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    text = _FRACTION.sub(lambda found: f"{round(float(found[0]), 3) + 0:.9g}", text)
    names = dict.fromkeys(_NAME.findall(text))
    for i, name in enumerate(names):
        text = text.replace(name, f"@{i}@")
    # Of the content, as several figures may stand in one page.
    drawn = hashlib.sha256(text.encode()).hexdigest()[:10]
    for i, name in enumerate(names):
        text = text.replace(f"@{i}@", f"{name[0]}{drawn}-{i}")
    return text.encode()


def no_data(what: str) -> bytes:
    """A figure that says that there is nothing to show, and of what."""
    fig, (ax,) = figure(1.2)
    ax.axis("off")
    ax.text(0.5, 0.5, f"no data: {what}", ha="center", va="center", color=MUTED, transform=ax.transAxes)
    return svg(fig)


def shorten(name: str, limit: int = 34) -> str:
    """A dotted name, cut at the front so that it fits beside an axis."""
    short = name.removeprefix("torch.nn.functional.").removeprefix("torch.nn.").removeprefix("transformers.")
    return short if len(short) <= limit else "…" + short[-(limit - 1) :]


def count(n: int, noun: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")

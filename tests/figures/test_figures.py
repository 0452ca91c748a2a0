import copy
import random
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
import synthetic_run
from cuda_agent.figures import FIGURES, dataset, style
from hypothesis import assume, given
from hypothesis import strategies as st
from matplotlib.figure import Figure

SVG = "{http://www.w3.org/2000/svg}"
NAMES = sorted(FIGURES)


@pytest.fixture(scope="module")
def drawn(rows, parameters):
    return {name: draw(rows, parameters) for name, draw in FIGURES.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_an_svg_that_looks_the_same_everywhere(name, drawn):
    root = ET.fromstring(drawn[name])
    assert root.tag == f"{SVG}svg"
    assert not root.findall(f".//{SVG}text")  # text is drawn as paths: no font is needed
    assert not root.findall(f".//{SVG}image")
    assert b"dc:date" not in drawn[name]


@pytest.mark.parametrize("name", NAMES)
def test_bytes_depend_on_the_rows_alone(name, rows, parameters, drawn):
    shuffled = copy.deepcopy(rows)
    for artefact in shuffled.values():
        random.Random(1).shuffle(artefact)
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20, "svg.fonttype": "none"}):
        assert FIGURES[name](shuffled, parameters) == drawn[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_the_same_where_a_processor_computes_another_last_digit(name, rows, parameters, drawn):
    assert FIGURES[name](synthetic_run.nudged(rows), parameters) == drawn[name]


def test_figures_in_one_page_do_not_take_each_others_clips(drawn):
    named = {name: set(re.findall(rb'<clipPath id="([^"]+)"', svg)) for name, svg in drawn.items()}
    assert named["fast_p"]
    assert len(set.union(*named.values())) == sum(map(len, named.values()))


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_changes_with_its_rows(name, parameters, drawn):
    assert FIGURES[name](synthetic_run.make(seed=1), parameters) != drawn[name]


def shape(svg):
    """Width and height in points."""
    return tuple(float(v) for v in re.search(rb'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()[::-1])


@pytest.mark.parametrize("name", NAMES)
def test_without_rows_a_small_figure_says_so(name, empty, parameters, drawn):
    blank = FIGURES[name](empty, parameters)
    ET.fromstring(blank)
    assert shape(blank)[0] < shape(drawn[name])[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ["one", "none_passed", "two_policies", "many"])
def test_few_and_many_rows(name, case, parameters):
    rows = {
        "one": {"candidates": 1, "tasks": 1, "judged": 1, "passing": 1},
        "none_passed": {"passing": 0},
        "two_policies": {"policies": ("codegen", "openai")},
        "many": {"candidates": 120, "tasks": 100, "judged": 100, "passing": 1},
    }[case]
    ET.fromstring(FIGURES[name](synthetic_run.make(**rows), parameters))


@pytest.mark.parametrize("name", NAMES)
def test_columns_that_were_not_measured_are_left_out(name, rows, parameters):
    holes = copy.deepcopy(rows)
    for artefact, required in (("tasks", "task_id"), ("observations", "candidate_id"), ("submissions", "task_id")):
        for row in holes[artefact]:
            for column, value in row.items():
                if isinstance(value, float | int) and column != required:
                    row[column] = None
    for row in holes["verdicts"]:
        for column in row:
            if column.endswith(("_low", "_high", "_ms")) or column.startswith("speedup_compile"):
                row[column] = None
    ET.fromstring(FIGURES[name](holes, parameters))


@pytest.fixture
def axes_of(monkeypatch):
    """Draw a figure and give its axes instead of its bytes."""

    def axes(name, rows, parameters):
        kept = []
        monkeypatch.setattr(style, "svg", lambda fig: kept.append(fig) or b"")
        FIGURES[name](rows, parameters)
        kept[0].canvas.draw()
        return kept[0].axes

    return axes


milliseconds = st.floats(1e-3, 1e4)


@given(milliseconds, milliseconds, st.lists(milliseconds, min_size=1, max_size=20))
def test_no_bin_of_the_times_reaches_over_an_end_of_the_window(low, high, values):
    assume(low * 1.01 < high)
    edges = dataset.edges_around(low, high, np.array(values))
    assert (np.diff(edges) > 0).all()
    for value in [*values, low, high]:
        counts, _ = np.histogram([value], edges)
        assert counts.sum() == 1
        start = edges[counts.argmax()]
        assert (low <= start < high) == (low <= value <= high)


@pytest.mark.parametrize("largest", [0.02, 1.3, 30.0])
def test_every_fast_p_curve_falls_to_0_inside_the_frame(largest, rows, parameters, axes_of):
    scaled = copy.deepcopy(rows)
    for row in scaled["verdicts"]:
        if row["speedup_eager"]:
            row["speedup_eager"] *= largest
    for ax, column in zip(axes_of("fast_p", scaled, parameters), ("speedup_eager", "speedup_compile"), strict=True):
        speedups = [r[column] for r in scaled["verdicts"] if r[column]]
        left, right = ax.get_xlim()
        assert left < min(speedups) <= max(speedups) < right
        curve = ax.lines[0]
        assert curve.get_ydata()[-1] == 0
        assert curve.get_ydata()[0] == len(speedups) / len(scaled["verdicts"]) <= ax.get_ylim()[1]
        assert len([t for t in ax.get_xticklabels() if t.get_text()]) >= 2


def test_a_reason_has_its_count_beside_a_bar_as_thick_as_in_any_other_run(rows, parameters, axes_of):
    alone = copy.deepcopy(rows)
    for row in alone["verdicts"]:
        row["reasons"] = row["reasons"] and ["no_submission (submission): "]
    several, one = (axes_of("rewards", r, parameters)[1] for r in (rows, alone))
    assert len(one.patches) == 1 < len(several.patches)
    assert one.patches[0].get_window_extent().height == pytest.approx(
        several.patches[0].get_window_extent().height, 0.05
    )
    for ax in (one, several):
        assert [t.get_text() for t in ax.texts] == [f"{p.get_width():g}" for p in ax.patches]
        assert all(t.get_window_extent().x1 <= ax.get_window_extent().x1 for t in ax.texts)


@given(milliseconds, st.floats(1.1, 1e6))
def test_a_log_axis_has_a_few_plain_numbers_whatever_its_range(low, factor):
    ax = Figure(figsize=(3, 2)).add_subplot(xscale="log", xlim=(low, low * factor))
    style.log_ticks(ax.xaxis)
    inside = [tick for tick in ax.get_xticks() if low <= tick <= low * factor]
    assert 2 <= len(inside) <= 10
    assert len({ax.xaxis.get_major_formatter()(tick) for tick in inside}) == len(inside)

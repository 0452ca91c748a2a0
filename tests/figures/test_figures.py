import copy
import random
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import pytest
import synthetic_run
from cuda_agent.figures import FIGURES

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

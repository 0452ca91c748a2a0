"""Laws of the comparisons."""

import math

import pytest
import torch
from cuda_agent.observation import compare, timing
from hypothesis import given
from hypothesis import strategies as st

floats = st.floats(-1e6, 1e6, width=32)
tensors = st.lists(floats, min_size=1, max_size=20).map(torch.tensor)
INF, NAN = math.inf, math.nan


@given(tensors)
def test_nothing_differs_from_itself(x):
    std, scale = compare.spread([x])
    assert compare.difference([x], [x], scale) == 0
    assert compare.disagreement([x], [x], scale) == 0
    assert 0 <= std <= scale * (1 + 1e-9)


@given(tensors, st.floats(1e-3, 1e3))
def test_differences_are_relative(x, factor):
    x = x.double() + 1e7
    moved = x + 1
    _, scale = compare.spread([x])
    _, scaled = compare.spread([x * factor])
    expected = compare.difference([moved], [x], scale)
    assert compare.difference([moved * factor], [x * factor], scaled) == pytest.approx(expected, rel=1e-3)


@given(tensors, tensors)
def test_difference_is_symmetric(x, y):
    assert compare.difference([x], [y], 1.0) == compare.difference([y], [x], 1.0)


def test_a_small_spread_around_a_large_mean_is_seen():
    x = torch.tensor([1e8, 1e8 + 1], dtype=torch.float64)
    assert compare.spread([x])[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, NAN], [1.0, NAN], 0.0),
        ([INF], [INF], 0.0),
        ([INF], [-INF], None),
        ([1.0], [NAN], None),
        ([1.0, 2.0], [1.0], None),
        ([], [], 0.0),
        ([0.0, 3.0], [0.0, 1.0], 1.0),
    ],
)
def test_values_that_are_not_finite(a, b, expected):
    assert compare.difference([torch.tensor(a)], [torch.tensor(b)], 2.0) == expected


def test_no_scale_leaves_a_difference_undefined():
    assert compare.difference([torch.ones(1)], [torch.zeros(1)], 0.0) is None


def test_disagreement_is_the_smallest_tolerance_that_would_do():
    reference, value = torch.tensor([0.0, 100.0, NAN]), torch.tensor([0.5, 103.0, NAN])
    assert compare.disagreement([value], [reference], 1.0) == 0.5
    assert compare.disagreement([value], [reference], 50.0) == 3.0 / 150
    assert compare.disagreement([value], [torch.zeros(3)], 1.0) is None
    assert compare.disagreement([torch.tensor([float("inf")])], [torch.ones(1)], 1.0) is None


def test_other_kinds_of_values():
    assert compare.nonfinite([torch.tensor([1, 2]), torch.tensor([complex(NAN, 1)]), torch.tensor([True])]) == 1
    assert compare.difference([torch.tensor([True])], [torch.tensor([False])], 1.0) == 1.0


def test_each_call_is_timed_and_warmup_is_not():
    calls = []
    times = timing.sample({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, "cpu", 2, 3)
    assert calls == ["a", "b"] * 5
    assert {name: len(found) for name, found in times.items()} == {"a": 3, "b": 3}


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_quartiles_lie_inside(values):
    assert 0 <= timing.interquartile_range(values) <= max(values) - min(values) + 1e-6

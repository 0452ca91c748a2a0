"""What a call takes, from runs of N and of 2N calls."""

import pytest
from cuda_agent.judge.timing import samples
from hypothesis import given
from hypothesis import strategies as st


@given(st.floats(1e-5, 1e-1), st.floats(0, 1e-5), st.integers(1, 100), st.integers(1, 9))
def test_what_a_request_costs_is_taken_off(call_s, request_s, calls, pairs):
    runs = [(request_s + calls * call_s, request_s + 2 * calls * call_s)] * pairs
    assert samples(runs, calls) == pytest.approx([1e3 * call_s] * pairs)


@given(st.lists(st.tuples(st.floats(1e-6, 1), st.floats(1e-6, 1)), min_size=1, max_size=9), st.integers(1, 100))
def test_no_noise_makes_a_time_negative_or_nothing(runs, calls):
    assert all(ms > 0 for ms in samples(runs, calls))


def test_one_disturbed_pair_changes_only_its_own_sample():
    clean = [(1.0, 2.0)] * 5
    disturbed = samples([*clean[:4], (9.0, 2.0)], 1)
    assert disturbed[:4] == samples(clean, 1)[:4]

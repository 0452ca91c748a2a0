import numpy as np
import pytest
from cuda_agent.evaluation import intervals
from hypothesis import given, settings
from hypothesis import strategies as st

# Values that only rounding tells apart count as equal: another test.
ratios = st.lists(st.floats(0.05, 20), min_size=2, max_size=12, unique_by=lambda v: round(v, 6))


def bootstrap(values, statistic=intervals.geometric_mean, seed=1, samples=400):
    rng = intervals.generator(seed, "test")
    return intervals.bootstrap(values, statistic, samples=samples, confidence=0.95, rng=rng)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_stays_inside_0_and_1(counts):
    k, n = counts
    low, high = intervals.wilson(k, n, 0.95)
    assert 0 <= low <= k / n <= high <= 1


def test_wilson_agrees_with_a_textbook_value_and_admits_doubt_at_the_ends():
    low, high = intervals.wilson(81, 263, 0.95)  # Newcombe 1998, table I, method 3
    assert (low, high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert intervals.wilson(0, 24, 0.95)[1] > 0.1
    assert intervals.wilson(24, 24, 0.95)[0] < 0.9
    assert intervals.wilson(0, 0, 0.95) == (None, None)


@settings(max_examples=30, deadline=None)
@given(ratios, st.floats(0.1, 10))
def test_bootstrap_of_a_geometric_mean_scales_with_its_values(values, factor):
    low, high = bootstrap(values)
    scaled = bootstrap([v * factor for v in values])
    assert scaled == pytest.approx((low * factor, high * factor), rel=1e-6)
    assert min(values) * (1 - 1e-9) <= low <= high <= max(values) * (1 + 1e-9)


@pytest.mark.parametrize("values", [[], [2.0], [1.5, 1.5, 1.5], [0.1 + 0.2, 0.3]])
def test_no_interval_where_resampling_shows_no_spread(values):
    assert bootstrap(values) == (None, None)


def test_bootstrap_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(200):
        low, high = bootstrap(np.exp(rng.normal(0.3, 0.5, size=20)), seed=seed)
        hits += low <= np.exp(0.3) <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_random_numbers_depend_on_seed_and_purpose_alone():
    draw = lambda *names: intervals.generator(*names).random()  # noqa: E731
    assert draw(1, "a") == draw(1, "a")
    assert len({draw(1, "a"), draw(2, "a"), draw(1, "b"), draw(1, "a", "b")}) == 4

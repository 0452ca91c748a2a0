import json
import random

import pytest
import synthetic_run
from cuda_agent import evaluation
from hypothesis import given, settings
from hypothesis import strategies as st

TASKS = [{"task_id": f"t{i}", "data_source": "torch#1" if i < 2 else "torch#2"} for i in range(40)]


def verdict(i, eager=None, compiled=None, *, correct=True, compliant=True, reward=None, policy="p", reasons=()):
    return {
        "task_id": f"t{i}",
        "policy": policy,
        "compiled": True,
        "correct": correct,
        "compliant": compliant,
        "reasons": list(reasons),
        "precision": "float32",
        "speedup_eager": eager,
        "speedup_compile": compiled,
        "reward": reward,
    }


def measure(verdicts, parameters, seed=1):
    return evaluation.metrics(verdicts, TASKS, parameters.results, seed)


def test_a_processor_that_computes_another_last_digit_gives_the_same_bytes(rows, parameters):
    there = synthetic_run.nudged(rows)
    here, away = (evaluation.metrics(r["verdicts"], r["tasks"], parameters.results, 1) for r in (rows, there))
    assert json.dumps(here) == json.dumps(away)
    assert evaluation.tables(rows, here, []) == evaluation.tables(there, away, [])


def test_a_small_example_by_hand(parameters):
    m = measure(
        [
            verdict(0, 2.0, 1.0, reward=2),
            verdict(1, 8.0, 4.0, reward=3),
            verdict(2, 1.04, 0.5, reward=1),
            verdict(3, correct=False, reward=-1, reasons=["values_differ", "stale"]),
            verdict(4, 9.0, 9.0, compliant=False, reward=-1, reasons=["calls_torch"]),
        ],
        parameters,
    )["p"]
    assert (m["n"], m["passed"]) == (5, 3)
    assert m["correct_rate"]["value"] == pytest.approx(4 / 5)
    assert m["pass_rate"]["value"] == pytest.approx(3 / 5)
    assert m["faster_eager"]["value"] == pytest.approx(2 / 5)
    assert m["faster_compile"]["value"] == pytest.approx(1 / 5)
    assert m["speedup_eager"]["value"] == pytest.approx((2 * 8 * 1.04) ** (1 / 3))
    assert m["mean_reward"]["value"] == pytest.approx(4 / 5)
    assert m["failures"] == {"calls_torch": 1, "values_differ": 1}
    assert m["rewards"] == {"-1": 2, "1": 1, "2": 1, "3": 1}
    assert m["by_data_source"]["torch#1"]["n"] == 2
    assert m["by_data_source"]["torch#2"]["passed"] == 1


def test_thresholds_are_strict(parameters):
    at_margin = 1 / (1 - parameters.results.faster_margin)
    m = measure([verdict(0, 1.5, at_margin * (1 - 1e-9)), verdict(1, 2.0, at_margin * (1 + 1e-9))], parameters)["p"]
    assert m["fast_p_eager"]["1.5"]["value"] == 0.5
    assert m["fast_p_eager"]["2"]["value"] == 0
    assert m["faster_compile"]["value"] == 0.5


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("no_submission (submission): ", "no_submission"),
        ("build (build): kernels/a.cpp:3: error", "build"),
        ("crashed (check): signal 11", "crashed (check)"),
        ("outputs (spread): 12.00% of the values differ", "outputs"),
        ("torch operator aten::relu", "torch operator"),
        ("3 threads started in forward", "threads started in forward"),
    ],
)
def test_reasons_are_counted_by_kind(parameters, reason, kind):
    m = measure([verdict(0, correct=False, reasons=[reason])], parameters)["p"]
    assert m["failures"] == {kind: 1}


def test_nothing_right_is_no_number_rather_than_zero(parameters):
    m = measure([verdict(i, correct=False, reward=-1) for i in range(3)], parameters)["p"]
    assert m["pass_rate"]["value"] == 0
    assert m["pass_rate"]["high"] > 0.3
    assert m["speedup_eager"] == {"value": None, "low": None, "high": None, "n": 0, "interval": "bca"}
    assert (m["mean_reward"]["value"], m["mean_reward"]["low"]) == (-1, None)
    assert measure([], parameters) == {}


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), 0.0, -1.0])
def test_a_kernel_without_a_usable_time_is_never_fast(parameters, bad):
    m = measure([verdict(0, bad, bad, reward=1)], parameters)["p"]
    assert m["passed"] == 1
    assert m["speedup_eager"]["n"] == 0
    assert m["fast_p_eager"]["0"]["value"] == 0


verdicts = st.lists(
    st.tuples(st.booleans(), st.one_of(st.none(), st.floats(0.1, 9)), st.one_of(st.none(), st.floats(0.1, 9))),
    min_size=1,
    max_size=15,
).map(lambda rows: [verdict(i, e, c, correct=ok, reward=1 if ok else -1) for i, (ok, e, c) in enumerate(rows)])


@settings(max_examples=25, deadline=None)
@given(verdicts, st.randoms())
def test_laws(parameters, rows, rng):
    quick = parameters.results.model_copy(update={"bootstrap_samples": 50})
    m = evaluation.metrics(rows, TASKS, quick, 1)
    for b in ("eager", "compile"):
        curve = [m["p"][f"fast_p_{b}"][f"{p:g}"]["value"] for p in sorted(quick.fast_p)]
        assert curve == sorted(curve, reverse=True)
        assert curve[0] <= m["p"]["pass_rate"]["value"]
        assert m["p"][f"faster_{b}"]["value"] <= m["p"][f"fast_p_{b}"]["1"]["value"]
    shuffled = list(rows)
    rng.shuffle(shuffled)
    assert evaluation.metrics(shuffled, TASKS, quick, 1) == m
    other = [v | {"policy": "q"} for v in rows[:1]]
    assert evaluation.metrics(rows + other, TASKS, quick, 1)["p"] == m["p"]
    json.dumps(m, allow_nan=False)


def test_the_seed_moves_bootstrap_intervals_only(parameters):
    rng = random.Random(3)
    rows = [verdict(i, rng.uniform(0.5, 4), rng.uniform(0.5, 4), reward=rng.choice([1, 2, 3])) for i in range(20)]
    a, b = measure(rows, parameters, 1)["p"], measure(rows, parameters, 2)["p"]
    assert a["speedup_eager"]["low"] != b["speedup_eager"]["low"]
    assert a["speedup_eager"]["value"] == b["speedup_eager"]["value"]
    assert a["pass_rate"] == b["pass_rate"]

"""Verdicts are pure functions of judgements."""

import json

import pytest
from cuda_agent import records
from cuda_agent.judge import judging
from cuda_agent.judge import rules as v
from cuda_agent.params import Results
from hypothesis import given
from hypothesis import strategies as st

RESULTS = Results(
    rules="published", faster_margin=0.05, fast_p=[1], bootstrap_samples=200, confidence=0.95
)  # fmt: skip
STRICT = RESULTS.model_copy(update={"rules": "strict"})
GOOD = {
    **{"check": "outputs", "distribution": "drawn", "changed": [], "nonfinite": 0, "float64": True},
    **{"mismatched": 0.0, "eager_mismatched": 0.0, "excess": 0.0, "eager_excess": 0.0},
    **{"max_error": 1e-6, "eager_max_error": 1e-6, "rms_error": 1e-7, "eager_rms_error": 1e-7},
}


def judgement(checks=(GOOD,), launched=None, times=None, *, status="ok", stage="", error=""):
    launched = {"source": [], "binary": [], "kernels": {"f": 1}, "ops": {}, **(launched or {})}
    row = {"task_id": "t", "policy": "p", "status": status, "stage": stage, "error": error}
    texts = {"checks": list(checks), "launched": launched, "times": times or {}}
    return row | {k: json.dumps(x) for k, x in texts.items()}


def times(own, eager, compiled):
    return {"candidate": [own] * 5, "eager": [eager] * 5, "compile": [compiled] * 5}


@pytest.mark.parametrize(
    ("eager", "compiled", "reward"),
    [(1.2, 1.2, 3), (1.2, 1.0, 2), (1.2, 0.8, 2), (1.0, 1.2, 1), (1.05, 1.05, 1), (1.06, 1.06, 3), (0.5, 0.5, 1)],
)
def test_reward_as_published(eager, compiled, reward):
    assert v.verdict(judgement(times=times(1.0, eager, compiled)), RESULTS)["reward"] == reward


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nonfinite": 3}, "NaN or infinite"),
        ({"changed": [1]}, "input 1 was changed"),
        ({"excess": 0.1}, "differ by more than"),
        ({"mismatched": 0.01}, "integers differ"),
        ({"rms_error": "inf"}, "off by inf"),
        ({"rms_error": 1.0}, "root mean square"),
    ],
)
def test_a_failed_check_is_never_rewarded(change, reason):
    verdict = v.verdict(judgement([GOOD, GOOD | change], times=times(1.0, 9.0, 9.0)), RESULTS)
    assert not verdict["correct"]
    assert verdict["reward"] == -1
    assert any(reason in r for r in verdict["reasons"])


@pytest.mark.parametrize(
    "launched",
    [
        {"ops": {"aten.mm.default": 1}},
        {"kernels": {}},
        {"leaks": ["numpy"]},
        {"threads": [1, 2]},
        {"intact": False},
        {"ghost_passed": True},
        {"device_kernels": {"triton_poi_fused_add": 1}},
        {"source": ["import of os"]},
        {"binary": ["call of dlsym"]},
    ],
)
def test_what_the_rules_forbid_is_not_compliant(launched):
    verdict = v.verdict(judgement(launched=launched, times=times(1.0, 9.0, 9.0)), RESULTS)
    assert verdict["correct"]
    assert not verdict["compliant"]
    assert verdict["reward"] == -1


def test_views_creation_and_copies_are_allowed():
    ops = {"aten.empty_like.default": 1, "aten.view.default": 2, "aten.clone.default": 1, "aten.t.default": 1}
    assert v.verdict(judgement(launched={"ops": ops}), RESULTS)["compliant"]


def test_half_precision_passes_the_published_rules_and_fails_the_strict_ones():
    half = GOOD | {"max_error": 4e-3, "rms_error": 1.5e-3}
    published, strict = (v.verdict(judgement([half]), r) for r in (RESULTS, STRICT))
    assert published["correct"] and published["precision"] == "half"
    assert not strict["correct"]


def test_an_error_budget_follows_what_the_reference_itself_gets_wrong():
    shaky = GOOD | {"max_error": 3e-3, "eager_max_error": 1e-3, "excess": 0.01, "eager_excess": 0.01}
    assert v.verdict(judgement([shaky]), STRICT)["correct"]


@pytest.mark.parametrize(
    ("status", "stage", "compiled"),
    [("build", "build", False), ("no_submission", "submission", False), ("load", "load", False)]
    + [(s, "check", True) for s in ("timeout", "crashed", "memory", "exited", "error", "output", "processes")],
)
def test_how_it_ended_is_the_first_reason(status, stage, compiled):
    row = judgement([], status=status, stage=stage, error="what happened\nand where")
    verdict = v.verdict(row, RESULTS)
    assert verdict["compiled"] is compiled
    assert verdict["reward"] == -1
    assert verdict["reasons"][0] == f"{status} ({stage}): what happened"


def test_machine_errors_are_no_verdicts():
    assert v.verdicts([judgement(status="machine"), judgement()], RESULTS)[0]["task_id"] == "t"
    assert len(v.verdicts([judgement(status="machine"), judgement()], RESULTS)) == 1


def test_nothing_compared_is_not_correct():
    assert not v.verdict(judgement([]), RESULTS)["correct"]


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=9), st.floats(0.1, 10))
def test_intervals_hold_the_median_and_are_the_same_each_time(samples, factor):
    row = judgement(times={"candidate": samples, "eager": [factor * s for s in samples], "compile": samples})
    first, second = v.verdict(row, RESULTS), v.verdict(row, RESULTS)
    assert first == second
    assert first["speedup_eager_low"] <= first["speedup_eager"] <= first["speedup_eager_high"]
    assert first["speedup_eager"] == pytest.approx(factor)


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_reward_never_falls_when_a_kernel_gets_faster(eager, compiled):
    assert v.reward(True, eager, compiled, 0.05) <= v.reward(True, 2 * eager, 2 * compiled, 0.05)


def test_a_submission_for_no_known_task_is_named_before_anything_is_judged():
    submission = {"task_id": "gone", "policy": "p", "files": "{}"}
    with pytest.raises(records.RecordError, match=r"1 of them for tasks .* first 'gone'"):
        judging.judge([{"task_id": "there"}], [submission], None, None, backend="cpp", workers=1)

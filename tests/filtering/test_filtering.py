import copy
import itertools
import json
import random

import pytest
from cuda_agent import filtering, records
from cuda_agent.params import Filtering
from cuda_agent.tasks.hashes import text_hash
from hypothesis import given
from hypothesis import strategies as st

LIMITS = Filtering(
    time_window_ms=(0.05, 100.0),
    agreement=0.01,
    repeat_rtol=0.0,
    indistinguishable_rtol=1e-4,
)

GOOD = {
    "status": "ok",
    "stage": "time",
    "error": "",
    "compile_error": "",
    "ops": ["torch.nn.ReLU"],
    "aten_ops": ["aten.relu.default"],
    "random_ops": [],
    "inputs": '[{"dtype": "float32", "shape": [4, 4]}]',
    "outputs": '[{"dtype": "float32", "shape": [4, 4]}]',
    "parameters": 0,
    "flops": 0,
    "bytes": 128,
    "nonfinite": 0,
    "output_std": 1.0,
    "output_scale": 1.0,
    "repeat_difference": 0.0,
    "input_difference": 1.0,
    "eager_error": 0.0,
    "compile_error_value": 0.0,
    "compile_difference": 0.0,
    "eager_ms": 1.0,
    "eager_ms_iqr": 0.1,
    "compile_ms": 1.0,
    "peak_mb": 10.0,
    "wall_s": 1.0,
    "device": "cpu",
    "device_name": "processor",
    "versions": "{}",
    "isolation": "seccomp",
    "code_hash": "0",
}

# What a failing observation shows, and the rule that must name it.
FAILURES = [
    ({"status": "error", "stage": "load", "error": "SyntaxError: no"}, "runs_eager"),
    ({"status": "memory", "stage": "eager"}, "runs_eager"),
    ({"status": "timeout", "stage": "compile"}, "runs_compiled"),
    ({"compile_error": "Unsupported: no"}, "runs_compiled"),
    ({"random_ops": ["aten.rand.default"], "repeat_difference": 0.3, "compile_difference": 0.5}, "no_random"),
    ({"nonfinite": 3, "repeat_difference": float("nan"), "compile_difference": float("nan")}, "finite"),
    ({"repeat_difference": 1e-7}, "repeatable"),
    ({"repeat_difference": float("nan")}, "repeatable"),
    ({"compile_difference": 0.0101}, "agreement"),
    ({"compile_difference": None}, "agreement"),
    ({"output_std": 0.0}, "not_constant"),
    ({"output_std": 9e-5}, "not_constant"),
    ({"output_std": 0.0, "output_scale": 0.0}, "not_constant"),
    ({"input_difference": 1e-4}, "distinguishable"),
    ({"input_difference": None}, "distinguishable"),
    ({"eager_ms": 0.049}, "time_window"),
    ({"eager_ms": 100.1}, "time_window"),
    ({"status": "timeout", "stage": "time", "eager_ms": None}, "time_window"),
]


def rows(changes):
    candidates, observations = [], []
    for i, change in enumerate(changes):
        name = f"c{i:04d}"
        candidates.append(
            {
                "candidate_id": name,
                "ops": ["meant"],
                "data_source": "torch#1",
                "code": f"# {i}",
                "composer": "stack",
                "operators": ["torch.nn.ReLU"],
                "spdx": ["BSD-3-Clause"],
            }
        )
        about = {"candidate_id": name, "candidate_hash": text_hash(f"# {i}")}
        observations.append({**about, **copy.deepcopy(GOOD), **change})
    return candidates, observations


@pytest.mark.parametrize(("change", "rule"), FAILURES)
def test_each_failure_is_named_by_its_rule_with_numbers(change, rule):
    kept, rejected = filtering.apply(*rows([change]), LIMITS)
    assert kept == []
    assert [r["rule"] for r in rejected] == [rule]
    measured = json.loads(rejected[0]["measured"])
    assert measured
    assert rejected[0]["detail"]
    assert json.loads(rejected[0]["limits"]) == filtering.limits(LIMITS)[rule]


def test_every_parameter_of_the_filters_is_the_limit_of_a_rule():
    held = {name: value for values in filtering.limits(LIMITS).values() for name, value in values.items()}
    assert held == LIMITS.model_dump(mode="json") | {"nonfinite": 0}
    assert list(filtering.limits(LIMITS)) == list(filtering.RULES)


def test_every_rule_can_reject():
    assert {rule for _, rule in FAILURES} == set(filtering.RULES)


@pytest.mark.parametrize("time", [0.05, 100.0])
def test_the_ends_of_the_window_are_inside(time):
    kept, _ = filtering.apply(*rows([{"eager_ms": time}]), LIMITS)
    assert len(kept) == 1


def test_one_value_that_follows_the_input_is_no_constant():
    one = {"outputs": '[{"dtype": "float32", "shape": []}]', "output_std": 0.0}
    assert len(filtering.apply(*rows([one]), LIMITS)[0]) == 1
    _, rejected = filtering.apply(*rows([one | {"input_difference": 0.0}]), LIMITS)
    assert rejected[0]["rule"] == "distinguishable"


def test_operators_are_those_that_were_seen(tmp_path):
    kept, rejected = filtering.apply(*rows([{}, {"nonfinite": 1}]), LIMITS)
    assert kept[0]["ops"] == ["torch.nn.ReLU"]
    for part, schema in ((kept, records.FILTERED), (rejected, records.REJECTIONS)):
        records.write(tmp_path / "x.parquet", part, schema)
        assert records.read(tmp_path / "x.parquet", schema) == part


def test_an_observation_of_other_code_is_refused():
    candidates, observations = rows([{}, {}])
    candidates[1]["code"] = "# composed differently since"
    with pytest.raises(filtering.FilteringError, match=r"1 observations are of other code .* c0001"):
        filtering.apply(candidates, observations, LIMITS)


def test_a_fault_of_the_machine_rejects_nobody():
    with pytest.raises(filtering.FilteringError, match=r"c0001.*no memory.*observe again"):
        filtering.apply(*rows([{}, {"status": "machine", "error": "no memory to fork"}]), LIMITS)


def test_candidates_and_observations_must_match():
    candidates, observations = rows([{}, {}])
    with pytest.raises(filtering.FilteringError, match="1 candidates without an observation"):
        filtering.apply(candidates, observations[:1], LIMITS)
    with pytest.raises(filtering.FilteringError, match="1 observations of unknown candidates"):
        filtering.apply(candidates[:1], observations, LIMITS)
    with pytest.raises(filtering.FilteringError, match="c0000 is there twice"):
        filtering.apply(candidates, [*observations, observations[0]], LIMITS)


changes = st.lists(st.sampled_from([{}, *(change for change, _ in FAILURES)]), max_size=12)


@given(changes, st.randoms(use_true_random=False))
def test_every_candidate_ends_in_one_place_whatever_the_order(drawn, shuffle: random.Random):
    candidates, observations = rows(drawn)
    before = copy.deepcopy((candidates, observations))
    expected = filtering.apply(candidates, observations, LIMITS)
    assert repr((candidates, observations)) == repr(before)
    places = [r["candidate_id"] for part in expected for r in part]
    assert sorted(places) == [c["candidate_id"] for c in candidates]
    shuffle.shuffle(candidates)
    shuffle.shuffle(observations)
    assert filtering.apply(candidates, observations, LIMITS) == expected


@given(changes)
def test_the_funnel_adds_up(drawn):
    kept, rejected = filtering.apply(*rows(drawn), LIMITS)
    steps = filtering.funnel(len(drawn), rejected)
    assert steps[0]["before"] == len(drawn)
    assert steps[-1]["left"] == len(kept)
    assert sum(s["dropped"] for s in steps) == len(rejected)
    for step, following in itertools.pairwise(steps):
        assert step["before"] - step["dropped"] == step["left"] == following["before"]


def test_the_funnel_goes_on_with_decontamination():
    steps = filtering.funnel(5, [{"rule": "finite"}], [{"rule": "kernelbench"}, {"rule": "duplicate"}])
    assert [(s["rule"], s["left"]) for s in steps[-2:]] == [("duplicate", 3), ("kernelbench", 2)]


def test_a_funnel_that_cannot_add_up_is_an_error():
    with pytest.raises(ValueError, match="not applied: \\['luck'\\]"):
        filtering.funnel(5, [{"rule": "luck"}])
    with pytest.raises(ValueError, match="2 rejections of 1 candidates"):
        filtering.funnel(1, [{"rule": "finite"}, {"rule": "finite"}])

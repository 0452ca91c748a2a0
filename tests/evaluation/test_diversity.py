"""How varied a run's candidates and tasks are."""

import math

import pytest
from cuda_agent.evaluation import diversity
from hypothesis import given
from hypothesis import strategies as st

CODE = "class Model:\n    def forward(self, x):\n        return x {} 1\n"


@pytest.fixture
def small():
    """Three candidates, two of which mean the same; the third never ran; the first became a task."""
    made = [
        ("a", ["relu", "sum"], CODE.format("+")),
        ("b", ["sum", "relu"], CODE.format(" +  ")),
        ("c", ["relu"], CODE.format("*")),
    ]
    return {
        "operators": [{"name": "torch.relu", "kind": "pointwise"}, {"name": "torch.sum", "kind": "reduction"}],
        "candidates": [
            {"candidate_id": i, "ops": ops, "operators": [f"torch.{op}" for op in ops], "code": code}
            for i, ops, code in made
        ],
        "observations": [
            {"candidate_id": "a", "inputs": '[{"shape": [2, 3], "dtype": "float32"}]'},
            {
                "candidate_id": "b",
                "inputs": '[{"shape": [4, 4], "dtype": "float32"}, {"shape": [5], "dtype": "int64"}]',
            },
            {"candidate_id": "c", "inputs": ""},
        ],
        "tasks": [{"candidate_id": "a", "ops": ["relu", "sum"], "code": made[0][2]}],
    }


def test_a_small_example_by_hand(small):
    found = {r["measure"]: (r["candidates"], r["tasks"]) for r in diversity.diversity(small)}
    assert found == {
        "count": (3, 1),
        "normal_forms": (2, 1),
        "operators": (2, 2),
        "operator_sets": (2, 1),
        "operator_sequences": (3, 1),
        "operator_pairs": (2, 1),
        "pair_coverage": (0.5, 0.25),
        "kind_entropy": (pytest.approx(0.971, abs=1e-3), 1.0),
        "rank_entropy": (pytest.approx(0.918, abs=1e-3), 0.0),
        "dtype_entropy": (pytest.approx(0.918, abs=1e-3), 0.0),
        "size_entropy": (1.0, 0.0),
    }


def test_a_run_without_anything_has_no_entropy(empty):
    found = {r["measure"]: r["tasks"] for r in diversity.diversity(empty)}
    assert (found["count"], found["pair_coverage"], found["kind_entropy"]) == (0, None, None)


@given(st.lists(st.integers(0, 9), min_size=1))
def test_entropy_lies_between_one_value_and_all_values_alike(values):
    found = diversity.entropy(values)
    assert 0 <= found <= math.log2(len(set(values))) + 1e-9
    assert diversity.entropy(sorted(values) * 3) == pytest.approx(found)

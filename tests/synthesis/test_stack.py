"""The stack composer: what it writes runs, is used, and depends on the seed and the number alone."""

import ast
from collections import Counter

import pytest
import small_catalogue
import torch
from cuda_agent.synthesis import compose
from cuda_agent.synthesis.stack import sources
from cuda_agent.tasks.load import load_task, outputs_as_list
from hypothesis import given, settings
from hypothesis import strategies as st

MIX = {"torch#1": 204, "torch#2": 5026, "torch#3": 457, "torch#4": 168, "torch#5": 74, "transformers": 71}
EVEN = dict.fromkeys(MIX, 1.0)
ROWS = small_catalogue.rows()


def synthesis(**changes):
    return small_catalogue.synthesis(**{"mix": EVEN, **changes})


@pytest.fixture(scope="module")
def candidates():
    return compose(ROWS, synthesis(), 7)


def test_every_candidate_runs_and_its_output_depends_on_each_input(candidates):
    torch.set_num_threads(1)
    for row in candidates:
        with torch.no_grad():
            task = load_task(row["code"])
            model, inputs = task.build(0), task.inputs(1)
            first = outputs_as_list(model(*inputs))
            assert all(v.isfinite().all() for v in first), row["code"]
            for i, other in enumerate(task.inputs(2)):
                changed = outputs_as_list(model(*[other if i == j else t for j, t in enumerate(inputs)]))
                assert not all(torch.equal(a, b) for a, b in zip(first, changed, strict=True)), (i, row["code"])


def test_every_candidate_is_distinct(candidates):
    assert len({row["code"] for row in candidates}) == len(candidates)


def test_the_largest_tensor_has_the_size_that_was_asked_for(candidates):
    for row in candidates:
        if row["data_source"] != "transformers":
            sizes = [t.numel() * 4 for t in load_task(row["code"]).inputs(0)]
            assert max(sizes) <= 400_000, row["code"]


def _names_read(tree):
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def test_nothing_is_defined_that_is_not_used(candidates):
    for row in candidates:
        tree = ast.parse(row["code"])
        model = next(n for n in tree.body if isinstance(n, ast.ClassDef))
        constants = {n.targets[0].id for n in tree.body if isinstance(n, ast.Assign)}
        assert constants <= _names_read(tree), row["code"]
        assert not constants & _names_read(model) - {a.arg for a in ast.walk(model) if isinstance(a, ast.arg)}
        functions = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)}
        for function in functions.values():
            assert {a.arg for a in function.args.args} - {"self"} <= _names_read(function), row["code"]
        attributes = [n for n in ast.walk(functions["forward"]) if isinstance(n, ast.Attribute)]
        read = {n.attr for n in attributes if isinstance(n.value, ast.Name) and n.value.id == "self"}
        if "__init__" in functions:
            stores = [n for n in ast.walk(functions["__init__"]) if isinstance(n, ast.Attribute)]
            assert {n.attr for n in stores if isinstance(n.ctx, ast.Store) and n.attr[0] != "_"} <= read, row["code"]


def test_the_docstring_names_the_operators_and_the_source_counts_them(candidates):
    for row in candidates:
        text = " ".join(ast.get_docstring(_model(row["code"])).split())
        assert all(name in text for name in row["operators"])
        if row["data_source"].startswith("torch#"):
            assert len(row["ops"]) == int(row["data_source"][-1])


def _model(code):
    return next(n for n in ast.parse(code).body if isinstance(n, ast.ClassDef))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**62), st.lists(st.integers(0, 40), min_size=1, max_size=4, unique=True))
def test_a_candidate_depends_on_the_seed_and_its_number_alone(seed, some):
    alone = [compose(ROWS, synthesis(), seed, [i])[0] for i in some]
    assert compose(ROWS, synthesis(), seed, some) == alone


def test_another_seed_gives_other_candidates():
    one = {r["code"] for r in compose(ROWS, synthesis(candidates=30), 1)}
    two = {r["code"] for r in compose(ROWS, synthesis(candidates=30), 2)}
    assert len(one & two) < 5


def test_the_published_mix_is_kept_from_the_first_candidate_on():
    drawn = sources(MIX, 600)
    assert all(rank == [s for s, _ in drawn[:i]].count(source) for i, (source, rank) in enumerate(drawn))
    counts = Counter(source for source, _ in drawn)
    assert counts == {"torch#1": 20, "torch#2": 503, "torch#3": 46, "torch#4": 17, "torch#5": 7, "transformers": 7}


def test_a_source_without_operators_is_named():
    only_torch = [r for r in ROWS if r["source"] == "torch"]
    with pytest.raises(ValueError, match=r"synthesis\.mix: transformers"):
        compose(only_torch, synthesis(mix={"transformers": 1.0}), 0, [0])


def test_pairs_come_again_only_when_all_have_come():
    pairs = [tuple(r["operators"]) for r in compose(ROWS, synthesis(mix={"torch#2": 1.0}, candidates=120), 3)]
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("second", ["torch.nn.ReLU", "torch.abs", "torch.nn.LeakyReLU"])
def test_what_keeps_positive_values_never_follows_what_makes_them(second):
    few = [r for r in ROWS if r["name"] in ("torch.nn.Sigmoid", "torch.nn.Softplus", "torch.exp", second)]
    made = compose(few, synthesis(mix={"torch#2": 1.0}, candidates=6), 0)
    assert not any(r["operators"][1] == second for r in made)

"""Collection of operators: what is kept, what is excluded and why, and what a crash costs."""

import json
from pathlib import Path

import pytest
import torch
from cuda_agent import params as p
from cuda_agent import records
from cuda_agent.errors import UserError
from cuda_agent.journal import Journal
from cuda_agent.operators import behaviour, collection, discover, modeling, trial
from cuda_agent.sandbox import Pool

PARAMS = p.load(Path(__file__).parents[2])


def tried(name, spelling="function"):
    return trial.try_operator(None, name, spelling)


def test_far_more_operators_are_found_than_are_needed():
    specs = discover.torch_operators(None)
    names = [s["name"] for s in specs]
    assert len(names) == len(set(names)) > 500
    assert {"torch.nn.GELU", "torch.matmul", "torch.nn.functional.layer_norm", "torch.linalg.vector_norm"} <= set(names)
    assert not any(part.startswith("_") for n in names for part in n.split("."))


@pytest.mark.parametrize(
    ("name", "spelling", "kind"),
    [
        ("torch.nn.GELU", "module", "pointwise"),
        ("torch.nn.Conv2d", "module", "convolution"),
        ("torch.nn.LayerNorm", "module", "normalization"),
        ("torch.nn.GRU", "module", "recurrent"),
        ("torch.nn.Upsample", "module", "resampling"),
        ("torch.rsqrt", "function", "pointwise"),
        ("torch.sum", "function", "reduction"),
        ("torch.matmul", "function", "contraction"),
        ("torch.baddbmm", "function", "contraction"),
        ("torch.nn.functional.layer_norm", "function", "normalization"),
        ("torch.nn.functional.scaled_dot_product_attention", "function", "attention"),
        ("torch.linalg.qr", "function", "decomposition"),
        ("torch.Tensor.mul", "method", "pointwise"),
    ],
)
def test_an_operator_is_built_run_and_classified(name, spelling, kind):
    result = tried(name, spelling)
    assert (result["status"], result["kind"]) == ("verified", kind), result
    assert result["examples"]
    assert all(e["inputs"] and e["outputs"] for e in result["examples"])


@pytest.mark.parametrize(
    ("name", "spelling", "reason"),
    [
        ("torch.nn.Dropout", "module", "random"),
        ("torch.bernoulli", "function", "random"),
        ("torch.Tensor.add_", "method", "in place"),
        ("torch.nonzero", "function", "data-dependent"),
        ("torch.zeros_like", "function", "constant"),
        ("torch.nn.Identity", "module", "the identity"),
        ("torch.nn.Sequential", "module", "a container"),
        ("torch.is_floating_point", "function", "returns no tensor"),
        ("torch.nn.Transformer", "module", "a whole network"),
        ("torch.view_as_complex", "function", "no trial ran"),
    ],
)
def test_what_no_task_can_be_made_of_is_excluded_with_the_reason(name, spelling, reason):
    result = tried(name, spelling)
    assert result["status"] == "excluded"
    assert result["reason"].startswith(reason)


def test_the_recipe_builds_the_operator_again():
    recipe = tried("torch.nn.Conv1d", "module")
    example = recipe["examples"][0]
    module = torch.nn.Conv1d(**example["init"])
    output = module(torch.zeros(example["inputs"][0]["shape"]))
    assert list(output.shape) == example["outputs"][0]["shape"]


def test_a_module_of_transformers_is_built_with_small_sizes():
    name = "transformers.models.bert.modeling_bert.BertIntermediate"
    result = modeling.try_operator(None, name, "module")
    assert result["status"] == "verified"
    assert result["recipe"]["config"]["name"] == "BertConfig"
    assert result["recipe"]["config"]["set"]["intermediate_size"] == modeling.SIZES["intermediate_size"]
    assert result["recipe"]["axes"] == [["batch_size", "seq_len", "hidden_size"]]


def test_a_module_whose_weights_only_its_whole_model_fills_is_excluded():
    name = "transformers.models.aria.modeling_aria.AriaTextTopKRouter"
    assert modeling.try_operator(None, name, "module")["reason"] == "leaves its weights uninitialised"


@pytest.mark.parametrize(
    ("function", "expected", "absent"),
    [
        (torch.relu, {"finite", "nonnegative", "keeps_positive", "idempotent"}, {"saturates", "grows"}),
        (torch.exp, {"finite", "nonnegative", "grows"}, {"keeps_positive", "even"}),
        (torch.tanh, {"finite", "bounded", "saturates"}, {"nonnegative"}),
        (torch.log, {"finite_positive"}, {"finite"}),
        (torch.sign, {"flat", "flat_positive"}, {"nonnegative"}),
        (torch.square, {"even", "nonnegative", "grows"}, {"flat"}),
        (torch.nn.functional.hardsigmoid, {"saturates", "nonnegative"}, {"flat"}),
    ],
)
def test_words_describe_the_range(function, expected, absent):
    found = set(behaviour.words(function))
    assert expected <= found
    assert not absent & found


def spec(name, spelling="function"):
    return {"name": name, "spelling": spelling, "source_module": "x"}


BATCH = [
    spec("os.abort"),
    spec("torch.abs"),
    spec("torch.absolute"),
    spec("torch.nn.ReLU", "module"),
    spec("torch.relu"),
]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(collection, "discover", lambda _, params, __: [("torch", collection._named(params, BATCH))])
    return PARAMS.operators.model_copy(update={"sources": ["torch"]})


def test_an_operator_that_crashes_costs_only_itself_and_the_rows_are_the_same_again(few, tmp_path, monkeypatch):
    told = []
    journal = Journal(tmp_path / "journal")
    rows = collection.collect(few, PARAMS.sandbox, 1, journal, lambda *a, resumed=False: told.append(resumed))
    by_name = {r["name"]: r for r in rows}
    assert by_name["os.abort"]["status"] == "excluded"
    assert by_name["os.abort"]["reason"] == "ended the trial: crashed"
    assert all(r["status"] == "verified" for n, r in by_name.items() if n != "os.abort")
    same = {n: json.loads(r["recipe"])["same_as"] for n, r in by_name.items() if r["status"] == "verified"}
    assert same["torch.abs"] == same["torch.absolute"] != same["torch.relu"] == same["torch.nn.ReLU"]
    records.write(tmp_path / "rows.parquet", rows, records.OPERATORS)

    monkeypatch.setattr(Pool, "session", None)  # a finished batch is not tried again
    again = collection.collect(few, PARAMS.sandbox, 1, journal, lambda *a, resumed=False: told.append(resumed))
    assert again == rows
    assert told == [False, True]


def test_names_are_chosen_by_a_regular_expression():
    chosen = PARAMS.operators.model_copy(update={"sources": ["torch"], "names": r"torch\.ab\w+"})
    rows = collection.collect(chosen, PARAMS.sandbox, 1)
    assert [r["name"] for r in rows] == ["torch.abs", "torch.absolute"]


def test_names_that_nothing_has_are_refused(few):
    with pytest.raises(UserError, match=r"operators.names: no operator of torch is named 'torch.gone'"):
        collection.collect(few.model_copy(update={"names": "torch.gone"}), PARAMS.sandbox, 1)

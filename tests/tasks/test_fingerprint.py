import copy
import json
import random

import numpy as np
import problems
import pytest
from cuda_agent.tasks import clean
from cuda_agent.tasks.calls import called_operators, canonical
from cuda_agent.tasks.fingerprint import fingerprint, minhash, scheme, shingles
from cuda_agent.tasks.normal import task_id
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import PROBLEMS

COPIES = [problems.renamed, problems.resized, problems.reformatted, problems.reordered, problems.padded]


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=12)
@given(copies=st.lists(st.sampled_from(COPIES), min_size=1, max_size=3, unique=True))
def test_structure_survives_any_copying(name, copies):
    code = PROBLEMS[name]
    for change in copies:
        code = change(code)
    made, expected = fingerprint(code), fingerprint(PROBLEMS[name])
    for part in ("structure", "sequence", "multiset", "minhash", "subtrees"):
        assert made[part] == expected[part]


def test_sizes_are_seen_where_they_should_be():
    small, large = fingerprint(problems.CONV), fingerprint(problems.resized(problems.CONV))
    assert small["exact"] != large["exact"]
    assert small["sized_minhash"] != large["sized_minhash"]


def test_another_operator_changes_every_part():
    one, other = fingerprint(problems.CONV), fingerprint(problems.CONV.replace("torch.tanh", "torch.sin"))
    for part in ("exact", "structure", "sequence", "multiset", "minhash", "subtrees"):
        assert one[part] != other[part]


def test_the_exact_hash_is_the_tasks_identifier():
    assert fingerprint(problems.GEMM)["exact"] == task_id(problems.GEMM)


def test_it_holds_no_text():
    made = json.dumps(fingerprint(problems.GEMM, ["torch.nn.Linear"]))
    assert not [word for word in ("Linear", "gelu", "logsumexp", "width", "Model") if word.lower() in made.lower()]


@pytest.mark.parametrize(
    ("names", "one"),
    [
        (["torch.nn.LeakyReLU", "torch.nn.functional.leaky_relu", "torch.Tensor.leaky_relu_"], "leakyrelu"),
        (["torch.nn.BatchNorm2d", "torch.nn.functional.batch_norm"], "batchnorm"),
        (["torch.nn.MSELoss", "torch.nn.functional.mse_loss"], "mse"),
        (["torch.bmm", "torch.Tensor.matmul", "torch.mm"], "matmul"),
        (["torch.nn.Flatten", "torch.Tensor.view", "torch.zeros", "torch.nn.Identity"], None),
    ],
)
def test_spellings_of_one_operator(names, one):
    assert {canonical(n) for n in names} == {one}


def test_operators_are_followed_through_the_tasks_own_parts():
    assert called_operators(clean.clean(problems.GEMM)) == ("linear", "gelu", "mul", "mul", "logsumexp")
    seen = called_operators(clean.clean(problems.BLOCKS))
    assert {"layernorm", "linear", "matmul", "div", "tril", "maskedfill", "softmax", "add"} <= set(seen)


def test_modules_and_functions_give_the_same_sequence():
    functional = problems.CONV.replace("self.pool(self.conv(x))", "torch.nn.functional.max_pool2d(self.conv(x), 2)")
    assert fingerprint(functional)["sequence"] == fingerprint(problems.CONV)["sequence"]
    assert fingerprint(functional)["structure"] != fingerprint(problems.CONV)["structure"]


def test_layers_from_a_list_and_from_a_method_are_found():
    made = (
        "layers = []\n        layers.append(nn.Linear(width_in, width_out))\n"
        "        self.project = self.make(layers)\n        self.last = nn.Sequential(*layers)"
    )
    code = problems.GEMM.replace("self.project = nn.Linear(width_in, width_out, bias=False)", made)
    code = code.replace("self.project(x)", "self.last(self.project(x))")
    method = "    def make(self, parts):\n        return nn.Sequential(nn.Tanh(), *[nn.Softplus()])\n\n"
    code = code.replace("    def forward", method + "    def forward")
    assert called_operators(clean.clean(code))[:4] == ("tanh", "softplus", "linear", "gelu")


sets = st.sets(st.text(max_size=6), min_size=1, max_size=60)


@given(sets, sets)
def test_minhash_estimates_the_jaccard_similarity(one, other):
    estimate = float(np.mean(minhash(one) == minhash(other)))
    truth = len(one & other) / len(one | other)
    assert abs(estimate - truth) < 0.2  # more than six standard errors of 256 permutations
    assert (minhash(one) == minhash(sorted(one, reverse=True))).all()


@given(sets, st.integers(1, 256))
def test_a_shorter_signature_is_a_prefix(items, count):
    assert (minhash(items, count) == minhash(items, 256)[:count]).all()


def test_shingles_of_a_short_text_are_the_text():
    assert shingles(["a", "b"]) == {"a b"}
    assert shingles(list("abcdef")) == {"a b c d e", "b c d e f"}


def test_a_fingerprint_leaves_its_input_alone_and_is_made_the_same_again():
    ops = ["torch.nn.ReLU", "torch.Tensor.add"]
    before = copy.deepcopy(ops)
    random.seed(1)
    assert fingerprint(problems.CONV, ops) == fingerprint(problems.CONV, ops)
    assert ops == before


def test_the_scheme_is_the_one_that_is_published():
    # A change means that data/kernelbench/fingerprints.parquet must be made again (see the README beside it).
    assert scheme() == "be41167795e1cf4d"

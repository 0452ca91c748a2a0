"""The comparison of outputs, and the inputs that candidates are tried on."""

import pytest
import torch
from cuda_agent.judge import inputs, layout
from cuda_agent.judge.compare import compare
from hypothesis import given
from hypothesis import strategies as st

X = torch.linspace(-2, 2, 50_000)


def errors(got, eager=X, **kwargs):
    return compare([got], [eager], [eager.double()], scaled=kwargs.get("scaled", False))


def test_equal_outputs_have_no_error():
    found = errors(X.clone())
    assert found["excess"] == found["max_error"] == found["rms_error"] == found["nonfinite"] == 0


@pytest.mark.parametrize(
    "wrong",
    [torch.zeros_like(X), torch.ones_like(X), X * 1.05, X.flip(0), torch.where(torch.arange(len(X)) < 25_000, X, 0)],
    ids=["zeros", "constant", "five per cent", "reversed", "half of it"],
)
def test_null_answers_exceed_the_tolerance(wrong):
    assert errors(wrong)["excess"] > 0.1


def test_nan_matches_nothing():
    found = errors(torch.full_like(X, float("nan")))
    assert found["nonfinite"] == len(X)
    assert found["excess"] == 1


def test_one_wrong_value_among_many_is_seen():
    wrong = X.clone()
    wrong[12_345] += 1
    assert errors(wrong)["excess"] * len(X) == pytest.approx(1)


def test_tiny_outputs_are_held_against_their_own_scale():
    found = errors(torch.zeros_like(X), X * 1e-6)
    assert found["excess"] == 0  # the published tolerance does not see it
    assert found["rms_error"] == pytest.approx(1)


def test_integers_must_be_equal():
    a = torch.arange(100)
    assert compare([a], [a], [a.double()], scaled=False)["mismatched"] == 0
    assert compare([a + 1], [a], [a.double()], scaled=False)["mismatched"] == 1


@pytest.mark.parametrize("name", inputs.DISTRIBUTIONS)
def test_distributions_keep_shape_and_dtype_and_integers(name):
    x = torch.rand(7, 11)
    out = inputs.spread(x, name, 3)
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert torch.equal(inputs.spread(torch.arange(9), name, 3), torch.arange(9))
    assert torch.equal(out, x) == (name == "drawn")


@given(st.integers(0, 2**40))
def test_perturbing_changes_almost_everything_and_keeps_the_sign_of_what_is_nowhere_negative(seed):
    x = torch.rand(64)
    changed = inputs.perturbed(x, seed)
    assert (changed != x).float().mean() > 0.9
    assert (changed >= 0).all()


@given(st.integers(0, 300), st.integers(1, 64), st.integers(0, 2**40))
def test_places_to_poke_are_disjoint_and_inside(n, count, seed):
    to, source = inputs.poke_places(n, count, seed)
    assert len(to) == len(source) <= count
    assert not set(to) & set(source)
    assert all(0 <= p < n for p in to + source)


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64]


@given(st.lists(st.tuples(st.lists(st.integers(0, 4), max_size=3), st.sampled_from(DTYPES)), min_size=1, max_size=4))
def test_tensors_survive_shared_memory(kinds):
    tensors = [torch.ones(shape).to(dtype) * (i + 1) for i, (shape, dtype) in enumerate(kinds)]
    specs = [layout.spec(t) for t in tensors]
    memory = memoryview(bytearray(layout.total(specs)))
    layout.write(memory, tensors)
    for a, b in zip(tensors, layout.views(memory, specs), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def test_arguments_survive_as_json():
    x, y = torch.ones(2), torch.zeros(3)
    tensors: list[torch.Tensor] = []
    given_ = [x, (3, [y, None]), {"a": x, "b": 2.5}]
    tree = layout.flatten(given_, tensors)
    back = layout.unflatten(tree, tensors)
    assert back[0] is x and back[1][1][0] is y and back[2]["b"] == 2.5
    with pytest.raises(TypeError, match="cannot be handed over"):
        layout.flatten([object()], [])

import pytest
import torch
from cuda_agent.tasks.trace import trace
from torch import nn
from torch.nn import functional as F


def module(forward, **parts):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *args):
            return forward(self, *args)

    return Model().eval()


def ops(forward, *inputs, **parts):
    return list(trace(module(forward, **parts), inputs).ops)


X = torch.ones(2, 3, 8, 8)


def test_modules_functions_and_methods_are_named_in_the_order_they_ran():
    parts = {"conv": nn.Conv2d(3, 4, 3), "norm": nn.BatchNorm2d(4)}
    seen = ops(lambda self, x: F.softmax(torch.relu(self.norm(self.conv(x))) + 1, dim=1).flatten(1), X, **parts)
    assert seen == [
        "torch.nn.Conv2d",
        "torch.nn.BatchNorm2d",
        "torch.relu",
        "torch.Tensor.add",
        "torch.nn.functional.softmax",
        "torch.Tensor.flatten",
    ]


def test_a_library_module_counts_once_whatever_it_calls_inside():
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    assert ops(lambda self, x: self.layer(x), torch.ones(2, 3, 8), layer=layer) == ["torch.nn.TransformerEncoderLayer"]


def test_containers_and_the_tasks_own_modules_are_looked_into():
    inner = module(lambda self, x: torch.tanh(x))
    seen = ops(lambda self, x: self.body(x), X, body=nn.Sequential(nn.Conv2d(3, 3, 1), inner, nn.ReLU()))
    assert seen == ["torch.nn.Conv2d", "torch.tanh", "torch.nn.ReLU"]


def test_a_call_twice_is_seen_twice_and_a_module_never_called_is_not_seen():
    seen = ops(lambda self, x: self.act(self.act(x)), X, act=nn.ReLU(), unused=nn.Conv2d(3, 3, 1))
    assert seen == ["torch.nn.ReLU", "torch.nn.ReLU"]


def test_what_computes_nothing_is_left_out():
    parts = {"same": nn.Identity(), "drop": nn.Dropout(0.5)}
    assert ops(lambda self, x: self.drop(self.same(x)) * x.shape[0], X, **parts) == ["torch.Tensor.mul"]


def test_a_parametrized_module_keeps_its_name():
    conv = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3))
    assert ops(lambda self, x: self.conv(x), X, conv=conv) == ["torch.nn.Conv2d"]


@pytest.mark.parametrize(
    ("forward", "name"),
    [
        (lambda self, x: 1 - x, "torch.Tensor.sub"),
        (lambda self, x: 2 / x, "torch.Tensor.div"),
        (lambda self, x: 2**x, "torch.Tensor.pow"),
        (lambda self, x: x @ x, "torch.Tensor.matmul"),
        (lambda self, x: torch.conv2d(x, torch.ones_like(x)), "torch.nn.functional.conv2d"),
        (lambda self, x: torch.einsum("bchw->b", x), "torch.einsum"),
        (lambda self, x: torch.mm(x[0, 0], x[0, 0]), "torch.mm"),
    ],
)
def test_one_name_for_each_spelling(forward, name):
    assert ops(forward, X)[-1] == name


def test_a_scripted_function_does_not_hide_what_it_runs():
    scripted = torch.jit.script(plain_relu)
    assert ops(lambda self, x: scripted(x), X) == ["torch.ops.aten.relu"]


def plain_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def test_aten_operators_are_distinct_and_sorted():
    seen = trace(module(lambda self, x: torch.relu(x + x) + x), [X]).aten_ops
    assert seen == ("aten.add.Tensor", "aten.relu.default")


@pytest.mark.parametrize(
    ("forward", "drew"),
    [
        (lambda self, x: x + torch.rand_like(x), ("aten.rand_like.default",)),
        (lambda self, x: F.dropout(x, 0.5, training=True), ("aten.bernoulli_.float",)),
        (lambda self, x: F.dropout(x, 0.5, training=False) + F.rrelu(x), ()),
        (lambda self, x: F.scaled_dot_product_attention(x, x, x), ()),
    ],
)
def test_random_operators_are_those_that_draw(forward, drew):
    assert trace(module(forward), [X]).random_ops == drew


def test_flops_of_a_matrix_product():
    seen = trace(module(lambda self, x: self.fc(x), fc=nn.Linear(16, 32, bias=False)), [torch.ones(4, 16)])
    assert seen.flops == 2 * 4 * 16 * 32


def test_flops_are_unknown_where_nothing_was_counted():
    assert trace(module(lambda self, x: torch.sigmoid(F.instance_norm(x))), [torch.ones(2, 3, 4, 4)]).flops is None


def test_hooks_are_gone_after_an_error():
    def fail(self, x):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        trace(module(fail), [X])
    assert ops(lambda self, x: self.act(x), X, act=nn.ReLU()) == ["torch.nn.ReLU"]

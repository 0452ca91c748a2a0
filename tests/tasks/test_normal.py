import os
import subprocess
import sys

import problems
import pytest
from cuda_agent.tasks.normal import normal_form, task_id
from cuda_agent.tasks.syntax import dump
from problems import PROBLEMS

SAME = [problems.renamed, problems.reformatted, problems.reordered]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("copy", SAME, ids=lambda f: f.__name__)
def test_copies_that_mean_the_same_have_one_normal_form(name, copy):
    code = PROBLEMS[name]
    assert copy(code) != code
    assert normal_form(copy(code)) == normal_form(code)


@pytest.mark.parametrize("name", PROBLEMS)
def test_copies_of_copies_too(name):
    code = problems.reordered(problems.renamed(problems.reformatted(PROBLEMS[name])))
    assert task_id(code) == task_id(PROBLEMS[name])


def test_dead_code_is_no_difference():
    assert normal_form(problems.padded(problems.GEMM)) == normal_form(problems.GEMM)


@pytest.mark.parametrize("name", PROBLEMS)
def test_other_sizes_are_another_task(name):
    assert task_id(problems.resized(PROBLEMS[name])) != task_id(PROBLEMS[name])


def model(body, init="pass", more=""):
    return (
        f"import torch\nfrom torch import nn\n{more}\nclass Model(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        {init}\n    def forward(self, x, y):\n        {body}\n"
        "def get_inputs():\n    return [torch.rand(4), torch.rand(4)]\ndef get_init_inputs():\n    return []\n"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (model("z = x + y; z = z * x; return z"), model("a = x + y; b = a * x; return b")),
        (model("return torch.sum(x, dim=0, keepdim=True)"), model("return torch.sum(x, keepdim=True, dim=0)")),
        (model("return x * 64"), model("return x * (2 ** 6)")),
        (model("return x * n", more="n = 64"), model("return x * 64")),
        (model("return x * n", more="n, m = 64, 1"), model("return x * 64")),
        (model("unused = torch.exp(x); return x"), model("return x")),
        (model("return x; x = y"), model("return x")),
        (
            model("return self.b(self.a(x))", "self.a = nn.Linear(4, 4); self.b = nn.ReLU()"),
            model("return self.b(self.a(x))", "self.b = nn.ReLU(); self.a = nn.Linear(4, 4)"),
        ),
        (
            model("return self.a(x)", "self.a = nn.ReLU(); self.b = nn.Tanh()"),
            model("return self.a(x)", "self.a = nn.ReLU()"),
        ),
        (model("return nn.functional.relu(x)"), model("return F.relu(x)", more="import torch.nn.functional as F")),
    ],
)
def test_the_same_said_differently(one, other):
    assert normal_form(one) == normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (model("return x - y"), model("return y - x")),
        (model("return torch.relu(x)"), model("return torch.tanh(x)")),
        (model("return torch.sum(x, dim=0)"), model("return torch.sum(x, dim=1)")),
        (model("return x * 1"), model("return x * 1.0")),
        (model("return x * 1"), model("return x * True")),
        (model("x.add_(1); return x"), model("return x")),
        (model("z = x.add_(1); return x"), model("return x")),
        (model("z = x; z += 1; return x"), model("return x")),
        (model("return x.flatten()"), model("return x.flatten()", more="torch.set_default_dtype(torch.float64)")),
        (model("return self.a(x)", "self.a = nn.ReLU()"), model("return self.a(x)", "self.a = nn.Tanh()")),
        (model("return getattr(self, 'a')(x)", "self.a = nn.ReLU()"), model("return getattr(self, 'a')(x)")),
        (
            model("return self.b(self.a(x))", "self.a = nn.Linear(4, 4); self.b = nn.ReLU()"),
            model("return self.a(self.b(x))", "self.a = nn.Linear(4, 4); self.b = nn.ReLU()"),
        ),
        (
            model("x = x + 1\n        if y.sum() > 0:\n            x = x * 2\n        return x"),
            model("z = x + 1\n        if y.sum() > 0:\n            w = z * 2\n        return z"),
        ),
    ],
)
def test_what_differs_stays_different(one, other):
    assert normal_form(one) != normal_form(other)


def test_a_local_name_is_not_taken_for_an_import_or_a_constant():
    shadowed = model("torch = y; n = x; return torch + n", more="n = 3")
    assert normal_form(shadowed) == normal_form(
        model("return y + x").replace("return y + x", "a = y; b = x; return a + b")
    )


def test_what_is_no_python_is_an_error():
    with pytest.raises(SyntaxError):
        normal_form("class Model(:")


def test_identifiers_are_the_same_in_every_process_and_python():
    # Made once; a difference means that task ids of published datasets would change.
    expected = {"gemm": "428a1f439e5fe035", "blocks": "bd957f6f26dde22c", "conv": "b33b214f1363edd7"}
    assert {name: task_id(code) for name, code in PROBLEMS.items()} == expected
    script = "import sys; from cuda_agent.tasks.normal import task_id; print(task_id(sys.stdin.read()))"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", script], input=problems.GEMM, capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == expected["gemm"]


def test_dump_tells_apart_what_only_nesting_tells_apart():
    import ast

    assert dump(ast.parse("f(a)(b)")) != dump(ast.parse("f(a(b))"))
    assert dump(ast.parse("x[1:2]")) != dump(ast.parse("x[1::2]"))
    assert dump(ast.parse("f(None)")) != dump(ast.parse("f()"))

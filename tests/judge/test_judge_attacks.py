"""Ways to be rewarded without doing the work, as published reports describe them; each must fail, for its reason."""

import json
import re
from pathlib import Path

import pytest
from cuda_agent.judge.rules import verdict

HEAD = "import cuda_extension\nimport torch\nfrom torch import nn\n{more}\n"
BODY = """
class ModelNew(nn.Module):
    def __init__(self, features, beta):
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(features))
        self.beta = beta
        self.kept = {{}}
        {init}

    def kernel(self, x, y):
        out = torch.empty_like(x)
        cuda_extension.axpby_forward(out, self.alpha, x, y, self.beta, 0)
        return out

    def forward(self, x, y):
{forward}
"""


def attack(forward, more="", init="pass"):
    lines = "\n".join(f"        {line}" for line in forward.strip("\n").split("\n"))
    return HEAD.format(more=more) + BODY.format(forward=lines, init=init)


# Name -> (text, what the first reason must hold). These return wrong outputs, or break what forward promises.
WRONG = {
    "constant": (attack("return torch.zeros_like(x)"), "off by"),
    "input passed through": (attack("return x.clone()"), "off by"),
    "input itself": (attack("return x"), "off by"),
    "no launch": (attack("return torch.empty_like(x)"), "NaN|off by"),
    "outputs cached by shape": (
        attack("key = tuple(x.shape)\nself.kept.setdefault(key, self.kernel(x, y))\nreturn self.kept[key]"),
        "off by",
    ),
    "weights ignored after the first call": (
        attack("self.kept.setdefault('a', self.alpha.clone())\nout = torch.empty_like(x)\n"
               "cuda_extension.axpby_forward(out, self.kept['a'], x, y, self.beta, 0)\nreturn out"),
        "off by",
    ),
    "half of the rows": (
        attack("out = torch.zeros_like(x)\nn = x.shape[0] // 2\n"
               "cuda_extension.axpby_forward(out[:n], self.alpha, x[:n], y[:n], self.beta, 0)\nreturn out"),
        "off by",
    ),
    "inputs overwritten": (attack("out = self.kernel(x, y)\nx.zero_()\nreturn out"), "input 0 was changed"),
    "inputs as output buffer": (
        attack("cuda_extension.axpby_forward(x, self.alpha, x, y, self.beta, 0)\nreturn x.clone()"),
        "input 0 was changed",
    ),
    "other dtype": (attack("return self.kernel(x, y).double()"), "error .check.: OutputError: .*float64"),
    "other shape": (attack("return self.kernel(x, y)[:1]"), "OutputError"),
    "a list": (attack("return [self.kernel(x, y)]"), "OutputError"),
    "nothing": (attack("return None"), "OutputError"),
    "lazy tensor": (
        attack("return self.kernel(x, y).as_subclass(Lazy)", more="class Lazy(torch.Tensor):\n    pass"),
        "no plain tensor",
    ),
    "tensor with a patched method": (
        attack("out = self.kernel(x, y)\nout.double = lambda: 0\nreturn out"), "no plain tensor"
    ),
    "comparison patched": (
        attack("return torch.zeros_like(x)", more="torch.equal = torch.allclose = lambda *a, **k: True"), "off by"
    ),
    "judge patched": (
        attack("return torch.zeros_like(x)",
               more="import sys\nsys.modules['cuda_agent.judge.candidate']._answer = lambda *a: None"),
        "NaN",
    ),
    "success printed": (attack("print('PASS')\nimport os\nos._exit(0)"), r"exited \(check\)"),
    "exit while loading": (attack("return x", more="import sys\nsys.exit(0)"), r"exited \(load\)"),
    "segmentation fault": (attack("import ctypes\nctypes.string_at(0)"), r"crashed \(check\): SIGSEGV"),
    "too much memory": (attack("self.kept[0] = torch.ones(30 * 2**28)\nreturn x"), r"memory \(check\)"),
    "endless output": (attack("while True:\n    print('x' * 9999)"), r"output \(check\)"),
    "too many processes": (
        attack("import os, time\nfor _ in range(400):\n    if os.fork() == 0:\n        time.sleep(60)\nreturn x"),
        r"(processes|error|timeout) \(check\)",
    ),
    "weights of other shapes": (attack("return x", init="self.alpha = nn.Parameter(torch.empty(3))"), r"load \(load\)"),
    "weights that are not there": (attack("return x", init="del self.alpha"), r"load \(load\)"),
    "text that is no Python": ("class ModelNew(", r"load \(load\)"),
    "no ModelNew": ("x = 1", r"load \(load\)"),
}  # fmt: skip

# These return right outputs, in a way that the rules forbid.
FORBIDDEN = {
    "torch operators": (attack("return self.alpha * x + self.beta * y"), "torch operator aten.mul"),
    "torch methods": (attack("return self.alpha.mul(x).add(y, alpha=self.beta)"), "torch operator aten.mul"),
    "names imported earlier": (
        attack("return f(y.clone(), x, g(torch.empty_like(x).copy_(self.alpha)), value=1.0) if 0 else h(x, self.alpha)"
               ".add_(y, alpha=self.beta)", more="from torch import addcmul as f, diag as g, mul as h"),
        "torch operator aten.mul",
    ),
    "operators behind a decoy kernel": (
        attack("self.kernel(x, y)\nreturn torch.addcmul(self.beta * y, x, self.alpha)"), "right without its kernels"
    ),
    "numpy behind a decoy kernel": (
        attack("self.kernel(x, y)\nout = torch.empty_like(x)\n"
               "out.numpy()[:] = self.alpha.detach().numpy() * x.numpy() + self.beta * y.numpy()\nreturn out"),
        "numpy called in forward",
    ),
    "a fallback that is always taken": (
        attack("try:\n    raise RuntimeError\nexcept RuntimeError:\n    return self.alpha * x + self.beta * y"),
        "torch operator aten.mul",
    ),
    "the reference itself": (
        attack("return self.model(x, y)", more="from model import Model",
               init="self.model = Model(features, beta); self.model.alpha = self.alpha; "
                    "self._modules.pop('model'); object.__setattr__(self, 'model', Model(features, beta)); "
                    "object.__getattribute__(self, 'model').alpha = self.alpha"),
        "import of model",
    ),
    "a thread": (
        attack("t = threading.Thread(target=print)\nt.start()\nreturn self.kernel(x, y)", more="import threading"),
        "import of threading",
    ),
    "the watching ended": (
        attack("sys.setprofile(None)\nreturn self.kernel(x, y)", more="import sys"), "watching of forward was ended"
    ),
    "time patched": (
        attack("return self.kernel(x, y)", more="import time\ntime.perf_counter = lambda: 0.0"), "import of time"
    ),
}  # fmt: skip


def first_run(row, settings):
    return verdict(row | {"task_id": "t", "policy": "attack"}, settings.results)


def test_the_honest_kernel_passes(judged, settings):
    row = judged(attack("return self.kernel(x, y)"))
    found = first_run(row, settings)
    assert found["reasons"] == []
    assert found["compiled"] and found["correct"] and found["compliant"]
    assert found["precision"] == "float32"
    assert found["reward"] in (1, 2, 3)
    times = json.loads(row["times"])
    assert {len(v) for v in times.values()} == {3}
    assert set(times) == {"candidate", "eager", "compile"}
    launched = json.loads(row["launched"])
    assert launched["kernels"] == {"axpby_forward": 1}
    assert set(launched["ops"]) == {"aten.empty_like.default"}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_outputs_and_broken_promises_fail(judged, settings, name):
    text, reason = WRONG[name]
    found = first_run(judged(text, timeout_s=60), settings)
    assert not found["correct"]
    assert found["reward"] == -1
    assert re.search(reason, found["reasons"][0]), found["reasons"]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_ways_to_right_outputs_fail(judged, settings, name):
    text, reason = FORBIDDEN[name]
    row = judged(text)
    found = first_run(row, settings)
    assert not found["compliant"]
    assert found["reward"] == -1
    assert any(reason in r for r in found["reasons"]), found["reasons"]
    assert json.loads(row["times"]) == {}  # nobody waits while it is timed


_FORGING = """
import typing

harness = typing.sys.modules["cuda_agent.judge.candidate"]
harness.{name} = lambda context, **payload: {answer}
"""


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        *(("forward", answer) for answer in ("None", "'abc'", "[1]", "{}", "{'changed': 5}", "{'changed': ['x']}")),
        *(("traced", answer) for answer in ("None", "[1]", "{'ops': 5}", "{'kernels': {'a': 'b'}}", "{'threads': 3}")),
        ("load_weights", "{'loaded': True}"),
    ],
)
def test_an_answer_of_another_form_than_agreed_is_a_failed_submission(judged, settings, name, answer):
    found = first_run(judged(attack("return x", more=_FORGING.format(name=name, answer=answer))), settings)
    assert found["reward"] == -1
    assert f"malformed reply to {name}" in found["reasons"][0], found["reasons"]


def test_a_hang_is_ended(judged, settings):
    found = first_run(judged(attack("while True:\n    pass"), timeout_s=8), settings)
    assert found["reasons"][0].startswith("timeout (check)")


@pytest.mark.parametrize("how", ["open({!r}, 'w')", "__import__('os').unlink({!r})"])
def test_files_outside_stay_as_they_are(judged, settings, tmp_path, how):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    found = first_run(judged(attack(how.format(str(precious)) + "\nreturn self.kernel(x, y)")), settings)
    assert not found["correct"]
    assert precious.read_text() == "kept"


def test_there_is_no_network(judged, settings):
    text = attack("import socket\nsocket.create_connection(('127.0.0.1', 9), 2)\nreturn self.kernel(x, y)")
    assert first_run(judged(text), settings)["reasons"][0].startswith("error (check)")


def test_cheating_once_timed_is_seen(judged, settings):
    """Right for as long as correctness is checked, then a stored answer."""
    text = attack(
        "n = self.kept['n'] = self.kept.get('n', 0) + 1\nif n <= 11:\n    self.kept['o'] = self.kernel(x, y)\n"
        "return self.kept['o']"
    )
    found = first_run(judged(text), settings)
    assert not found["correct"]
    assert found["reasons"][0].startswith("timed output")


def test_low_precision_is_named_and_refused_by_the_strict_rules(judged, settings):
    text = attack("return self.kernel(x.half().float(), y.half().float())")
    row = judged(text)
    assert first_run(row, settings)["precision"] in ("tf32", "half")
    strict = settings.results.model_copy(update={"rules": "strict"})
    assert not verdict(row | {"task_id": "t", "policy": "attack"}, strict)["correct"]


def test_machine_errors_are_tried_again_and_give_no_verdict(pool, settings, monkeypatch):
    from cuda_agent import workspace
    from cuda_agent.judge import judging

    tries = []

    def broken(folder, **_):
        tries.append(Path(folder).exists())
        return workspace.Build("machine", "no compiler", 0.0)

    monkeypatch.setattr(judging.workspace, "build", broken)
    row = judging.judge_one(pool, {"code": ""}, {"model_new.py": "x"}, judging=settings.judging, backend="cpp", seed=1)
    assert row["status"] == "machine"
    assert "no compiler" in row["error"]
    assert tries == [True, True]

"""Generated kernels against eager, all of them in one build; what the policy does with results; reasons to give up."""

import ctypes
import functools
import json
import shutil
import subprocess
import sys
import types

import pytest
import torch
from cuda_agent.agent.policies.codegen import CodegenPolicy
from cuda_agent.agent.policies.codegen.ir import GiveUpError
from cuda_agent.agent.policies.codegen.prelude_cpp import PRELUDE
from cuda_agent.agent.policies.codegen.writer import write
from cuda_agent.tasks.graph import export
from cuda_agent.tasks.load import load_task, outputs_as_list

TEMPLATE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = {module}

    def forward(self, x, y):
        return {forward}

def get_inputs():
    return [torch.randn(6, 12, 10, 16), torch.randn(6, 12, 10, 16) * 3]

def get_init_inputs():
    return []
"""

POINTWISE = {
    "activations": "F.gelu(x) + F.silu(y) * F.mish(x) - F.softplus(x, 2.0, 5.0) + F.hardswish(y) + F.selu(x)",
    "more_activations": "F.gelu(x, approximate='tanh') + F.elu(x, 0.7) + F.celu(y, 1.3) + F.leaky_relu(x, 0.2)",
    "shrinking": "F.softshrink(x) + F.hardshrink(y) * F.tanhshrink(x) + F.softsign(y)",
    "thresholds": "F.logsigmoid(x) + F.threshold(x, 0.1, 2.0) + F.relu6(y)",
    "transcendental": "torch.sin(x) * torch.cos(y) + torch.expm1(x) + torch.log1p(y.abs()) + torch.erf(x)",
    "more_powers": "torch.atan2(x, y) + torch.asinh(y) + y**5",
    "powers": "x**3 + torch.pow(y.abs(), 1.7) + torch.rsqrt(x.abs() + 1) + torch.hypot(x, y)",
    "rounding": "x.round() + torch.floor(y) + x.sign() + torch.clamp(x, -0.3, 0.4) + torch.where(x > y, x, -y)",
    "glu": "F.glu(x, 1)",
}
REDUCING = {
    "softmax_last": "torch.softmax(x * y, -1)",
    "softmax_channels": "F.log_softmax(F.relu(x), 1)",
    "softmax_flat": "x.flatten(1).softmax(-1) * 2",
    "sums": "(x.sum(-1), y.mean((2, 3)), x.amax(1), y.sum((0, 2, 3)), x.sum())",
    "spread": "(x.var(1), y.std((1, 2, 3)), x.norm(dim=-1), torch.logsumexp(y, 1), x.prod(-1))",
    "positions": "(torch.argmax(x, 1), torch.argmin(y, -1))",
    "normalise": "F.normalize(x, dim=1) + y - y.mean()",
    "stages": "torch.softmax(x, 1).amax(2) + torch.softmax(y, -1).sum(-2)",
    "scans": "torch.cumsum(x, 1) + torch.cumsum(y, -1)",
    "pools": "F.max_pool2d(x, 3, 2, 1) + F.avg_pool2d(y, 3, 2, 1)",
    "views": "torch.cat([x.transpose(1, 2).reshape(6, -1), F.pad(y, (1, 2, 0, 1)).flatten(1)], 1)",
    "loss": "F.mse_loss(torch.tanh(x), y)",
    "broadcast": "x[:, :1] * y + torch.flip(x, (2,))",
}
MODULES = {
    "layer_norm": ("nn.LayerNorm(16)", "F.gelu(self.norm(x)) * y"),
    "rms_norm": ("nn.RMSNorm(16)", "self.norm(x + y)"),
    "group_norm": ("nn.GroupNorm(4, 12)", "F.relu(self.norm(x))"),
    "batch_norm": ("nn.BatchNorm2d(12)", "self.norm(x) - y"),
    "instance_norm": ("nn.InstanceNorm2d(12)", "self.norm(x)"),
    "prelu": ("nn.PReLU(12)", "self.norm(x)"),
}
CASES = {n: TEMPLATE.format(module="None", forward=f) for n, f in {**POINTWISE, **REDUCING}.items()}
CASES |= {n: TEMPLATE.format(module=m, forward=f) for n, (m, f) in MODULES.items()}


def exported(code):
    task = load_task(code)
    return json.dumps(export(task.build(0), task.inputs(0)))


_exported_once = functools.cache(exported)


def graph_of(code):
    return json.loads(_exported_once(code))


@pytest.fixture(scope="module", params=[True, False], ids=["fused", "simple"])
def built(request, tmp_path_factory):
    """All cases in one library; name -> text of model_new.py."""
    folder = tmp_path_factory.mktemp("kernels")
    parts, models = [PRELUDE], {}
    for name, code in CASES.items():
        files = write(graph_of(code), code, "cpp", name=f"k_{name}", fuse=request.param)
        parts.append(f"namespace of_{name} {{\n{files[f'kernels/k_{name}.cpp'].removeprefix(PRELUDE)}}}\n")
        models[name] = files["model_new.py"]
    (folder / "all.cpp").write_text("".join(parts))
    library = folder / "all.so"
    subprocess.run(
        [
            "g++",
            "-O1",
            "-std=c++17",
            "-fPIC",
            "-fopenmp",
            "-shared",
            "-Wall",
            str(folder / "all.cpp"),
            "-o",
            str(library),
        ],
        check=True,
    )
    loaded = ctypes.CDLL(str(library))
    extension = types.ModuleType("cuda_extension")
    for name in CASES:
        launcher = getattr(loaded, f"k_{name}_launcher")
        setattr(
            extension,
            f"k_{name}",
            lambda *tensors, launcher=launcher: launcher(*(ctypes.c_void_p(t.data_ptr()) for t in tensors), None),
        )
    return models, extension


@pytest.mark.parametrize("name", CASES)
def test_generated_kernels_agree_with_float64(built, name, monkeypatch):
    models, extension = built
    monkeypatch.setitem(sys.modules, "cuda_extension", extension)
    reference, new = load_task(CASES[name]), load_task(models[name], "ModelNew")
    model, inputs = reference.build(0), reference.inputs(7)
    candidate = new.module.ModelNew().eval()
    candidate.load_state_dict(model.state_dict())
    with torch.no_grad():
        got = outputs_as_list(candidate(*inputs))
        expected = outputs_as_list(model.double()(*(x.double() for x in inputs)))
    assert len(got) == len(expected)
    for a, b in zip(expected, got, strict=True):
        assert b.dtype == (torch.float32 if a.is_floating_point() else a.dtype)
        torch.testing.assert_close(b.to(a.dtype), a, rtol=1e-4, atol=1e-4)


def test_forward_runs_no_torch_operator_but_creation():
    code = CASES["layer_norm"]
    text = write(graph_of(code), code, "cpp")["model_new.py"]
    forward = text[text.index("def forward") :]
    assert "torch." in forward and "F." not in forward and "self.norm(" not in forward
    assert "get_inputs" not in text and "import torch.nn.functional" not in text


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("x @ y.transpose(-1, -2)", "bmm"),
        ("torch.sort(x)[0]", "sort"),
        ("x", "returns its input"),
        ("x.double() + y", "float64"),
    ],
)
def test_gives_up_with_the_reason(forward, reason):
    code = TEMPLATE.format(module="None", forward=forward)
    with pytest.raises(GiveUpError, match=reason):
        write(graph_of(code), code, "cpp")


def test_graph_is_the_same_each_time():
    code = CASES["group_norm"]
    assert exported(code) == exported(code)
    names = {e["target"] for e in graph_of(code)["inputs"] if e["kind"] == "parameter"}
    assert names == {"norm.weight", "norm.bias"}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_cuda_sources_compile(tmp_path):
    from cuda_agent.agent.policies.codegen.prelude_cuda import PRELUDE as CUDA

    parts = [CUDA]
    for name in ("softmax_last", "softmax_channels", "group_norm", "scans", "loss", "pools"):
        text = write(graph_of(CASES[name]), CASES[name], "cuda", name=f"k_{name}")[f"kernels/k_{name}.cu"]
        parts.append(f"namespace of_{name} {{\n{text.removeprefix(CUDA)}}}\n")
    (tmp_path / "all.cu").write_text("".join(parts))
    subprocess.run(
        ["nvcc", "-O1", "-std=c++17", "-arch=sm_90", "-cubin", "all.cu", "-o", "all.cubin"], cwd=tmp_path, check=True
    )


def converse(code, answers):
    """Messages of a rollout whose tools answer what ``answers`` says for the first words of a command."""
    policy, messages = CodegenPolicy(), [{"role": "user", "content": "go"}]
    while len(messages) < 60:
        completion = policy.step(messages, [])
        messages.append(completion.message)
        calls = completion.message.get("tool_calls")
        if not calls:
            return completion, messages
        for call in calls:
            command = json.loads(call["function"]["arguments"]).get("command", "")
            answer = next((a for words, a in answers.items() if command.startswith(words)), "done")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
    raise AssertionError("the policy does not end")


def answers_for(code, **over):
    answers = {
        "cat BACKEND": "cpp",
        "cat model.py": code,
        "python3 -m cuda_agent.tasks.graph": json.dumps(graph_of(code), separators=(",", ":")),
        "bash utils/compile.sh": "compiled build/libcuda_extension.so",
        "python3 -m utils.verification": "verified on 5 sets of inputs (cpu)",
    }
    return answers | over


def test_policy_finishes_and_repeats_itself():
    code = CASES["layer_norm"]
    completion, messages = converse(code, answers_for(code))
    assert not completion.gave_up
    assert messages == converse(code, answers_for(code))[1]


def test_policy_tries_simpler_kernels_once_then_gives_up():
    code = CASES["layer_norm"]
    completion, messages = converse(
        code, answers_for(code, **{"python3 -m utils.verification": "WRONG: output differs"})
    )
    assert completion.gave_up and "output differs" in completion.message["content"]
    texts = [json.dumps(m) for m in messages if m["role"] == "assistant"]
    assert sum("_binding.cpp" in t for t in texts) == 2


def test_policy_says_why_a_graph_could_not_be_exported():
    code = CASES["layer_norm"]
    completion, _ = converse(
        code, answers_for(code, **{"python3 -m cuda_agent.tasks.graph": "torch.export failed: no"})
    )
    assert completion.gave_up and "torch.export failed" in completion.message["content"]

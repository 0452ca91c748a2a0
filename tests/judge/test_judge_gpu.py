"""The judge on a GPU: an honest kernel, and ways to cheat that only a GPU has. Run with ``pytest -m gpu``."""

import json
import shutil
from pathlib import Path

import pytest
from cuda_agent import params, workspace
from cuda_agent.judge import judging
from cuda_agent.judge.rules import verdict
from cuda_agent.sandbox import Pool

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        shutil.which("nvidia-smi") is None or shutil.which("nvcc") is None, reason="needs a GPU and nvcc"
    ),
]

ROOT = Path(__file__).resolve().parents[2]
TASK = (workspace.TEMPLATE / "model.py").read_text().replace("512, 4096", "8192, 4096")
FILES = {
    name: (workspace.TEMPLATE / name).read_text()
    for name in ("model_new.py", "kernels/axpby.cu", "kernels/axpby_binding.cpp")
}


@pytest.fixture(scope="module")
def settings():
    over = {"judging": {"device": "cuda"}, "rollouts": {"backend": "cuda"}, "sandbox": {"memory_mb": 32000}}
    return params.load(ROOT, "laptop", over)


@pytest.fixture(scope="module")
def gpu_pool(settings):
    with Pool("cuda", settings.sandbox) as pool:
        yield pool


@pytest.fixture(scope="module")
def judge(gpu_pool, settings):
    def judge(**files):
        submitted = FILES | {name.replace("__", "/").replace("_cu", ".cu"): text for name, text in files.items()}
        if "model_new" in files:
            submitted["model_new.py"] = submitted.pop("model_new")
        row = judging.judge_one(gpu_pool, {"code": TASK}, submitted, judging=settings.judging, backend="cuda", seed=7)
        return row, verdict(row | {"task_id": "t", "policy": "gpu"}, settings.results)

    return judge


def test_an_honest_kernel_passes_and_is_timed(judge):
    row, found = judge()
    print(json.dumps(found, indent=1), row["launched"], row["times"], row["wall_s"], row["build_s"])
    assert row["status"] == "ok", row["error"]
    assert found["reasons"] == []
    assert found["precision"] == "float32"
    assert found["reward"] >= 1
    assert "axpby_kernel" in " ".join(json.loads(row["launched"])["device_kernels"])


def test_torch_operators_are_seen(judge):
    text = FILES["model_new.py"].replace("return out", "return out + 0.0")
    _, found = judge(model_new=text)
    assert any("torch operator aten.add" in r for r in found["reasons"])


def test_a_stream_of_its_own_is_found_in_the_library(judge):
    kernel = FILES["kernels/axpby.cu"].replace(
        "  axpby_kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>",
        "  static cudaStream_t own = nullptr;\n  if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);\n"
        "  axpby_kernel<<<blocks, threads, 0, own>>>",
    )
    _, found = judge(kernels__axpby_cu=kernel)
    assert any("cudaStreamCreate" in r for r in found["reasons"])


def test_a_launch_that_fails_leaves_no_stale_answer(judge):
    kernel = FILES["kernels/axpby.cu"].replace("<<<blocks, threads, 0,", "<<<blocks, 4096, 0,")
    _, found = judge(kernels__axpby_cu=kernel)
    assert not found["correct"]


def test_a_fault_on_the_device_is_the_candidates(judge):
    kernel = FILES["kernels/axpby.cu"].replace("out[i] = ", "out[i + (1ll << 40)] = ")
    row, found = judge(kernels__axpby_cu=kernel)
    assert row["status"] in ("error", "crashed")
    assert found["reward"] == -1


def test_half_precision_is_named(judge):
    text = FILES["model_new.py"].replace("self.alpha, x, y,", "self.alpha, x.half().float(), y,")
    row, found = judge(model_new=text)
    assert row["status"] == "ok", row["error"]
    assert found["precision"] in ("tf32", "half")

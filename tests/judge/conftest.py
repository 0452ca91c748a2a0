"""One pool, and one build of the honest kernel, for all tests of the judge."""

import shutil
from pathlib import Path

import pytest
from cuda_agent import params, workspace
from cuda_agent.judge import judging
from cuda_agent.sandbox import Limits, Pool

ROOT = Path(__file__).resolve().parents[2]
BINDING = (workspace.TEMPLATE / "kernels" / "axpby_binding.cpp").read_text()
KERNEL = (workspace.TEMPLATE / "kernels" / "axpby.cpp").read_text()
MODEL_NEW = (workspace.TEMPLATE / "model_new.py").read_text()
TASK = (workspace.TEMPLATE / "model.py").read_text().replace("512, 4096", "64, 256").replace("[4096,", "[256,")
HONEST = {"model_new.py": MODEL_NEW, "kernels/axpby.cpp": KERNEL, "kernels/axpby_binding.cpp": BINDING}


@pytest.fixture(scope="session")
def settings():
    """Parameters of the default run, with little of everything."""
    judging = {"correctness_trials": 2, "timing_pairs": 3, "min_sample_ms": 1, "timeout_s": 120}
    sandbox = {"memory_mb": 1500, "output_kb": 4}
    return params.load(ROOT, "laptop", {"judging": judging, "sandbox": sandbox})


@pytest.fixture(scope="session")
def pool(settings):
    with Pool("cpu", settings.sandbox) as pool:
        yield pool


@pytest.fixture(scope="session")
def library(settings, tmp_path_factory):
    """The honest kernel's library."""
    folder = tmp_path_factory.mktemp("honest") / "work"
    workspace.restore(folder, TASK, "cpp", HONEST)
    built = workspace.build(folder, backend="cpp", limits=Limits.of(settings.sandbox, 300), sandbox=settings.sandbox)
    assert built.ok, built.log
    return built.library


@pytest.fixture
def prebuilt(library, monkeypatch):
    """Every build gives the honest kernel's library at once."""

    def build(folder, **_):
        (folder / "build").mkdir()
        return workspace.Build("ok", "", 0.0, Path(shutil.copy(library, folder / "build")))

    monkeypatch.setattr(judging.workspace, "build", build)


@pytest.fixture
def judged(settings, pool, prebuilt):
    """Judge a submission whose kernels are the honest ones, without building them each time."""

    def judge(model_new, task=TASK, **changes):
        files = HONEST | {"model_new.py": model_new}
        how = settings.judging.model_copy(update=changes)
        return judging.judge_one(pool, {"code": task}, files, judging=how, backend="cpp", seed=7)

    return judge

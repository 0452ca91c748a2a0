"""Every candidate becomes one row, whatever it does, and the others are not affected."""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from cuda_agent import params, records
from cuda_agent.journal import Journal
from cuda_agent.observation import observe
from cuda_agent.sandbox import Pool

TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        {forward}

def get_inputs():
    return [torch.rand(2, 8)]

def get_init_inputs():
    return []

{extra}
"""


def task(forward="return torch.relu(self.linear(x))", extra=""):
    return TASK.format(forward=forward, extra=extra)


HOSTILE = {
    "segfault": (task("import ctypes; ctypes.string_at(0)"), "crashed", "eager"),
    "allocate": (task("return torch.empty(30 * 2**30, dtype=torch.int8)"), "memory", "eager"),
    "fork_bomb": (
        task(extra="import os, signal\nwhile os.fork(): pass\nsignal.pause()"),
        "processes",
        "load",
    ),
    "output": (task(extra="while True: print('x' * 4096)"), "output", "load"),
    "exit": (task(extra="import os\nprint('PASS')\nos._exit(0)"), "exited", "load"),
    "network": (task("import socket; socket.create_connection(('1.1.1.1', 53), 2)"), "error", "eager"),
    "syntax": ("def", "error", "load"),
    "no_model": ("import torch", "error", "load"),
    "wrong_build": (task(extra="get_init_inputs = lambda: [1]"), "error", "build"),
    "no_output": (task("return 3"), "error", "eager"),
}


@pytest.fixture(scope="module")
def sections():
    parsed = params.load(Path(__file__).parents[2])
    observation = parsed.observation.model_copy(update={"timeout_s": 30.0, "torch_threads": 1, "repeats": 3})
    return observation, parsed.sandbox.model_copy(update={"memory_mb": 2000, "output_kb": 16})


@pytest.fixture(scope="module")
def keep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keep")
    (folder / "file").write_text("kept")
    return folder


def candidates(keep):
    codes = {name: code for name, (code, _, _) in HOSTILE.items()}
    codes["good"] = task()
    codes["delete"] = task(extra=f"import os\nos.remove({str(keep / 'file')!r})")
    codes["random"] = task("return torch.nn.functional.dropout(self.linear(x))")
    codes["constant"] = task("return torch.zeros(3)")
    codes["null"] = task(extra="import cuda_agent.observation.probe as probe\nprobe._size = lambda tensors: None")
    codes["nan"] = task("return torch.log(-1 - x)")
    codes["in_place"] = task("return x.add_(1)")
    codes["uncompilable"] = task("\n        return x.reshape(7 if torch.compiler.is_compiling() else -1) + 1")
    return [{"candidate_id": name, "code": code} for name, code in sorted(codes.items())]


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    return Journal(tmp_path_factory.mktemp("journal"))


@pytest.fixture(scope="module")
def pool(sections):
    """One pool for all, as starting one takes seconds."""
    with Pool("cpu", sections[1], workers=2) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[observe.__module__], "Pool", lambda *_: contextlib.nullcontext(pool))
        yield


@pytest.fixture(scope="module")
def rows(sections, keep, journal, pool):
    observation, sandbox = sections
    said = []
    asked = candidates(keep)
    found = observe(
        asked,
        observation,
        sandbox,
        seed=1,
        workers=2,
        journal=journal,
        progress=lambda message, resumed=False: said.append(message),
    )
    assert len(said) == len(asked)
    return {row["candidate_id"]: row for row in found}


@pytest.mark.parametrize("name", HOSTILE)
def test_how_it_ended(rows, name):
    _, status, stage = HOSTILE[name]
    row = rows[name]
    assert (row["status"], row["stage"]) == (status, stage), row["error"]
    assert row["error"]
    assert row["eager_ms"] is None


def test_a_hang_is_ended(sections, tmp_path, pool):
    observation, sandbox = sections
    brief = observation.model_copy(update={"timeout_s": 8.0})
    asked = [{"candidate_id": "hang", "code": task("\n        while True: pass")}]
    quiet = {"journal": Journal(tmp_path), "progress": lambda *_, **__: None}
    (row,) = observe(asked, brief, sandbox, seed=1, workers=2, **quiet)
    assert (row["status"], row["stage"], row["eager_ms"]) == ("timeout", "eager", None), row["error"]


def test_files_of_others_are_safe(rows, keep):
    assert rows["delete"]["status"] == "error"
    assert (keep / "file").read_text() == "kept"


def test_a_good_candidate(rows):
    row = rows["good"]
    assert (row["status"], row["error"], row["compile_error"]) == ("ok", "", "")
    assert row["ops"] == ["torch.nn.Linear", "torch.relu"]
    assert row["random_ops"] == []
    assert json.loads(row["inputs"]) == [{"dtype": "float32", "shape": [2, 8]}]
    assert json.loads(row["outputs"]) == [{"dtype": "float32", "shape": [2, 4]}]
    assert row["parameters"] == 36
    assert row["flops"] == 2 * 2 * 8 * 4
    assert row["bytes"] == 4 * (16 + 36 + 8)
    assert row["nonfinite"] == 0
    assert row["repeat_difference"] == 0
    assert row["input_difference"] > 1e-3
    assert 0 <= row["eager_error"] < 1e-5
    assert 0 <= row["compile_error_value"] < 1e-5
    assert row["compile_difference"] < 1e-3
    assert row["eager_ms"] > 0
    assert row["compile_ms"] > 0
    assert row["peak_mb"] > 0


def test_what_filters_look_for_is_seen(rows):
    assert rows["random"]["random_ops"]
    assert rows["random"]["repeat_difference"] > 0
    assert rows["constant"]["output_std"] == 0
    assert rows["constant"]["input_difference"] == 0
    assert rows["nan"]["nonfinite"] == 2 * 2 * 8
    assert rows["in_place"]["repeat_difference"] == 0
    assert all(rows[name]["status"] == "ok" for name in ("random", "constant", "nan", "in_place"))


def test_operations_of_which_none_were_counted_are_unknown_and_no_other_count_may_be(rows):
    for name in ("constant", "uncompilable"):
        assert (rows[name]["status"], rows[name]["error"], rows[name]["flops"]) == ("ok", "", None)
    assert (rows["null"]["status"], rows["null"]["error"]) == ("error", "malformed reply: bytes is NoneType")


def test_a_failed_compilation_is_no_failed_run(rows):
    row = rows["uncompilable"]
    assert row["status"] == "ok"
    assert "reshape" in row["compile_error"]
    assert row["eager_ms"] > 0
    assert row["compile_ms"] is None


def test_rows_fit_the_schema(rows, tmp_path):
    records.write(tmp_path / "observations.parquet", rows.values(), records.OBSERVATIONS)
    assert len(records.read(tmp_path / "observations.parquet", records.OBSERVATIONS)) == len(rows)


def test_a_second_job_finds_them_in_the_journal(rows, sections, keep, journal):
    observation, sandbox = sections
    resumed = []
    again = observe(
        candidates(keep),
        observation,
        sandbox,
        seed=1,
        workers=1,
        journal=journal,
        progress=lambda message, resumed_=resumed, resumed=False: resumed_.append(resumed),
    )
    assert resumed == [True] * len(rows)
    assert {row["candidate_id"]: row for row in again} == rows

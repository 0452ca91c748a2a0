import argparse
import copy
import json
import random
from pathlib import Path

import pytest
from cuda_agent import decontamination, records
from cuda_agent.decontamination import kernelbench
from cuda_agent.decontamination.decontaminate import split_of
from cuda_agent.params import Decontamination
from cuda_agent.tasks.fingerprint import scheme
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "data/kernelbench/fingerprints.parquet"

# Written for this test in the form of the benchmark.
PROBLEM = '''
import torch
import torch.nn as nn


class Model(nn.Module):
    """Convolution, hard-tanh, a learned offset and a maximum over the channels."""

    def __init__(self, channels_in, channels_out, kernel_size):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size)
        self.offset = nn.Parameter(torch.randn(channels_out, 1, 1))

    def forward(self, x):
        x = self.conv(x)
        x = torch.nn.functional.hardtanh(x)
        x = x + self.offset
        return torch.max(x, dim=1, keepdim=True).values


batch = 16
channels_in = 8


def get_inputs():
    return [torch.rand(batch, channels_in, 64, 64)]


def get_init_inputs():
    return [channels_in, 24, 3]
'''
RENAMED = (
    PROBLEM.replace("channels_in", "cin").replace("kernel_size", "k").replace("conv", "first").replace("first", "c1")
)
RENAMED = RENAMED.replace("nn.C1", "nn.Conv").replace("self.offset", "self.beta").replace("batch", "n")
RESIZED = PROBLEM.replace("24, 3", "96, 5").replace("64, 64", "224, 200").replace("batch = 16", "batch = 7")
REFORMATTED = """
from torch import nn
import torch
import torch.nn.functional as F
def get_init_inputs(): return [8, 24, 3]
def get_inputs(): return [torch.rand(16, 8, 64, 64)]
class Model(nn.Module):
  def __init__(self, a: int, b: int, c: int) -> None:
    super().__init__()
    self.offset = nn.Parameter(torch.randn(b, 1, 1))
    self.conv = nn.Conv2d(a, b, c)
  def forward(self, x: torch.Tensor) -> torch.Tensor:
    y = self.conv(x)  # first
    y = F.hardtanh(y)
    y = y + self.offset
    return torch.max(y, dim=1, keepdim=True).values
"""
RESPELLED = REFORMATTED.replace("    y = F.hardtanh(y)\n", "").replace("self.conv(x)", "nn.Hardtanh()(self.conv(x))")
OTHER = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.act = nn.SiLU()

    def forward(self, x, y):
        return torch.cumsum(self.act(self.norm(x)) * y, dim=-1)


def get_inputs():
    return [torch.rand(64, 512), torch.rand(64, 512)]


def get_init_inputs():
    return [512]
"""
THIRD = OTHER.replace("SiLU", "Softplus").replace("torch.cumsum", "torch.logcumsumexp")
LIMITS = Decontamination(max_similarity=0.9, kernelbench=SHIPPED, minhash_permutations=128, test_share=0.3)


def row(number, code, ops=("torch.ops.unknown",)):
    empty = dict.fromkeys(records.FILTERED.names)
    known = {"candidate_id": f"c{number:05d}", "code": code, "ops": list(ops), "spdx": ["BSD-3-Clause"]}
    return empty | known | {"data_source": "torch#2", "composer": "stack", "aten_ops": []}


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    """A checkout with the self-written problem in it."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "KernelBench/level2").mkdir(parents=True)
    (folder / "KernelBench/level2/7_Conv2d_Hardtanh_Add_Max.py").write_text(PROBLEM)
    return folder


@pytest.fixture(scope="module")
def fingerprints(benchmark):
    return decontamination.fingerprint_kernelbench(benchmark, "v9")


@pytest.fixture(scope="module")
def shipped():
    return records.read(SHIPPED, records.FINGERPRINTS)


def apply(codes, fingerprints, limits=LIMITS):
    return decontamination.decontaminate([row(i, c) for i, c in enumerate(codes)], fingerprints, limits, seed=1)


@pytest.mark.parametrize(
    "code",
    [PROBLEM, RENAMED, RESIZED, REFORMATTED, RESPELLED],
    ids=["copy", "renamed", "resized", "reformatted", "respelled"],
)
def test_a_copy_of_a_problem_is_caught_and_named(code, fingerprints):
    tasks, rejected = apply([code], fingerprints)
    assert tasks == []
    assert rejected[0]["rule"] == "kernelbench"
    measured = json.loads(rejected[0]["measured"])
    assert measured == {"nearest_problem": "v9/level2/7_Conv2d_Hardtanh_Add_Max", "similarity": 1.0}
    assert json.loads(rejected[0]["limits"]) == {"max_similarity": 0.9}


@pytest.mark.parametrize("term", ["x + " * 2000 + "x", "x" + ".neg()" * 400])
def test_what_is_nested_too_deeply_is_dropped_alone(term, fingerprints):
    tasks, rejected = apply([OTHER.replace("return ", f"return {term} + ", 1), OTHER], fingerprints)
    assert [t["candidate_id"] for t in tasks] == ["c00001"]
    assert [(r["candidate_id"], r["rule"]) for r in rejected] == [("c00000", "unreadable")]


def test_what_the_task_was_seen_to_run_counts_too(fingerprints):
    hidden = OTHER.replace("torch.cumsum", "getattr(torch, 'cumsum')")
    ops = ["torch.nn.Conv2d", "torch.nn.functional.hardtanh", "torch.Tensor.add", "torch.Tensor.max"]
    _, rejected = decontamination.decontaminate([row(0, hidden, ops)], fingerprints, LIMITS, seed=1)
    assert [r["rule"] for r in rejected] == ["kernelbench"]


def test_an_unrelated_task_stays_with_its_nearest_problem(fingerprints, tmp_path):
    tasks, rejected = apply([OTHER], fingerprints)
    assert rejected == []
    assert tasks[0]["nearest_problem"] == "v9/level2/7_Conv2d_Hardtanh_Add_Max"
    assert 0 < tasks[0]["nearest_similarity"] < 0.6
    records.write(tmp_path / "tasks.parquet", tasks, records.TASKS)


def test_the_limit_is_a_parameter(fingerprints):
    strict = LIMITS.model_copy(update={"max_similarity": 0.05})
    assert [r["rule"] for r in apply([OTHER], fingerprints, strict)[1]] == ["kernelbench"]
    assert apply([PROBLEM], fingerprints, LIMITS.model_copy(update={"max_similarity": 1.0}))[1] == []


def test_repeats_are_dropped_and_the_lowest_id_stays(shipped):
    copies = [OTHER, THIRD, OTHER.replace("features", "width"), OTHER.replace("        super", "\n        super")]
    tasks, rejected = apply(copies, shipped)
    assert [t["candidate_id"] for t in tasks] == ["c00000", "c00001"]
    assert [(r["rule"], json.loads(r["measured"])["repeats"]) for r in rejected] == [("duplicate", "c00000")] * 2


def test_near_repeats_are_dropped_but_not_other_sizes_or_operators(shipped):
    long = OTHER.replace("* y,", "* y * torch.sin(x) * torch.cos(y) * torch.erf(x + y) - torch.atan(y * x),")
    near = long.replace("        self.act = nn.SiLU()", "        self.act = nn.SiLU(inplace=False)")
    sizes = long.replace("512", "300")
    operator = long.replace("torch.sin", "torch.sinc")
    tasks, rejected = apply([long, near, sizes, operator], shipped)
    assert [t["candidate_id"] for t in tasks] == ["c00000", "c00002", "c00003"]
    measured = json.loads(rejected[0]["measured"])
    assert measured["repeats"] == "c00000"
    assert 0.9 < measured["similarity"] < 1


CODES = [OTHER, THIRD, OTHER.replace("512", "256"), PROBLEM, RESIZED, RENAMED]


@settings(max_examples=15)
@given(st.lists(st.sampled_from(CODES), max_size=8), st.randoms(use_true_random=False))
def test_every_row_ends_in_one_place_whatever_the_order(fingerprints, drawn, shuffle: random.Random):
    rows = [row(i, code) for i, code in enumerate(drawn)]
    before = copy.deepcopy(rows)
    tasks, rejected = decontamination.decontaminate(rows, fingerprints, LIMITS, seed=1)
    assert rows == before
    assert sorted(r["candidate_id"] for r in (*tasks, *rejected)) == [r["candidate_id"] for r in rows]
    assert len({t["task_id"] for t in tasks}) == len(tasks)
    shuffle.shuffle(rows)
    assert decontamination.decontaminate(rows, fingerprints, LIMITS, seed=1) == (tasks, rejected)


def test_sizes_do_not_cross_the_split(shipped):
    codes = [OTHER.replace("512", str(size)) for size in range(100, 106)]
    for seed in range(5):
        tasks, _ = decontamination.decontaminate([row(i, c) for i, c in enumerate(codes)], shipped, LIMITS, seed)
        assert len(tasks) == len(codes)
        assert len({t["split"] for t in tasks}) == 1


def test_the_split_follows_the_seed_and_its_share():
    structures = [f"{i:016x}" for i in range(4000)]
    first = [split_of(s, 1, 0.3) for s in structures]
    assert first == [split_of(s, 1, 0.3) for s in structures]
    assert first != [split_of(s, 2, 0.3) for s in structures]
    assert 0.27 < first.count("test") / len(first) < 0.33
    assert {split_of(s, 1, 0.0) for s in structures} == {"train"}
    assert {split_of(s, 1, 1.0) for s in structures} == {"test"}


def test_fingerprints_of_another_version_are_refused(fingerprints):
    old = [r | {"scheme": "0"} for r in fingerprints]
    with pytest.raises(decontamination.DecontaminationError, match="make them again: cuda-agent fingerprint"):
        apply([OTHER], old)
    with pytest.raises(decontamination.DecontaminationError, match="no fingerprints"):
        apply([OTHER], [])


def test_the_command_adds_and_replaces_revisions(benchmark, tmp_path, capsys):
    parser = argparse.ArgumentParser()
    kernelbench.add_arguments(parser)
    out = tmp_path / "f.parquet"
    for revision in ("v0", "v1", "v0"):
        assert kernelbench.run(parser.parse_args([str(benchmark), "--revision", revision, "--out", str(out)])) == 0
    names = [r["name"] for r in records.read(out, records.FINGERPRINTS)]
    assert names == [f"{v}/level2/7_Conv2d_Hardtanh_Add_Max" for v in ("v0", "v1")]
    assert "1 problems of v0, 1 of other revisions" in capsys.readouterr().out


def test_a_folder_without_problems_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="is this a checkout of KernelBench"):
        decontamination.fingerprint_kernelbench(tmp_path, "v0")


def test_the_shipped_fingerprints_are_complete_current_and_hold_no_text(shipped):
    assert SHIPPED.stat().st_size < 6_000_000
    assert {r["scheme"] for r in shipped} == {scheme()}
    for revision in ("v0", "v0.1", "423217d"):
        counts = [sum(r["name"].startswith(f"{revision}/level{n}/") for r in shipped) for n in (1, 2, 3, 4)]
        assert counts == [100, 100, 50, 20]
    for column in ("exact", "structure", "sequence", "multiset"):
        assert all(len(r[column]) in (0, 16) and not r[column].strip("0123456789abcdef") for r in shipped)


def test_no_problem_of_the_benchmark_is_free_of_operators(shipped):
    assert all(r["sequence"] for r in shipped if "/level4/" not in r["name"])

"""Answers without tools, judged for real on the processor."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from cuda_agent import params, provenance
from cuda_agent.agent.policies.codegen.writer import write
from cuda_agent.errors import UserError
from cuda_agent.export import reward
from cuda_agent.export.answer import dumps_answer
from cuda_agent.sandbox import MachineError
from cuda_agent.tasks.graph import export
from cuda_agent.tasks.load import load_task

ROOT = Path(__file__).resolve().parents[2]
TASK = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return []
"""
ABOUT = {"run": "laptop", "backend": "cpp", "task_id": "t", "bytes": 131072}
LITTLE = {"correctness_trials": 2, "timing_pairs": 3, "min_sample_ms": 1, "timeout_s": 120}


@pytest.fixture(scope="module")
def answer():
    """One that the rule-based writer gives, without a model."""
    task = load_task(TASK)
    graph = export(task.build(0), task.inputs(0))
    return f"Fused.\n\n{dumps_answer(write(graph, TASK, 'cpp'))}"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A repository whose runs measure little."""
    shutil.copytree(ROOT / "workflow" / "runs", tmp_path / "workflow" / "runs")
    text = yaml.safe_dump(params.merge(params.read_yaml(ROOT / "params.yaml"), {"judging": LITTLE}))
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def kept():
    return {}


@pytest.fixture(autouse=True)
def judged_once(kept, monkeypatch):
    """The same answer to the same task is judged once; judging it takes many seconds."""
    judge_one = reward.judge_one

    def judge(pool, task, files, **how):
        key = json.dumps([task, files])
        if key not in kept:
            kept[key] = judge_one(pool, task, files, **how)
        return dict(kept[key])

    monkeypatch.setattr(reward, "judge_one", judge)


def score(answer, **about):
    return reward.compute_score("cuda-agent", answer, TASK, ABOUT | about, reward_router_address=None)


def test_a_right_answer_earns_a_reward_and_says_what_was_found(answer):
    found = score(answer)
    assert found["score"] in (1.0, 2.0, 3.0), found
    assert (found["compiled"], found["correct"], found["compliant"], found["reason"]) == (True, True, True, "")
    assert found["speedup_eager"] > 0 and found["speedup_compile"] > 0
    assert found["task_id"] == "t"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda answer: "I cannot.", "no code block under the path"),
        (lambda answer: answer[: len(answer) // 2], "not closed"),
        (lambda answer: answer.replace("`model_new.py`", "`kernels/model_new.h`"), "there is no model_new.py"),
        (lambda answer: answer + "kernels/a.h\n```\n```\nkernels/a.h/b.h\n```\n```\n", "cannot be a file beside"),
        (lambda answer: answer + f"kernels/{'a' * 300}.h\n```\n```\n", "cannot be a file beside"),
        (lambda answer: answer + "kernels/a.h\n```\n// \ud800\n```\n", "is no text in UTF-8"),
        (lambda answer: answer.replace('extern "C"', "nonsense"), "error"),
    ],
    ids=["no answer", "cut", "no model", "file and folder", "long name", "no text", "no C++"],
)
def test_rubbish_earns_the_least(answer, change, reason):
    found = score(change(answer))
    assert found["score"] == -1.0
    assert not found["correct"] and not found["compliant"] and reason in found["reason"]
    assert (found["speedup_eager"], found["speedup_compile"]) == (0.0, 0.0)  # verl takes means of numbers


def test_a_fault_of_the_machine_is_no_score(answer, monkeypatch):
    spoiled = {"status": "machine", "stage": "", "error": "no room"}
    monkeypatch.setattr(reward, "judge_one", lambda *_, **__: spoiled)
    with pytest.raises(MachineError, match="could not judge an answer to task t: no room"):
        score(answer)


def test_parameters_are_those_of_the_run_that_the_row_names(answer):
    with pytest.raises(params.ParamsError, match=r"no workflow/runs/nosuch\.yaml"):
        score(answer, run="nosuch")


def test_a_backend_that_there_is_not_is_named(answer):
    with pytest.raises(UserError, match=r"extra_info\.backend: got 'rust'; allowed: cpp or cuda"):
        score(answer, backend="rust")


def test_trl_gets_one_number_for_each_completion(answer):
    completions = [[{"role": "assistant", "content": answer}], "I cannot."]
    columns = {"reward_model": [{"style": "rule", "ground_truth": TASK}] * 2, "extra_info": [ABOUT] * 2}
    right, wrong = reward.trl_reward(prompts=["p"] * 2, completions=completions, completion_ids=[[1]] * 2, **columns)
    assert right >= 1.0 and wrong == -1.0


def test_a_process_that_was_forked_from_one_that_judged_is_told_so(monkeypatch):
    """torch's threads do not survive a fork: it would hang, and hold the device while it does."""
    monkeypatch.setattr(reward, "_pools", {(os.getpid() + 1, "laptop", "cpu"): None})
    with pytest.raises(MachineError, match=r"forked from one that has judged.* spawn"):
        reward.compute_score("cuda-agent", "I cannot.", "", {"run": "laptop"})


def test_another_folder_with_parameters_of_its_own_is_not_the_repository(monkeypatch, tmp_path):
    (tmp_path / "params.yaml").write_text("x: 1")
    monkeypatch.chdir(tmp_path)
    assert (provenance.repository() / "workflow" / "runs" / "laptop.yaml").is_file()

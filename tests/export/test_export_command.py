import argparse

import pytest
from cuda_agent import export, records
from cuda_agent.errors import UserError
from cuda_agent.export import command
from test_export import TASKS, trajectory


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records.write("data/laptop/tasks.parquet", TASKS, records.TASKS)
    records.write_jsonl("data/laptop/codegen/trajectories.jsonl.zst", [trajectory("a"), trajectory("b")])
    empty = dict.fromkeys(records.VERDICTS.names) | {"policy": "codegen"}
    verdicts = [empty | {"task_id": "a", "reward": 3}, empty | {"task_id": "b", "reward": -1}]
    records.write("results/laptop/verdicts.parquet", verdicts, records.VERDICTS)
    return tmp_path


def call(*argv):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(argv))


@pytest.mark.parametrize(("split", "ids"), [("train", ["0" * 16, "0" * 15 + "1"]), ("test", ["0" * 15 + "2"])])
def test_verl_writes_one_split(project, split, ids):
    assert call("verl", "--run", "laptop", "--split", split, "--out", "out.parquet") == 0
    rows = records.read("out.parquet", export.VERL)
    assert [r["task_id"] for r in export.from_verl(rows)] == ids


def test_sft_writes_what_earned_its_reward(project):
    assert call("sft", "--run", "laptop", "--policy", "codegen", "--out", "out.jsonl") == 0
    (example,) = export.loads_sft((project / "out.jsonl").read_text())
    assert example["messages"][1]["content"] == "ü a"


@pytest.mark.parametrize("kind", [("verl",), ("sft", "--policy", "codegen")])
def test_a_folder_is_no_file_to_write(project, kind):
    with pytest.raises(IsADirectoryError, match=r"name a file in it: '\.'"):
        call(*kind, "--run", "laptop", "--out", ".")


def test_sft_asks_for_the_policy(project):
    with pytest.raises(UserError, match="--policy is missing"):
        call("sft", "--run", "laptop", "--out", "out.jsonl")

import json
import shutil
from pathlib import Path

import pytest
from cuda_agent import cli, export, records
from cuda_agent.export.verl import VERL, from_verl
from test_export import TASKS, trajectory

ROOT = Path(__file__).resolve().parents[2]
A, B, TEST = (task["task_id"] for task in TASKS)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A run with two tasks for training and one for testing, all rolled out; two earned their reward."""
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(ROOT / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(ROOT / "workflow" / "runs", tmp_path / "workflow" / "runs")
    records.write("data/laptop/tasks.parquet", TASKS, records.TASKS)
    records.write("data/h200/tasks.parquet", TASKS[:1], records.TASKS)
    records.write_jsonl("data/laptop/codegen/trajectories.jsonl.zst", [trajectory(i) for i in (A, B, TEST)])
    records.write_jsonl("data/laptop/other/trajectories.jsonl.zst", [trajectory("gone", "other")])
    empty = dict.fromkeys(records.VERDICTS.names) | {"policy": "codegen"}
    verdicts = [empty | {"task_id": i, "reward": reward} for i, reward in ((A, 2), (B, -1), (TEST, 3))]
    records.write("results/laptop/verdicts.parquet", verdicts, records.VERDICTS)
    return tmp_path


@pytest.fixture
def call(project, capsys):
    """Exit status, and what was said on the standard error."""

    def call(line):
        try:
            status = cli.main(["export", *line.split()])
        except SystemExit as end:  # of argparse
            status = end.code
        return status, capsys.readouterr().err

    return call


def sft():
    return list(export.loads_sft(Path("out").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("split", "ids"), [("train", [A, B]), ("test", [TEST])])
def test_verl_writes_one_split(call, split, ids):
    assert call(f"verl --split {split} --out out") == (0, "")
    rows = records.read("out", VERL)
    assert [r["task_id"] for r in from_verl(rows)] == ids
    assert {(r["extra_info"]["run"], r["extra_info"]["backend"]) for r in rows} == {("laptop", "cpp")}


def test_verl_asks_for_kernels_of_the_runs_backend(call):
    assert call("verl --run h200 --out out") == (0, "")
    (row,) = records.read("out", VERL)
    assert row["extra_info"]["backend"] == "cuda"
    assert "The backend is `cuda`" in row["prompt"][1]["content"]


@pytest.mark.parametrize(("split", "task", "reward"), [("train", A, 2), ("test", TEST, 3)])
def test_sft_writes_what_earned_its_reward_in_one_split(call, split, task, reward):
    assert call(f"sft --policy codegen --split {split} --out out") == (0, "")
    (example,) = sft()
    about = {"task_id": task, "policy": "codegen", "reward": reward, "split": split}
    assert {k: example[k] for k in about} == about
    assert example["messages"][1]["content"] == f"ü {task}"


def test_sft_trains_on_train_unless_told_otherwise(call):
    assert call("sft --policy codegen --min-reward -1 --out out") == (0, "")
    assert [e["task_id"] for e in sft()] == [A, B]


def test_openai_gets_the_keys_that_it_knows(call):
    assert call("sft --policy codegen --for openai --out out") == (0, "")
    assert [sorted(json.loads(line)) for line in Path("out").read_text(encoding="utf-8").splitlines()] == [
        ["messages", "tools"]
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sft --policy codegen --min-reward 3", "3 trajectories, 2 of them on tasks of the split train; their best "),
        ("sft --policy codegen --min-reward 3", "best reward is 2, and --min-reward is 3"),
        ("sft --policy other", "1 of its tasks, first 'gone', are not among the 3 of the run's tasks.parquet"),
        ("sft", "--policy is missing: whose trajectories? data/laptop has those of codegen, other"),
        ("verl --run h200 --split test", "none of its 1 tasks is of the split test"),
        ("verl --policy codegen", "unrecognized arguments: --policy codegen"),
        ("verl --min-reward 2", "unrecognized arguments: --min-reward 2"),
        ("sft --policy codegen --run nosuch", "there is no workflow/runs/nosuch.yaml; known runs: ['h200', 'laptop']"),
    ],
)
def test_what_has_no_row_or_does_not_apply_is_refused(call, line, said):
    status, err = call(f"{line} --out out")
    assert status == 2 and said in err
    assert not Path("out").exists()


@pytest.mark.parametrize("kind", ["verl", "sft --policy codegen"])
def test_a_folder_is_no_file_to_write(call, kind):
    status, err = call(f"{kind} --out .")
    assert status == 2 and "is a folder; name a file in it" in err

import json
import re

import datasets
import mlcroissant
import pandas as pd
import pytest
import yaml
from cuda_agent import decontamination, export, filtering, records, workspace
from cuda_agent.export.answer import loads_answer
from cuda_agent.export.verl import VERL, from_verl, prompt, to_verl
from cuda_agent.params import Decontamination, Filtering

FILTERING = Filtering(time_window_ms=(0.5, 50), agreement=0.01, repeat_rtol=0, indistinguishable_rtol=1e-4)
DECONTAMINATION = Decontamination(max_similarity=0.9, kernelbench="x.parquet", minhash_permutations=64, test_share=0.5)


def task(i):
    return {
        "ops": ["torch.nn.ReLU", f"torch.op{i}"],
        "data_source": f"torch#{1 + i % 2}",
        "code": f'class Model:\n    """Ünïcode | {i}"""\n',
        "task_id": f"{i:016x}",
        "split": "test" if i == 2 else "train",
        "candidate_id": f"c{i:05d}",
        "composer": "stack",
        "spdx": ["BSD-3-Clause"],
        "nearest_problem": "v0/level1/19_ReLU",
        "nearest_similarity": 0.25 * i,
        "inputs": '[{"dtype": "float32", "shape": [2, 3]}]',
        "outputs": '[{"dtype": "float32", "shape": [2, 3]}]',
        "aten_ops": ["aten.relu.default"],
        "parameters": 0,
        "flops": None,
        "bytes": 48,
        "output_scale": 1.0,
        "eager_ms": 1.5 + i,
        "eager_ms_iqr": 0.1,
        "compile_ms": None,
        "peak_mb": 1.0,
        "device": "cpu",
        "device_name": "A processor",
        "versions": '{"python": "3.11", "torch": "2.13"}',
    }


def dropped(i, rule):
    return {
        "candidate_id": f"c{i:05d}",
        "rule": rule,
        "detail": "because",
        "measured": "{}",
        "limits": '{"limit": 1}',
        "data_source": "torch#1",
        "code": "pass",
    }


TASKS = [task(i) for i in range(3)]
REJECTIONS = [dropped(10, "finite"), dropped(11, "time_window"), dropped(12, "time_window")]
CONTAMINATED = [dropped(13, "kernelbench")]


LIMITS = filtering.limits(FILTERING) | decontamination.limits(DECONTAMINATION)


def make_card(tasks=TASKS, rejections=REJECTIONS, contaminated=CONTAMINATED):
    return export.card(tasks, rejections, contaminated, "laptop", DECONTAMINATION, limits=LIMITS)


def front_matter(card):
    return yaml.safe_load(card.split("---\n")[1])


@pytest.fixture
def folder(tmp_path):
    records.write(tmp_path / "tasks.parquet", TASKS, records.TASKS)
    records.write(tmp_path / "rejections.parquet", REJECTIONS, records.REJECTIONS)
    records.write(tmp_path / "contaminated.parquet", CONTAMINATED, records.REJECTIONS)
    (tmp_path / "README.md").write_text(make_card())
    files = {p.name: p.read_bytes() for p in tmp_path.glob("*.parquet")}
    records.write_json(tmp_path / "croissant.json", export.croissant(TASKS, "laptop", files))
    return tmp_path


def test_the_folder_loads_with_datasets_and_the_counts_of_the_card_are_true(folder, tmp_path):
    cache = str(tmp_path / "cache")
    loaded = datasets.load_dataset(str(folder), cache_dir=cache)
    assert loaded["tasks"]["code"][:] == [t["code"] for t in TASKS]
    assert list(loaded["tasks"].features)[:3] == ["ops", "data_source", "code"]
    parts = datasets.load_dataset(str(folder), "dropped", cache_dir=cache)
    assert {k: len(v) for k, v in parts.items()} == {"filtering": 3, "decontamination": 1}


def test_a_wrong_count_in_the_card_is_noticed_when_loading(folder, tmp_path):
    text = (folder / "README.md").read_text().replace("num_examples: 3", "num_examples: 4", 1)
    (folder / "README.md").write_text(text)
    with pytest.raises(datasets.exceptions.NonMatchingSplitsSizesError):
        datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))


def test_features_of_the_card_are_those_of_the_files(folder):
    info = {c["config_name"]: c for c in front_matter(make_card())["dataset_info"]}
    for config, schema in (("tasks", records.TASKS), ("dropped", records.REJECTIONS)):
        assert info[config]["features"] == datasets.Features.from_arrow_schema(schema)._to_yaml_list()


def test_pandas_reads_it(folder):
    frame = pd.read_parquet(folder / "tasks.parquet")
    assert frame["eager_ms"].tolist() == [1.5, 2.5, 3.5]
    assert frame["ops"][0].tolist() == TASKS[0]["ops"]


def test_the_funnel_of_the_card_starts_at_all_candidates_and_ends_at_the_tasks():
    section = make_card().split("## From candidates to tasks")[1].split("\n## ")[0]
    row = re.compile(r"\| \w+ \| (\d+) \| (\d+) \| (\d+) \| ")
    steps = [[int(n) for n in m.groups()] for m in map(row.match, section.splitlines()) if m]
    assert steps[0][0] == 7
    assert steps[-1][2] == len(TASKS)
    assert sum(dropped for _, dropped, _ in steps) == len(REJECTIONS) + len(CONTAMINATED)


def test_the_card_names_the_limits_of_every_rule_whether_it_dropped_anything_or_not():
    table = make_card([], [], []).split("| limits |\n")[1].split("\n\n")[0].splitlines()[1:]
    cells = {line.split(" ")[1]: line.removesuffix(" |").split(" | ")[-1] for line in table}
    assert list(cells) == [*filtering.RULES, "unreadable", "duplicate", "kernelbench"]
    assert {name for name, cell in cells.items() if cell == "–"} == {n for n, values in LIMITS.items() if not values}
    assert cells["time_window"] == "time_window_ms [0.5, 50.0]"
    assert cells["not_constant"] == cells["distinguishable"] == "indistinguishable_rtol 0.0001"
    assert cells["duplicate"] == cells["kernelbench"] == "max_similarity 0.9"


def test_the_card_names_columns_licences_and_hardware():
    card = make_card()
    for field in (*records.TASKS, *records.REJECTIONS):
        assert f"| {field.name} | {field.type} | {field.metadata[b'doc'].decode()} |" in card
    assert front_matter(card)["license"] == ["apache-2.0", "bsd-3-clause"]
    assert "| cpu | A processor | python 3.11, torch 2.13 | 3 |" in card


@pytest.mark.parametrize(("count", "band"), [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (6000, "1K<n<10K")])
def test_size_band(count, band):
    card = make_card([task(0)] * count, [], [])
    assert front_matter(card)["size_categories"] == [band]


def test_the_order_of_rows_changes_nothing():
    assert make_card(TASKS[::-1], REJECTIONS[::-1]) == make_card()


def test_croissant_is_valid_and_its_records_are_the_rows(folder):
    dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert not dataset.metadata.issues.errors
    assert not dataset.metadata.issues.warnings
    rows = list(dataset.records("tasks"))
    assert [r["tasks/code"].decode() for r in rows] == [t["code"] for t in TASKS]
    assert [r["tasks/eager_ms"] for r in rows] == [t["eager_ms"] for t in TASKS]


def test_croissant_notices_a_changed_file(folder):
    records.write(folder / "tasks.parquet", TASKS[:2], records.TASKS)
    dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    with pytest.raises(Exception, match="Download"):
        list(dataset.records("tasks"))


def test_croissant_refuses_files_it_has_no_schema_for():
    with pytest.raises(ValueError, match=r"other\.parquet"):
        export.croissant(TASKS, "laptop", {"other.parquet": b""})


def test_verl_round_trip(tmp_path):
    rows = to_verl(TASKS[::-1], "laptop", "cpp")
    records.write(tmp_path / "verl.parquet", rows, VERL, sort_by=())
    again = from_verl(records.read(tmp_path / "verl.parquet", VERL))
    assert again == [{k: t[k] for k in ("split", "task_id", "ops", "data_source", "bytes", "code")} for t in TASKS]


def test_verl_has_the_columns_that_trainers_read(tmp_path):
    records.write(tmp_path / "verl.parquet", to_verl(TASKS, "laptop", "cpp"), VERL, sort_by=())
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "verl.parquet"), cache_dir=str(tmp_path / "cache")
    )["train"]
    row = loaded[1]
    assert [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert TASKS[1]["code"].rstrip() in row["prompt"][1]["content"]
    assert row["reward_model"] == {"style": "rule", "ground_truth": TASKS[1]["code"]}
    assert row["extra_info"]["index"] == 1
    assert (row["extra_info"]["run"], row["extra_info"]["backend"]) == ("laptop", "cpp")


@pytest.mark.parametrize(
    ("backend", "own", "other"), [("cpp", "axpby.cpp", "axpby.cu"), ("cuda", "axpby.cu", "axpby.cpp")]
)
def test_a_prompt_says_the_backend_and_shows_an_answer_that_can_be_read_back(backend, own, other):
    text = prompt(TASKS[1], backend)[1]["content"]
    assert f"The backend is `{backend}`" in text
    assert "REGISTER_BINDING(name_forward, name_forward)" in text and "finished on the current stream" in text
    example = text[text.index("## The form of your answer") : text.index("## The task")]
    files = loads_answer(example)
    assert list(files) == [f"kernels/{own}", "kernels/axpby_binding.cpp", "model_new.py"]
    assert files["model_new.py"] == (workspace.TEMPLATE / "model_new.py").read_text(encoding="utf-8")
    assert other not in example


CALL = {"id": "1", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}
TOOLS = [{"type": "function", "function": {"name": "Bash", "parameters": {"type": "object"}}}]


def trajectory(task_id, policy="codegen"):
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": f"ü {task_id}"},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hidden"},
        {"role": "tool", "tool_call_id": "1", "content": "model.py\u2028"},
        {"role": "assistant", "content": "Done."},
    ]
    return {"task_id": task_id, "policy": policy, "messages": messages, "tools": TOOLS}


def verdict(task_id, reward, policy="codegen"):
    return {"task_id": task_id, "policy": policy, "reward": reward}


SPLITS = {"a": "train", "b": "train", "c": "train", "d": "train", "e": "test"}


def test_sft_keeps_what_earned_the_reward_in_the_order_of_ids():
    trajectories = [trajectory("b"), trajectory("a"), trajectory("c"), trajectory("d")]
    verdicts = [verdict("a", 1), verdict("b", 3), verdict("c", -1), verdict("d", 3, "other")]
    examples = export.to_sft(trajectories, verdicts, SPLITS)
    assert [e["messages"][1]["content"] for e in examples] == ["ü a", "ü b"]
    about = {"task_id": "b", "policy": "codegen", "reward": 3, "split": "train"}
    assert {k: examples[1][k] for k in about} == about
    assert len(export.to_sft(trajectories, verdicts, SPLITS, min_reward=2)) == 1


def test_sft_leaves_out_the_other_split_and_what_is_in_none():
    trajectories = [trajectory("a"), trajectory("e"), trajectory("nowhere")]
    verdicts = [verdict("a", 3), verdict("e", 3), verdict("nowhere", 3)]
    for split, ids in (("train", ["a"]), ("test", ["e"])):
        assert [e["task_id"] for e in export.to_sft(trajectories, verdicts, SPLITS, split)] == ids


def test_sft_round_trip(tmp_path):
    examples = export.to_sft([trajectory("a"), trajectory("b")], [verdict("a", 1), verdict("b", 1)], SPLITS)
    text = export.dumps_sft(examples)
    assert list(export.loads_sft(text)) == examples
    assert text.count("\n") == 2
    (tmp_path / "sft.jsonl").write_text(text)
    loaded = datasets.load_dataset("json", data_files=str(tmp_path / "sft.jsonl"), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"][0]["messages"][2]["tool_calls"][0]["function"]["name"] == "Bash"
    assert json.loads(loaded["train"][0]["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}


def test_sft_refuses_arguments_that_are_not_text():
    broken = trajectory("a")
    broken["messages"][2]["tool_calls"] = [{"id": "9", "function": {"name": "Bash", "arguments": {"command": "ls"}}}]
    with pytest.raises(records.RecordError, match="tool call 9"):
        export.to_sft([broken], [verdict("a", 1)], SPLITS)

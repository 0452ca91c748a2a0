"""What docs/training.md shows works as it is shown."""

import re
import shlex

from cuda_agent import cli
from cuda_agent.export import reward
from test_export_command import ROOT, project, sft  # noqa: F401

TEXT = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def test_the_commands_write_what_the_python_code_reads(project, monkeypatch):  # noqa: F811
    monkeypatch.setenv("HF_HOME", str(project / "cache"))
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("cuda-agent ")]
    for line in commands:
        assert cli.main(shlex.split(line)[1:]) == 0
    monkeypatch.setattr(reward, "compute_score", lambda *about: {"score": len(about), "reason": ""})
    names = {}
    for block in blocks("python"):
        exec(block, names)
    assert names["found"]["score"] == 4
    assert set(names["train"].column_names) == set(keys("column"))


def keys(head, nth=0):
    """What the first cells of a table name."""
    rows = TEXT.split(f"| {head} |")[nth + 1].split("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_the_keys_of_examples_and_rewards_are_all_named(project, monkeypatch):  # noqa: F811
    assert cli.main(["export", "sft", "--policy", "codegen", "--out", "out"]) == 0
    assert set(sft()[0]) == set(keys("key"))
    row = {
        "status": "no_submission",
        "stage": "submission",
        "error": "",
        "checks": "[]",
        "launched": "{}",
        "times": "{}",
    }
    monkeypatch.setattr(reward, "judge_one", lambda *_, **__: row)
    monkeypatch.setattr(reward, "_pool", lambda *_: None)
    assert set(reward.compute_score("", "", "", {})) == set(keys("key", 1))

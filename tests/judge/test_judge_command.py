"""What ``cuda-agent judge`` prints."""

import contextlib
import json
import os
import types
from pathlib import Path

import pytest
from cuda_agent import cli, workspace
from cuda_agent.judge import command, rules
from cuda_agent.tasks.fingerprint import fingerprint
from test_judge_verdicts import GOOD, RESULTS, judgement


def printed(row):
    row |= {"isolation": "landlock"}
    return command.in_words(row, rules.verdict(row, RESULTS), RESULTS.confidence).splitlines()


def test_a_failed_build_shows_the_source_line_and_not_the_rest_of_the_log():
    error = "kernels/k.cpp:8:4: error: expected ‘;’\n    8 |   (void)stream;\n\nthe whole log"
    lines = printed(judgement([], status="build", stage="build", error=error))
    assert lines[:2] == ["built      NO", "loaded     -"]
    at = lines.index("  - build (build): kernels/k.cpp:8:4: error: expected ‘;’")
    assert lines[at + 1] == "        8 |   (void)stream;"
    assert not any("whole log" in line for line in lines)


def test_what_does_not_load_was_built_all_the_same():
    for status in ("load", "crashed"):
        lines = printed(judgement([], status=status, stage="load", error="TypeError: missing 'beta'\nand where"))
        assert lines[:2] == ["built      yes", "loaded     NO"]
    assert printed(judgement())[:2] == ["built      yes", "loaded     yes"]


def test_a_speed_up_says_that_it_is_a_median_of_paired_ratios():
    drifting = {"candidate": [1.0, 2.0, 10.0], "eager": [3.0, 2.2, 11.0], "compile": [1.0, 2.0, 10.0]}
    lines = printed(judgement([GOOD], times=drifting))
    (eager,) = (line for line in lines if line.startswith("eager"))
    assert "speed-up 1.10, the median of 3 paired ratios (95 % interval" in eager


TASK = (workspace.TEMPLATE / "model.py").read_text(encoding="utf-8")
RUN_ID = fingerprint(TASK)["exact"]  # what decontamination makes the task_id of a run's tasks


@pytest.mark.parametrize("code", [TASK, f"# a remark\n{TASK}"], ids=["as is", "remark"])
def test_json_names_the_task_as_its_run_does_and_not_as_its_folder(tmp_path, monkeypatch, capsys, code):
    workspace.create(tmp_path / "mine", code, "cpp")
    pool = types.SimpleNamespace(check_gpu=lambda: None, isolation="landlock")
    monkeypatch.setattr(command, "Pool", lambda *_: contextlib.nullcontext(pool))
    monkeypatch.setattr(command.machine, "check_device", lambda *_, **__: None)
    monkeypatch.setattr(command, "judge_one", lambda *_, **__: judgement())
    cli.main(["judge", str(tmp_path / "mine"), "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["judgement"]["task_id"] == shown["verdict"]["task_id"] == RUN_ID
    assert shown["workspace"] == str(tmp_path / "mine")


@pytest.fixture
def warm(monkeypatch, pool, prebuilt):
    """The tests' own pool and build for the command, which would otherwise make its own."""
    monkeypatch.setattr(command, "Pool", lambda *_: contextlib.nullcontext(pool))


@pytest.mark.parametrize("other", [Path.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_a_model_new_that_is_no_file_is_a_verdict(tmp_path, capsys, other, warm):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    (folder / "model_new.py").unlink()
    other(folder / "model_new.py")
    assert cli.main(["judge", str(folder)]) == command.NOT_CORRECT
    assert "no_submission (submission): there is no model_new.py that is a regular file" in capsys.readouterr().out


BROKEN = {
    "def (": "is no Python: invalid syntax (line 1)",
    "x = " + "-" * 100_000 + "1": "is no Python: nested too deeply",
    "": "is no task: it defines no Model and no get_inputs and no get_init_inputs",
    TASK.replace("def get_inputs", "def inputs"): "is no task: it defines no get_inputs",
    TASK.replace("class Model(nn.Module):", "import no_such_module\n\n\nclass Model(nn.Module):"): (
        "the task fails by itself: ModuleNotFoundError: No module named 'no_such_module' (line 7)"
    ),
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_task_is_blamed_and_not_the_machine(tmp_path, capsys, code, warm):
    workspace.create(tmp_path / "w", code, "cpp")
    assert cli.main(["judge", str(tmp_path / "w")]) == cli.USER
    printed = capsys.readouterr()
    assert f"{tmp_path}/w/model.py: {BROKEN[code]}" in printed.err
    assert "mend it, or lay it out anew" in printed.err
    assert "Traceback" not in printed.err and "machine" not in printed.err

"""The command line: whatever a user can mend is told in words, with exit status 2 and no traceback."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_agent import cli, machine, records, workspace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with parameters and a workspace, and no artefact."""
    shutil.copyfile(ROOT / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(ROOT / "workflow" / "runs", tmp_path / "workflow" / "runs")
    shutil.copyfile(ROOT / "workflow" / "runs" / "laptop.yaml", tmp_path / "workflow" / "runs" / "broken.yaml")
    records.write(tmp_path / "data" / "h200" / "tasks.parquet", [], records.TASKS)
    (tmp_path / "data" / "broken" / "p").mkdir(parents=True)
    (tmp_path / "results" / "broken").mkdir(parents=True)
    for name in ("data/{}/tasks.parquet", "results/{}/verdicts.parquet", "data/{}/p/trajectories.jsonl.zst"):
        (tmp_path / name.format("broken")).write_text("no parquet")
    (tmp_path / "task.py").write_text("x = 1\n")
    (tmp_path / "README.md").write_text("# Nothing\n")
    workspace.create(tmp_path / "w", "", "cpp")
    workspace.create(tmp_path / "odd", "", "cpp")
    (tmp_path / "odd" / "BACKEND").write_text("rust")
    problem = tmp_path / "kb" / "KernelBench" / "level1" / "1.py"
    problem.parent.mkdir(parents=True)
    problem.write_text("def (")
    (tmp_path / "deep.py").write_text("x = " + "-" * 100_000 + "1")
    (tmp_path / "deep" / "KernelBench" / "level1").mkdir(parents=True)
    shutil.copyfile(tmp_path / "deep.py", tmp_path / "deep" / "KernelBench" / "level1" / "1.py")
    (tmp_path / "latin.py").write_bytes("# größer".encode("latin-1"))
    for name in ("model.py", "BACKEND"):
        workspace.create(tmp_path / f"latin-{name}", "", "cpp")
        shutil.copyfile(tmp_path / "latin.py", tmp_path / f"latin-{name}" / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "_has_gpu", lambda: False)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("judge nosuch", "nosuch: no workspace"),
        ("judge w --run nosuch", "there is no workflow/runs/nosuch.yaml; known runs: ['broken', 'h200', 'laptop']"),
        ("judge w --backend cuda", "laid out for the backend cpp"),
        ("judge odd", "odd/BACKEND: got 'rust'; allowed: cpp or cuda"),
        ("judge latin-BACKEND", "latin-BACKEND/BACKEND: is no text in UTF-8"),
        ("judge latin-model.py", "latin-model.py/model.py: is no text in UTF-8"),
        ("pin nosuch", "nosuch.yaml"),
        ("pin laptop", "make them with `snakemake"),
        (
            "workspace abc new",
            "data/laptop/tasks.parquet: not there; make it with `snakemake --cores all",
        ),
        ("workspace abc new --run nosuch", "there is no workflow/runs/nosuch.yaml"),
        ("workspace kb new", "kb: is a folder; name a file with Model"),
        ("workspace task.py new", "task.py: is no task: it defines no Model"),
        ("workspace deep.py new", "deep.py: is no Python: nested too deeply"),
        ("workspace latin.py new", "latin.py: is no text in UTF-8"),
        ("workspace task.py w", "w: there already"),
        ("export verl --out o", "data/laptop/tasks.parquet: not there; make it with"),
        ("export verl --run broken --out o", "data/broken/tasks.parquet: damaged"),
        ("export sft --run h200 --out o", "--policy is missing: whose trajectories? data/h200 has those of nobody yet"),
        ("export sft --run h200 --policy codegen --out o", "data/h200/codegen/trajectories.jsonl.zst: not there"),
        ("fingerprint-kernelbench nosuch --revision v --out o", "is this a checkout of KernelBench?"),
        ("fingerprint-kernelbench kb --revision v --out o", "1.py: is no Python"),
        ("fingerprint-kernelbench kb --revision v/1 --out o", "--revision: got 'v/1'; allowed: letters"),
        ("fingerprint-kernelbench deep --revision v --out o", "1.py: is no Python: nested too deeply"),
        ("dvc-yaml", "is not the repository"),
        ("readme", "README.md: has no line"),
        ("readme --check", "git has no commit to compare"),
        ("readme --root nosuch", "nosuch/README.md: No such file or directory"),
        ("pull", "dvc.lock has no finished run"),
        ("pull nosuch", "there is no workflow/runs/nosuch.yaml"),
        *(
            (f"{command} --root nosuch", "nosuch/workflow/runs: holds no run; name the repository's folder")
            for command in ("pull", "pull laptop", "pin laptop", "record laptop")
        ),
    ],
)
def test_what_a_user_can_mend_is_told_on_stderr(project, capsys, command, said):
    assert cli.main(command.split()) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.startswith(f"cuda-agent {command.split()[0]}: ")
    assert printed.out == "" and "Traceback" not in printed.err


def test_a_gpu_that_is_not_there_is_told_before_anything_is_built(project, capsys):
    workspace.create(project / "gpu", "", "cuda")
    assert cli.main(["judge", "gpu"]) == 2
    assert "there is no NVIDIA GPU here" in capsys.readouterr().err
    assert not (project / "gpu" / "build").exists()


def test_names_that_are_no_text_are_shown_whatever_the_locale(project):
    odd = os.fsdecode(b"KernelBench/level1/\xff.py")
    (project / "odd-kb" / odd).parent.mkdir(parents=True)
    (project / "odd-kb" / odd).write_text("class Model: pass\n", encoding="utf-8")
    told = {
        ("odd-kb", "o"): (2, "\\udcff.py: the name is no text, and rows are named by it"),
        ("good-kb", os.fsdecode(b"\xff.parquet")): (0, "\\udcff.parquet: 1 problems"),
    }
    (project / "good-kb" / "KernelBench" / "level1").mkdir(parents=True)
    (project / "good-kb" / "KernelBench" / "level1" / "1.py").write_text("class Model: pass\n", encoding="utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"}
    path = {"PYTHONPATH": str(ROOT / "workflow")}
    for (folder, out), (status, said) in told.items():
        argv = [
            sys.executable,
            "-m",
            "cuda_agent.cli",
            "fingerprint-kernelbench",
            folder,
            "--revision",
            "v",
            "--out",
            out,
        ]
        done = subprocess.run(argv, env=os.environ | locale | path, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == status and "Traceback" not in done.stderr
        assert said in done.stdout + done.stderr


def test_a_fault_of_the_program_keeps_its_traceback(project, monkeypatch):
    monkeypatch.setattr("cuda_agent.pinning.pin", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["pin", "laptop"])

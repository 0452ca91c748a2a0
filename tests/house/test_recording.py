"""What DVC is told of a run, with the real DVC."""

import subprocess

import pytest
from cuda_agent import made, recording


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose dvc.yaml has stages for the run `known`, and a file for the run `new`, both finished."""
    (tmp_path / "dvc.yaml").write_text(
        "stages:\n  make:\n    foreach: [known]\n    do:\n      cmd: echo ${item} > ${item}.txt\n"
        "      outs: ['${item}.txt']\n"
    )
    (tmp_path / "workflow/runs").mkdir(parents=True)
    for run in ("known", "new"):
        (tmp_path / f"workflow/runs/{run}.yaml").write_text("{}\n")
    (tmp_path / "known.txt").write_text("known\n")
    for command in (("git", "init", "-q"), ("dvc", "init", "-q")):
        subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.setattr(recording, "_finished", lambda *_: True)
    monkeypatch.setattr(made, "unknown", lambda *_: "")
    return tmp_path


def test_a_run_without_stages_is_refused_and_no_other_run_is_recorded(repository):
    with pytest.raises(recording.RecordingError, match="no stages for the run new: `make format`"):
        recording.commit(repository, "new")
    assert not (repository / "dvc.lock").exists()
    recording.commit(repository, "known")
    assert "make@known" in (repository / "dvc.lock").read_text()


def test_a_broken_dvc_yaml_is_not_taken_for_one_without_stages(repository):
    (repository / "dvc.yaml").write_text("stages: [\n")
    with pytest.raises(recording.RecordingError, match="dvc stage list failed"):
        recording.commit(repository, "known")


def test_a_file_that_no_job_wrote_is_refused_whatever_snakemake_was_told(repository):
    path = repository / "results/known/tables/results.csv"
    path.parent.mkdir(parents=True)
    path.write_text("made")
    made.record(["results/known/tables/results.csv"], repository)
    path.write_text("forged")
    made.notice(["results/known"], repository)
    with pytest.raises(recording.RecordingError, match=r"tables/results.csv is not what its job wrote"):
        recording.commit(repository, "known")
    assert not (repository / "dvc.lock").exists()

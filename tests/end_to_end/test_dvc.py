"""Snakemake and DVC together: an ablation never publishes another one's numbers and measures nothing again."""

import hashlib
import json
import re

import pytest
import yaml
from cuda_agent import evaluation, filtering, judge, params, records
from helpers import ROOT, jobs, set_params

pytestmark = pytest.mark.end_to_end

EARLY = ("operators.parquet", "candidates.parquet", "observations.parquet", "tasks.parquet")


def lock(root):
    stages = yaml.safe_load((root / "dvc.lock").read_text())["stages"]
    return {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])}


@pytest.fixture(scope="module")
def published(finished, make_repository):
    """The small experiment through DVC from nothing, pushed to a remote on disk."""
    repository = make_repository("published")
    set_params(repository.root, {"execution": {"shards": 1}})
    repository.run("dvc", "remote", "add", "-d", "store", str(repository.root.parent / "store"))
    repository.run("dvc", "repro", *(f"{stage}@laptop" for stage in ("operators", "synthesis", "observation")))
    repository.run("dvc", "repro", "results@laptop")
    repository.commit("what was made")
    repository.run("dvc", "push")
    return repository


def test_dvc_repro_makes_all_and_then_says_it_is_up_to_date(published):
    _, text = published.run("dvc", "status", "results@laptop", "--with-deps")
    assert "up to date" in text
    _, text = published.run("dvc", "repro", "results@laptop")
    assert "Running stage" not in text
    assert published.git("status", "--short") == ""


def test_after_a_pull_neither_tool_has_anything_to_do(published, tmp_path):
    clone = type(published)(tmp_path / "clone")
    published.git("clone", "-q", str(published.root), str(clone.root))
    clone.run("dvc", "pull", "results@laptop", "--with-deps")
    _, text = clone.run("cuda-agent", "pull", "laptop")
    _, text = clone.snakemake()
    assert "Nothing to be done" in text
    _, text = clone.run("dvc", "status", "results@laptop", "--with-deps")
    assert "up to date" in text


def test_a_pull_into_a_changed_workspace_does_not_hide_the_change(published, tmp_path):
    clone = type(published)(tmp_path / "clone")
    published.git("clone", "-q", str(published.root), str(clone.root))
    set_params(clone.root, {"filtering": {"time_window_ms": [0.001, 0.5]}})
    code, text = clone.run("cuda-agent", "pull", "laptop", ok=False)
    assert code == 2
    assert "`dvc repro results@laptop` makes it" in text
    assert not (clone.root / ".snakemake/metadata").exists()


def test_ablations_publish_their_own_numbers_and_measure_nothing_again(published):
    before = lock(published.root)
    judged = records.read(published.root / "data/laptop/codegen/judgements.parquet", records.JUDGEMENTS)
    tasks = records.read(published.root / "data/laptop/tasks.parquet", records.TASKS)
    for margin in (0.0, 0.9):
        name = f"margin-{int(10 * margin)}"
        published.run(
            "dvc", "exp", "run", "--temp", "-n", name, "-S", f"results.faster_margin={margin}", "results@laptop"
        )
        text = published.experiment(name, "results/laptop/metrics.json")
        config = params.load(published.root, "laptop", {"results": {"faster_margin": margin}})
        verdicts = judge.verdicts(judged, config.results)
        expected = evaluation.metrics(verdicts, tasks, config.results, seed=config.seed)
        assert json.loads(text) == json.loads(records.dumps(expected))
        locked = yaml.safe_load(published.experiment(name, "dvc.lock"))["stages"]
        after = {o["path"]: o["md5"] for stage in locked.values() for o in stage.get("outs", [])}
        measured = [p for p in before if p.startswith("data/laptop/")]
        assert {p: before[p] for p in measured} == {p: after[p] for p in measured}


def test_an_experiment_on_a_filter_observes_nothing_again(published):
    observed = records.read(published.root / "data/laptop/observations.parquet", records.OBSERVATIONS)
    times = sorted(o["eager_ms"] for o in observed if o["eager_ms"] is not None)
    limit = (times[len(times) // 2] + times[len(times) // 2 - 1]) / 2
    before = lock(published.root)
    published.run(
        "dvc",
        "exp",
        "run",
        "--temp",
        "-n",
        "window",
        "-S",
        f"filtering.time_window_ms=[0.0001,{limit}]",
        "filtering@laptop",
    )
    locked = yaml.safe_load(published.experiment("window", "dvc.lock"))["stages"]
    after = {o["path"]: o["md5"] for stage in locked.values() for o in stage.get("outs", [])}
    assert after["data/laptop/observations.parquet"] == before["data/laptop/observations.parquet"]
    assert after["data/laptop/filtered.parquet"] != before["data/laptop/filtered.parquet"]
    candidates = records.read(published.root / "data/laptop/candidates.parquet", records.CANDIDATES)
    config = params.load(published.root, "laptop", {"filtering": {"time_window_ms": [0.0001, limit]}})
    kept, _ = filtering.apply(candidates, observed, config.filtering)
    records.write(published.root.parent / "expected.parquet", kept, records.FILTERED)
    expected = hashlib.md5((published.root.parent / "expected.parquet").read_bytes()).hexdigest()
    assert after["data/laptop/filtered.parquet"] == expected


def test_a_wrong_parameter_takes_nothing_away(published):
    before = published.bytes_of("data/laptop", "results/laptop")
    code, text = published.run("dvc", "exp", "run", "-S", "judging.timing_pairs=-3", "results@laptop", ok=False)
    published.git("checkout", "params.yaml")
    published.run("dvc", "checkout", "check@laptop")
    assert (code != 0, "judging.timing_pairs: got -3" in text) == (True, True)
    assert published.bytes_of("data/laptop", "results/laptop") == before


def test_files_that_dvc_put_back_are_not_taken_for_others(published):
    """Two windows by DVC, the first one's files put back by it: Snakemake makes the second one's again, if asked to."""
    parameters = published.root / "params.yaml"
    filtered = published.root / "data/laptop/filtered.parquet"
    before, text, made = parameters.read_text(), "", {}
    observed = records.read(published.root / "data/laptop/observations.parquet", records.OBSERVATIONS)
    limit = sorted(o["eager_ms"] for o in observed if o["eager_ms"] is not None)[-1]
    other = {"filtering": {"time_window_ms": [0.001, 0.999 * limit]}}
    for name in ("first", "other", "first"):
        parameters.write_text(before)
        if name == "other":
            set_params(published.root, other)
        _, text = published.run("dvc", "repro", "filtering@laptop")
        assert made.setdefault(name, filtered.read_bytes()) == filtered.read_bytes()
    assert made["first"] != made["other"]
    assert "skipping run, checking out outputs" in text
    _, text = published.snakemake(f"--config=filtering={other['filtering']}", str(filtered.relative_to(published.root)))
    assert "filtered.parquet: is not what its job wrote" in text
    assert (jobs(text), filtered.read_bytes()) == ({"filter": 1}, made["other"])
    code, text = published.run("cuda-agent", "record", "laptop", ok=False)
    assert (code, "not what params.yaml" in text) == (2, True)
    published.run("dvc", "checkout", "--force", "filtering@laptop")
    assert filtered.read_bytes() == made["first"]


def test_a_change_of_library_code_is_seen_by_both_tools(published):
    path = published.root / "workflow/cuda_agent/evaluation/metrics.py"
    old = path.read_text()
    path.write_text(old + "\n# changed\n")
    try:
        _, text = published.run("dvc", "status", "results@laptop", "--with-deps")
        assert "workflow/cuda_agent/evaluation" in text
        assert "observation@laptop" not in text
        _, text = published.snakemake("--dry-run")
        assert re.search(r"^metrics\s+1$", text, re.MULTILINE)
        assert "observe " not in text
    finally:
        path.write_text(old)


def test_runs_live_side_by_side(published):
    """A second run, made from pinned measurements, leaves the first one's files and lock entries alone."""
    before = lock(published.root)
    published.run("cuda-agent", "pin", "laptop")
    second = yaml.safe_load((published.root / "workflow/runs/laptop.yaml").read_text())
    (published.root / "workflow/runs/h200.yaml").write_text(yaml.safe_dump({**second, "measurements": "pinned"}))
    pinned = published.root / "data/pinned"
    published.run("cp", "-r", f"{pinned}/laptop/.", f"{pinned}/h200/")
    published.run("dvc", "repro", "results@h200")
    after = lock(published.root)
    assert {p: h for p, h in after.items() if "/laptop/" in p} == before
    assert (published.root / "results/laptop/metrics.json").exists()
    assert (published.root / "results/h200/metrics.json").exists()


def test_dvc_yaml_says_what_the_rules_say():
    from cuda_agent import pipeline

    assert (ROOT / "dvc.yaml").read_text() == pipeline.render(ROOT)
    assert "persist" not in (ROOT / "dvc.yaml").read_text()

"""A run that takes pinned measurements asks for what was measured, or is told what it asked for instead."""

import os
import shutil
import time
from pathlib import Path

import pytest
import yaml
from cuda_agent import params, pinning, records

REPOSITORY = Path(__file__).parents[2]
RUNS = sorted(p.name for p in (REPOSITORY / "data" / "pinned").iterdir() if p.is_dir())


@pytest.fixture
def root(tmp_path):
    (tmp_path / "workflow").mkdir()
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    shutil.copytree(REPOSITORY / "workflow" / "runs", tmp_path / "workflow" / "runs")
    shutil.copytree(REPOSITORY / "data" / "pinned" / "laptop", tmp_path / "data" / "laptop")
    pinning.pin(tmp_path, "laptop")
    return tmp_path


@pytest.mark.parametrize("run", RUNS)
def test_what_is_pinned_was_measured_with_the_parameters_of_its_run(run):
    pinning.check(REPOSITORY, params.load(REPOSITORY, run))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("judging", "timing_pairs", 99), ("synthesis", "candidates", 7), ("rollouts", "max_turns", 3)],
)
def test_another_measurement_than_the_pinned_one_is_refused_with_both_values(root, section, key, value):
    asked = params.load(root, "laptop", {section: {key: value}})
    with pytest.raises(params.ParamsError, match=rf"{section}\.{key}: got {value}; .* was measured with (.|\n)*fresh"):
        pinning.check(root, asked)


@pytest.mark.parametrize("change", [{"results": {"faster_margin": 0.2}}, {"filtering": {"agreement": 0.5}}])
def test_what_is_computed_from_measurements_may_change(root, change):
    pinning.check(root, params.load(root, "laptop", change))


def test_how_the_work_is_spread_may_change(root):
    pinning.check(root, params.load(root, "laptop", {"execution": {"shards": 7}}))


def test_a_policy_that_was_not_used_may_change(root):
    pinning.check(root, params.load(root, "laptop", {"policies": {"openai": {"temperature": 0.1}}}))


def test_a_parameter_that_came_later_is_no_difference(root):
    pinned = root / "data" / "pinned" / "laptop" / "params.yaml"
    pinned.write_text("".join(line for line in pinned.open() if "timing_pairs" not in line))
    pinning.check(root, params.load(root, "laptop", {"judging": {"timing_pairs": 99}}))


@pytest.mark.parametrize("text", ["", "judging: {}", "rollouts: 5"])
def test_parameters_that_say_too_little_are_refused(root, text):
    for home in ("pinned/laptop", "laptop"):
        made_with = root / "data" / home / "params.yaml"
        made_with.write_text(text)
    with pytest.raises(params.ParamsError, match=r"pinned/laptop/params\.yaml: has no .*observation"):
        pinning.check(root, params.load(root, "laptop", {"judging": {"timing_pairs": 99}}))
    with pytest.raises(pinning.PinError, match=r"data/laptop"):
        pinning.pin(root, "laptop")


def test_damaged_parameters_are_named(root):
    pinned = root / "data" / "pinned" / "laptop" / "params.yaml"
    pinned.write_text("judging: {timing_pairs")
    with pytest.raises(params.ParamsError, match=r"pinned/laptop/params\.yaml: is no YAML"):
        pinning.check(root, params.load(root, "laptop"))


@pytest.mark.parametrize(
    "name", ["observations.parquet", "codegen/judgements.parquet", "codegen/trajectories.jsonl.zst"]
)
def test_measurements_of_two_runs_do_not_go_together(root, name):
    """Neither where they are pinned nor where they come from, however old the other one's file looks."""
    pinned, made = root / "data" / "pinned" / "laptop", root / "data" / "laptop"
    before = (pinned / name).read_bytes()
    for folder in (pinned, made):
        shutil.copy2(REPOSITORY / "data" / "pinned" / "h200" / name, folder / name)
        os.utime(folder / name, (0, 0))
    with pytest.raises(params.ParamsError, match=rf"data/pinned/laptop: {name}: damaged, or not of the run"):
        pinning.check(root, params.load(root, "laptop"))
    (pinned / name).write_bytes(before)
    pinning.check(root, params.load(root, "laptop"))
    with pytest.raises(pinning.PinError, match=rf"data/laptop: {name}: changed since params\.yaml was written"):
        pinning.pin(root, "laptop")
    assert (pinned / name).read_bytes() == before


def test_files_that_are_younger_than_what_names_them_are_pinned(root):
    """As after `dvc checkout`, which brings all of them back in any order."""
    later = time.time() + 60
    os.utime(root / "data" / "laptop" / "observations.parquet", (later, later))
    pinning.pin(root, "laptop")


def test_a_missing_artefact_is_named(root):
    (root / "data" / "pinned" / "laptop" / "codegen" / "judgements.parquet").unlink()
    with pytest.raises(params.ParamsError, match=r"data/pinned/laptop has no codegen/judgements\.parquet.*fresh"):
        pinning.check(root, params.load(root, "laptop"))


def test_a_damaged_artefact_replaces_no_pinned_one(root):
    damaged = root / "data" / "laptop" / "observations.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])
    before = {p: p.read_bytes() for p in (root / "data" / "pinned").rglob("*") if p.is_file()}
    with pytest.raises(records.RecordError, match=r"data/laptop/observations\.parquet"):
        pinning.pin(root, "laptop")
    assert {p: p.read_bytes() for p in (root / "data" / "pinned").rglob("*") if p.is_file()} == before


def test_it_is_pinned_with_the_parameters_of_its_making(root):
    """params.yaml may say something else by now."""
    now = root / "params.yaml"
    now.write_text(now.read_text().replace("seed: 20260228", "seed: 7"))
    assert params.load(root, "laptop").seed == 7
    pinning.pin(root, "laptop")
    with pytest.raises(params.ParamsError, match=r"seed: got 7; .* was measured with 20260228"):
        pinning.check(root, params.load(root, "laptop"))


def test_measurements_of_unknown_making_are_not_taken(root):
    (root / "data" / "pinned" / "laptop" / "params.yaml").unlink()
    with pytest.raises(params.ParamsError, match=r"data/pinned/laptop has no params\.yaml"):
        pinning.check(root, params.load(root, "laptop"))


def test_an_unfinished_run_is_not_pinned(root):
    judgements = root / "data" / "laptop" / "codegen" / "judgements.parquet"
    records.cut(judgements, judgements, {row["task_id"] for row in records.read_artefact(judgements)[1:]})
    with pytest.raises(pinning.PinError, match=r"codegen/judgements\.parquet: changed since .* finish the run"):
        pinning.pin(root, "laptop")


def test_a_part_of_what_is_pinned_does_not_take_its_place(root):
    """A run that takes pinned measurements leaves out those of tasks that its filters left out."""
    home, pinned = root / "data" / "laptop", root / "data" / "pinned" / "laptop" / "codegen" / "judgements.parquet"
    before = pinned.read_bytes()
    kept = {row["task_id"] for row in records.read_artefact(pinned)[1:]}
    for path in sorted((home / "codegen").iterdir()):
        records.cut(path, path, kept)
    kept = params.read_yaml(home / "params.yaml")
    (home / "params.yaml").write_text(yaml.safe_dump(pinning.made_with(home, kept)))
    with pytest.raises(pinning.PinError, match=r"codegen/trajectories.*holds 23 of the 24 rows"):
        pinning.pin(root, "laptop")
    assert pinned.read_bytes() == before

"""The whole experiment, small and real, with Snakemake."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from cuda_agent import evaluation, records
from helpers import SMALL, jobs, set_params

pytestmark = pytest.mark.end_to_end


def rows(repository, name, schema, run="laptop"):
    return records.read(repository.root / "data" / run / name, schema)


def test_everything_is_made_and_a_second_run_has_nothing_to_do(finished):
    _, text = finished.snakemake()
    assert "Nothing to be done" in text
    root = finished.root
    assert (root / "results/laptop/paper.pdf").read_bytes().startswith(b"%PDF")
    for notebook in (root / "results/laptop/notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        assert any(cell.get("outputs") for cell in cells)
    tasks = rows(finished, "tasks.parquet", records.TASKS)
    verdicts = records.read(root / "results/laptop/verdicts.parquet", records.VERDICTS)
    assert tasks
    assert {v["task_id"] for v in verdicts} <= {t["task_id"] for t in tasks}


def test_the_funnel_adds_up(finished):
    candidates = rows(finished, "candidates.parquet", records.CANDIDATES)
    observations = rows(finished, "observations.parquet", records.OBSERVATIONS)
    rejections = rows(finished, "rejections.parquet", records.REJECTIONS)
    contaminated = rows(finished, "contaminated.parquet", records.REJECTIONS)
    tasks = rows(finished, "tasks.parquet", records.TASKS)
    assert len(candidates) == SMALL["synthesis"]["candidates"]
    assert {c["candidate_id"] for c in candidates} == {o["candidate_id"] for o in observations}
    kept = [r["candidate_id"] for part in (rejections, contaminated, tasks) for r in part]
    assert sorted(kept) == sorted(c["candidate_id"] for c in candidates)


def test_measured_artefacts_name_their_hardware_and_isolation(finished):
    for row in rows(finished, "observations.parquet", records.OBSERVATIONS):
        assert row["device_name"]
        assert "torch" in json.loads(row["versions"])
        assert row["isolation"]


def test_rule_all_lists_every_out_of_dvc(finished):
    import yaml

    stages = yaml.safe_load((finished.root / "dvc.yaml").read_text())["stages"]
    outs = {
        (next(iter(out)) if isinstance(out, dict) else out)
        .replace("${item}", "laptop")
        .replace("${item.run}", "laptop")
        .replace("${item.policy}", "codegen")
        for stage in stages.values()
        for out in stage["do"]["outs"]
    }
    made = {str(p.relative_to(finished.root)) for f in ("data", "results") for p in (finished.root / f).rglob("*")}
    assert outs <= made
    _, text = finished.run("snakemake", "--summary")
    listed = {line.split("\t")[0] for line in text.splitlines()}
    assert outs <= listed


@pytest.fixture(scope="module")
def other(finished, make_repository):
    """A second clone in another folder: one core, three shards, the first clone's measurements, no compiler."""
    repository = make_repository("other")
    finished.run("cuda-agent", "pin", "laptop", "--root", str(finished.root))
    shutil.copytree(finished.root / "data/pinned/laptop", repository.root / "data/pinned/laptop", dirs_exist_ok=True)
    set_params(repository.root, {"execution": {"shards": 3}})
    set_params(repository.root, {"measurements": "pinned"}, "workflow/runs/laptop.yaml")
    tools = repository.root.parent / "tools"
    tools.mkdir()
    for name in ("sh", "bash", "cp", "git", "env", "uname"):
        (tools / name).symlink_to(shutil.which(name))
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{tools}"  # noqa: PTH120
    assert not any(shutil.which(c, path=path) for c in ("c++", "g++", "gcc", "cc", "nvcc"))
    _, repository.text = repository.snakemake(cores=1, env={"PATH": path, "CC": "", "CXX": ""})
    return repository


def test_two_clones_compose_the_same_candidates(finished, other):
    for name in ("operators.parquet", "candidates.parquet"):
        assert (finished.root / "data/laptop" / name).read_bytes() == (other.root / "data/laptop" / name).read_bytes()


def test_pinned_measurements_give_every_other_artefact_byte_for_byte(finished, other):
    assert not {"observe", "rollout", "judge"} & set(jobs(other.text))
    first, second = finished.bytes_of("data/laptop", "results/laptop"), other.bytes_of("data/laptop", "results/laptop")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_a_filter_leaves_out_the_same_of_everything_that_was_pinned(other):
    """One task less: its rollout, its judgement and its verdict are left out, and all counts say so."""
    submitted = records.read(other.root / "data/laptop/codegen/submissions.parquet", records.SUBMISSIONS)
    tasks = {row["task_id"]: row for row in records.read(other.root / "data/laptop/tasks.parquet", records.TASKS)}
    left_out = max((tasks[row["task_id"]] for row in submitted), key=lambda task: task["eager_ms"])
    window = f"filtering={{time_window_ms: [0.001, {0.999 * left_out['eager_ms']}]}}"
    _, text = other.snakemake("--config", window)
    remaining = {row["task_id"] for row in records.read(other.root / "data/laptop/tasks.parquet", records.TASKS)}
    expected = {row["task_id"] for row in submitted} & remaining
    assert left_out["task_id"] not in remaining
    assert "rows left out" in text
    rows = evaluation.load_run(other.root, "laptop")
    for name in ("submissions", "trajectories", "judgements", "verdicts"):
        assert {row["task_id"] for row in rows[name]} == expected, name
    numbers = json.loads((other.root / "results/laptop/numbers.json").read_text())
    assert numbers["policy.codegen.n"]["value"] == len(expected)
    other.snakemake()
    other.run("cuda-agent", "record", "laptop")
    known = other.root / ".snakemake/made"
    known.rename(known.with_name("away"))
    code, text = other.run("cuda-agent", "record", "laptop", ok=False)
    assert (code, "not made in this folder" in text) == (2, True)
    known.with_name("away").rename(known)
    assert len(records.read_artefact(other.root / "data/laptop/codegen/submissions.parquet")) == len(submitted)


def test_a_source_that_changed_is_seen_however_old_it_looks(finished):
    path = finished.root / "paper/published_table1.csv"
    before, then = path.read_bytes(), path.stat()
    for text, expected in ((before.replace(b"98.8", b"11.1"), {"metrics", "paper"}), (before, set())):
        path.write_bytes(text)
        os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
        _, said = finished.snakemake("--dry-run")
        assert expected == set(jobs(said)) - {"all"}


def test_a_script_counts_by_its_content_as_all_sources_do(finished):
    """A change is seen where all that a rule makes is temporary; a change of branch and back changes times alone."""
    script = finished.root / "workflow/scripts/observe.py"
    before = script.read_bytes()
    script.write_bytes(before + b"\n")
    _, text = finished.snakemake("--dry-run")
    assert "observe" in jobs(text)
    script.write_bytes(before)
    for name in finished.git("ls-files", "-z").split("\0")[:-1]:
        (finished.root / name).touch()
    _, text = finished.snakemake("--dry-run")
    assert "Nothing to be done" in text


def test_the_stages_are_what_the_rules_say_whatever_the_parameters(finished):
    finished.run("cuda-agent", "dvc-yaml", "--check")
    path = finished.root / "params.yaml"
    before = path.read_text()
    path.write_text(before + "typo: 1\n")
    code, text = finished.run("cuda-agent", "dvc-yaml", "--check", ok=False)
    path.write_text(before)
    assert (code, "typo: unknown section" in text, "Traceback" in text) == (2, True, False)


def test_an_output_that_another_put_in_its_place_is_made_again(finished):
    """And nothing else is; a folder that was made is as it was after that."""
    before = finished.bytes_of("data/laptop", "results/laptop")
    other = {name: finished.root / f"results/laptop/{name}" for name in ("tables/results.csv", "numbers.json")}
    for path in other.values():
        path.write_bytes(path.read_bytes().replace(b"1", b"2"))
    _, text = finished.snakemake("--dry-run")
    for path in other.values():
        assert f"{path.relative_to(finished.root)}: is not what its job wrote" in text
    _, text = finished.snakemake()
    assert jobs(text) == {"metrics": 1, "paper": 1, "all": 1}
    assert finished.bytes_of("data/laptop", "results/laptop") == before
    _, text = finished.snakemake()
    assert "Nothing to be done" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--config", "filtering={time_window_ms: [5, 0.5]}"], "filtering.time_window_ms"),
        (["--config", "observation={repeats: none}"], "observation.repeats"),
        (["--config", "typo=1"], "typo: unknown section or key"),
        (["--config", "run=nowhere"], "workflow/runs/nowhere.yaml"),
        (["--config", "decontamination={kernelbench: gone.parquet}"], "gone.parquet: the rule decontaminate reads it"),
    ],
)
def test_a_wrong_parameter_stops_before_any_job(finished, options, said):
    code, text = finished.snakemake(*options, ok=False)
    assert code != 0
    assert said in text
    assert "Job stats" not in text
    assert "Traceback" not in text


def test_a_key_that_stands_twice_stops_before_any_job(finished, tmp_path):
    (tmp_path / "my.yaml").write_text("results: {rules: strict}\nresults: {faster_margin: 0.1}\n")
    code, text = finished.snakemake("--configfile", str(tmp_path / "my.yaml"), ok=False)
    assert code != 0
    assert f"{tmp_path}/my.yaml: line 2: results: stands in line 1 already" in text
    assert "Job stats" not in text


def test_all_ways_to_override_mean_the_same(finished, tmp_path):
    (tmp_path / "over.yaml").write_text("filtering: {time_window_ms: [0.002, 999.0]}\n")
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile/profile.yaml").write_text('config: ["filtering={time_window_ms: [0.002, 999.0]}"]\n')
    ways = [
        ["--config", "filtering={time_window_ms: [0.002, 999.0]}"],
        ["--configfile", str(tmp_path / "over.yaml")],
        ["--profile", str(tmp_path / "profile")],
    ]
    seen = []
    for way in ways:
        _, text = finished.snakemake("--dry-run", *way)
        seen.append(jobs(text))
    assert seen[0] == seen[1] == seen[2]
    assert "filter" in seen[0]
    assert not {"observe", "compose", "operators"} & set(seen[0])


@pytest.mark.parametrize(("step", "kill"), [("observe", os.killpg), ("rollout", os.kill)])
def test_a_killed_run_goes_on_where_it_stopped(finished, make_repository, step, kill):
    """Also where Snakemake alone is killed: its jobs end with it, and the next one finds what they had finished."""
    repository = make_repository(f"killed-{step}")
    set_params(repository.root, {"execution": {"shards": 1}})
    for folder in ("data/laptop",):
        shutil.copytree(finished.root / folder, repository.root / folder)
    made = {
        "observe": ["observations.parquet", "filtered.parquet", "rejections.parquet", "tasks.parquet"],
        "rollout": [],
    }[step]
    for name in made:
        (repository.root / "data/laptop" / name).unlink()
    shutil.rmtree(repository.root / "data/laptop/codegen")
    target = {"observe": "data/laptop/observations.parquet", "rollout": "data/laptop/codegen/submissions.parquet"}[step]
    rules = {"observe": ["observe", "observations"], "rollout": ["rollout", "trajectories"]}[step]
    command = ["snakemake", "--cores", "1", "--allowed-rules", *rules, "--", target]
    environment = {
        **os.environ,
        "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}",  # noqa: PTH120
        "PYTHONPATH": str(repository.root / "workflow"),
    }
    process = subprocess.Popen(
        command,
        cwd=repository.root,
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    journal = repository.root / "work/laptop/journal"
    while len(list(journal.rglob("*.json"))) < 2 and process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    assert process.poll() is None, process.stdout.read()
    kill(process.pid, signal.SIGKILL)
    process.communicate()  # until the last of them that could write is gone
    before = {p: p.stat().st_mtime_ns for p in journal.rglob("*.json")}
    assert len(before) >= 2
    assert not (repository.root / target).exists()

    repository.run(*command)
    log = next(
        (repository.root / "work/laptop/logs").glob(f"*{'observations-0' if step == 'observe' else 'rollouts'}*")
    )
    assert f"({len(before)} resumed)" in log.read_text()
    assert not list(journal.rglob("*.json"))
    parquet = pq.read_table(repository.root / target)
    expected = {"observe": SMALL["synthesis"]["candidates"], "rollout": SMALL["rollouts"]["tasks"]}[step]
    assert parquet.num_rows == expected

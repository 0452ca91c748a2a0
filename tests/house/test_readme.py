"""The README's table: what its words mean comes from the runs' own parameters."""

import argparse

import pytest
from cuda_agent import readme, records
from cuda_agent.errors import UserError


def publish(root, run, margin=0.05, confidence=0.95):
    numbers = {"judged.device_name": "Example", "judged.versions": {"torch": "9.9"}, "tasks": 9}
    numbers |= {"policies": ["codegen"], "policy.codegen.n": 8, "policy.codegen.passed": 4}
    numbers |= {"params.results.faster_margin": margin, "params.results.confidence": confidence}
    entries = {k: {"value": v} for k, v in numbers.items()}
    for name in ("faster_eager", "faster_compile", "speedup_eager", "speedup_compile"):
        entries[f"policy.codegen.{name}"] = {"value": 0.5, "low": 0.25, "high": 0.75}
    records.write_json(root / "results" / run / "numbers.json", entries)


@pytest.mark.parametrize("text", ["[]", "5", "{}"])
def test_results_of_another_form_are_named(tmp_path, text):
    publish(tmp_path, "a")
    (tmp_path / "results" / "a" / "numbers.json").write_text(text)
    with pytest.raises(UserError, match="results: holds results of another form"):
        readme.block(tmp_path)


@pytest.mark.parametrize(
    ("margins", "said"),
    [
        ({"a": 0.05}, "faster (by more than 5 %)"),
        ({"a": 0.05, "b": 0.05}, "faster (by more than 5 %)"),
        ({"a": 0.05, "b": 0.125}, "faster (by more than 5 % in `a`, 12.5 % in `b`)"),
    ],
)
def test_the_margin_of_faster_is_named(tmp_path, margins, said):
    for run, margin in margins.items():
        publish(tmp_path, run, margin)
    text = readme.block(tmp_path)
    assert said in text
    assert all(f"| `{run}` | Example | 9.9 | 9 | `codegen` | 8 | 4 |" in text for run in margins)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"a": 0.95}, "; 95 % intervals cover which tasks were drawn"),
        ({"a": 0.5, "b": 0.5}, "; 50 % intervals cover"),
        ({"a": 0.995}, "; 99.5 % intervals cover"),
        ({"a": 0.95, "b": 0.5}, "as it came (95 % in `a`, 50 % in `b`)."),
    ],
)
def test_the_level_of_the_intervals_is_the_runs_own(tmp_path, levels, said):
    for run, level in levels.items():
        publish(tmp_path, run, confidence=level)
    assert said in readme.block(tmp_path)


def test_a_readme_without_the_end_of_its_table_keeps_what_follows(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"a\n{readme.START}\nb\n")
    with pytest.raises(UserError, match="after it, between which the table belongs"):
        readme.run(argparse.Namespace(root=tmp_path, check=False))
    assert path.read_text() == f"a\n{readme.START}\nb\n"

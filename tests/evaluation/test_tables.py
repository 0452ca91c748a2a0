import csv
import io
import shutil
from pathlib import Path

import pytest
import synthetic_run
from cuda_agent import evaluation, records
from cuda_agent.evaluation import artefacts

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def published():
    return records.read_csv(ROOT / "paper" / "published_table1.csv")


def tables(rows, parameters, published):
    metrics = evaluation.metrics(rows["verdicts"], rows["tasks"], parameters.results, parameters.seed)
    texts = evaluation.tables(rows, metrics, published)
    assert tuple(texts) == evaluation.TABLES
    return {name: list(csv.DictReader(io.StringIO(text))) for name, text in texts.items()}


def test_published_rows_are_marked_and_ours_are_not_among_them(rows, parameters, published):
    table = tables(rows, parameters, published)["table1"]
    assert [r["source"] for r in table] == ["published"] * 24 + ["this run"]
    best = next(r for r in table if r["model"] == "CUDA Agent" and r["level"] == "all")
    assert (best["pass_percent"], best["speedup_compile"], best["n"]) == ("98.8", "2.11", "250")
    assert all(r["benchmark"] == "KernelBench" for r in table if r["source"] == "published")


def test_the_funnel_accounts_for_every_candidate(rows, parameters, published):
    funnel = tables(rows, parameters, published)["funnel"]
    assert int(funnel[0]["left"]) - sum(int(r["dropped"]) for r in funnel) == int(funnel[-1]["left"])
    assert int(funnel[-1]["left"]) == len(rows["tasks"])


def test_the_mix_stands_beside_the_published_one(rows, parameters, published):
    mix = tables(rows, parameters, published)["mix"]
    assert sum(int(r["published"]) for r in mix) == 6000
    assert sum(float(r["share"]) for r in mix) == pytest.approx(1, abs=1e-4)


def test_what_is_not_known_is_an_empty_cell(parameters, published):
    rows = synthetic_run.make(passing=0)
    result = tables(rows, parameters, published)["results"][0]
    assert (result["pass_rate"], result["speedup_eager"]) == ("0", "")
    assert tables(synthetic_run.make(candidates=0), parameters, published)["results"] == []


def test_a_run_is_found_and_read_by_name(tmp_path, rows):
    for name, schema in records.ARTEFACTS.items():
        folder = tmp_path / "data" / "r" / ("codegen" if name in artefacts.OF_A_POLICY else "")
        if name == "observations":  # measured elsewhere and pinned
            folder = tmp_path / "data" / "pinned" / "r"
        if name == "verdicts":
            folder = tmp_path / "results" / "r"
        records.write(folder / f"{name}.parquet", rows[name], schema)
    records.write_jsonl(tmp_path / "data" / "r" / "codegen" / "trajectories.jsonl.zst", rows["trajectories"])
    loaded = evaluation.load_run(tmp_path, "r")
    assert {name: len(found) for name, found in loaded.items()} == {name: len(found) for name, found in rows.items()}
    former = tmp_path / "data" / "r" / "former"  # a policy that the run had before
    shutil.copytree(tmp_path / "data" / "r" / "codegen", former)
    (tmp_path / "data" / "r" / "params.yaml").write_text("rollouts: {policies: [codegen]}")
    assert evaluation.load_run(tmp_path, "r") == loaded
    with pytest.raises(FileNotFoundError, match="run=other"):
        evaluation.load_run(tmp_path, "other")
    with pytest.raises(ValueError, match="is no artefact"):
        evaluation.read({"verdict": tmp_path})

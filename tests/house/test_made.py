"""An output that is not what its job wrote is noticed once, however it came there."""

import pytest
from cuda_agent import made

DATA, RESULT = "data/r/tasks.parquet", "results/r/figures/funnel.svg"


@pytest.fixture
def root(tmp_path):
    for path in (DATA, RESULT):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("first")
    made.record([DATA, RESULT], tmp_path)
    return tmp_path


def notice(root, run="r"):
    return [str(path) for path in made.notice([f"data/{run}", f"results/{run}"], root)]


def test_what_jobs_wrote_is_left_alone(root):
    assert notice(root) == []
    (root / DATA).touch()
    assert notice(root) == []
    assert made.replaced(DATA, root) == 0


def test_another_file_in_its_place_counts_once(root):
    (root / RESULT).write_text("other")
    assert notice(root, "another-run") == []
    assert notice(root) == [RESULT]
    assert notice(root) == []
    assert (made.replaced(RESULT, root), made.replaced(DATA, root)) == (1, 0)
    (root / RESULT).write_text("first")
    assert notice(root) == [RESULT]
    assert made.replaced(RESULT, root) == 2


def test_another_file_stays_one_until_a_job_makes_the_output_again(root):
    """Whatever ``snakemake --touch`` says of it in between."""
    (root / DATA).write_text("other")
    notice(root)
    assert [str(path) for path in made.foreign(["data/r", "results/r"], root)] == [DATA]
    made.record([DATA], root)
    assert made.foreign(["data/r", "results/r"], root) == []


def test_what_a_job_writes_after_that_is_its_own(root):
    """Its parameters keep the count: they would differ from those of the job otherwise."""
    (root / DATA).write_text("other")
    notice(root)
    (root / DATA).write_text("again")
    made.record([DATA], root)
    assert notice(root) == []
    assert made.replaced(DATA, root) == 1


def test_a_missing_output_is_none_that_was_replaced(root):
    (root / DATA).unlink()
    assert notice(root) == []


def test_what_no_job_wrote_is_named(root):
    assert made.unknown("r", [DATA, [RESULT]], root) == ""
    for name in ("brought", "gone"):
        (root / f"data/r/{name}").write_text("x")
    (root / "data/r/gone").unlink()
    said = made.unknown("r", [DATA, ["data/r/brought", "data/r/gone"]], root)
    assert said.startswith("data/r/brought: not made in this folder")
    assert "without data/r it is made here" in said


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"sha256": "", "replaced": "x", "by_job": true}'])
def test_a_damaged_record_is_of_no_file(root, text):
    (root / made.FOLDER / f"{DATA}.json").write_text(text)
    assert made.replaced(DATA, root) == 0
    assert notice(root) == [DATA]
    assert notice(root) == []

"""A file that a rule reads and no rule makes must be there, and nothing where a rule writes."""

import pytest
from cuda_agent import sources


def test_a_missing_source_is_named_with_its_rule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper.typ").write_text("")
    inputs = {"paper": ["paper.typ", "facts.csv"], "other": [lambda w: w, "notebooks/{name}.ipynb", "data/x.parquet"]}
    with pytest.raises(sources.SourceError, match=r"^facts\.csv: the rule paper reads it, and it is no file in "):
        sources.check(inputs, ("data/",))
    (tmp_path / "facts.csv").write_text("")
    sources.check(inputs, ("data/",))


def test_a_folder_is_no_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "facts.csv").mkdir()
    with pytest.raises(sources.SourceError, match=r"facts\.csv"):
        sources.check({"paper": ["facts.csv"]}, ())


OUTPUTS = {"metrics": ["results/r/metrics.json"], "judge": ["data/r/codegen/{shard,[0-9]+}-of-{shards}.parquet"]}


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("results/r/metrics.json", "the rule metrics writes a file there; move it away"),
        ("data/r/codegen/0-of-2.parquet", "the rule judge writes a file there"),
    ],
)
def test_a_folder_in_the_place_of_an_output_is_named(tmp_path, monkeypatch, folder, said):
    monkeypatch.chdir(tmp_path)
    sources.check_places(OUTPUTS)
    (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(sources.PlaceError, match=f"^{folder}: is a folder, and {said}"):
        sources.check_places(OUTPUTS)


@pytest.mark.parametrize(("file", "rule"), [("results", "metrics"), ("data/r/codegen", "judge")])
def test_a_file_in_the_place_of_a_folder_is_named(tmp_path, monkeypatch, file, rule):
    monkeypatch.chdir(tmp_path)
    for path in ("results/r/metrics.json", "data/r/codegen/0-of-2.parquet"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("")
    sources.check_places(OUTPUTS)
    if (tmp_path / file).is_dir():
        (tmp_path / file).rename(tmp_path / "elsewhere")
    (tmp_path / file).write_text("")
    with pytest.raises(sources.PlaceError, match=f"^{file}: is a file, and the rule {rule} needs a folder there"):
        sources.check_places(OUTPUTS)

"""A file that a rule reads and no rule makes must be there."""

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

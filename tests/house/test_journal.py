"""The journal of a killed job."""

from cuda_agent.journal import Journal
from hypothesis import given
from hypothesis import strategies as st


def test_finished_items_survive_and_are_gone_once_the_artefact_holds_them(tmp_path):
    key = Journal.key("code", {"a": 1})
    Journal(tmp_path / "j").put(key, {"rows": [1, 2.5, "x"]})
    again = Journal(tmp_path / "j")
    assert again.get(key) == {"rows": [1, 2.5, "x"]}
    again.clear()
    assert again.get(key) is None


def test_a_torn_file_counts_as_absent(tmp_path):
    journal = Journal(tmp_path)
    key = Journal.key("x")
    journal.put(key, {"a": 1})
    path = tmp_path / f"{key}.json"
    path.write_text(path.read_text()[:-5])
    assert journal.get(key) is None


@given(st.dictionaries(st.text(max_size=5), st.integers()), st.text(max_size=5))
def test_keys_depend_on_content_alone(parts, other):
    shuffled = dict(reversed(list(parts.items())))
    assert Journal.key(parts) == Journal.key(shuffled)
    assert Journal.key(parts, other) != Journal.key(parts, other + "x")

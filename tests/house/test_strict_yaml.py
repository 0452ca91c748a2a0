"""A key that stands twice is refused; all other YAML means what PyYAML says."""

import pytest
import yaml
from cuda_agent import params, strict_yaml
from hypothesis import given
from hypothesis import strategies as st

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner))


@given(TREES, st.booleans())
def test_what_has_each_key_once_is_read(tree, flow):
    assert strict_yaml.load(yaml.safe_dump(tree, default_flow_style=flow)) == tree


@pytest.mark.parametrize(
    ("text", "key", "first", "again"),
    [
        ("results:\n  rules: strict\nseed: 1\nresults: {}\n", "results", 1, 4),
        ("results:\n  rules: strict\n  rules: published\n", "rules", 2, 3),
        ("a: [{b: 1, b: 2}]", "b", 1, 1),
        ("a: 1\n\n# again\n'a': 1\n", "a", 1, 4),
        ("{1: 0,\n1: 0}", "1", 1, 2),
    ],
)
def test_a_key_that_stands_twice_is_named_with_its_lines(text, key, first, again):
    with pytest.raises(strict_yaml.RepeatedKeyError) as error:
        strict_yaml.load(text)
    assert (error.value.key, error.value.first, error.value.again) == (key, first, again)


def test_what_is_brought_in_from_an_anchor_may_be_changed():
    text = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: *b, y: 4}\nd: *b\n"
    assert strict_yaml.load(text) == yaml.safe_load(text)


def test_files_of_parameters_with_a_key_twice_are_named(tmp_path):
    twice, fine = tmp_path / "my.yaml", tmp_path / "tabs.json"
    twice.write_text("seed: 1\nseed: 2\n")
    fine.write_text('{\n\t"seed": 1\n}')
    params.check_keys([fine])
    for check in (params.read_yaml, lambda path: params.check_keys([fine, path])):
        with pytest.raises(params.ParamsError, match=r"my\.yaml: line 2: seed: stands in line 1 already"):
            check(twice)

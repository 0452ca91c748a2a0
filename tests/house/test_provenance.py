"""Code hashes see what Snakemake does not: imported modules and data files of packages."""

import shutil

import pytest
from cuda_agent import provenance


@pytest.fixture
def package(tmp_path, monkeypatch):
    root = tmp_path / "workflow" / "cuda_agent"
    (root / "alpha").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "alpha" / "__init__.py").write_text("from cuda_agent.beta import f\n")
    (root / "alpha" / "template.txt").write_text("data")
    (root / "beta.py").write_text("def f():\n    from . import gamma\n    return gamma\n")
    (root / "gamma.py").write_text("WORKER = 'cuda_agent.delta:run'\n")
    (root / "delta.py").write_text("def run(): return 1\n")
    (root / "epsilon.py").write_text("")
    monkeypatch.setattr(provenance, "PACKAGE", root)
    monkeypatch.setattr(provenance, "TEMPLATE", tmp_path / "workflow" / "agent_workdir")
    return root


def fresh_hash(*roots):
    for function in (provenance.modules, provenance.files, provenance.code_hash):
        function.cache_clear()
    return provenance.code_hash(*roots)


@pytest.fixture(autouse=True)
def _no_cache_left():
    yield
    for function in (provenance.modules, provenance.files, provenance.code_hash):
        function.cache_clear()


@pytest.mark.parametrize("changed", ["alpha/__init__.py", "alpha/template.txt", "beta.py", "gamma.py", "delta.py"])
def test_a_change_in_anything_that_is_run_changes_the_hash(package, changed):
    before = fresh_hash("cuda_agent.alpha")
    with (package / changed).open("a") as file:
        file.write("# changed\n")
    assert fresh_hash("cuda_agent.alpha") != before


def test_a_change_elsewhere_does_not(package):
    before = fresh_hash("cuda_agent.alpha")
    (package / "epsilon.py").write_text("x = 1\n")
    assert fresh_hash("cuda_agent.alpha") == before


def test_the_hash_does_not_depend_on_where_the_checkout_lies(package, tmp_path, monkeypatch):
    before = fresh_hash("cuda_agent.alpha")
    other = tmp_path / "elsewhere" / "workflow" / "cuda_agent"
    shutil.copytree(package, other)
    monkeypatch.setattr(provenance, "PACKAGE", other)
    assert fresh_hash("cuda_agent.alpha") == before


def test_an_unknown_module_is_an_error(package):
    with pytest.raises(ValueError, match=r"cuda_agent\.zeta"):
        fresh_hash("cuda_agent.zeta")


def test_hardware_names_the_processor_and_torch():
    found = provenance.hardware("cpu")
    assert found["device_name"]
    assert '"torch"' in found["versions"]

import contextlib
import gc
import json
import shutil
import warnings
from pathlib import Path

import nbformat
import pytest
from cuda_agent import evaluation, records
from cuda_agent.evaluation import artefacts
from cuda_agent.evaluation.notebook import NotebookError

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def notebook(path, *sources):
    cells = [nbformat.v4.new_code_cell(s) for s in sources]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def repository(tmp_path_factory, rows):
    root = tmp_path_factory.mktemp("repository")
    for name, schema in records.ARTEFACTS.items():
        folder = root / "data" / "laptop" / ("codegen" if name in artefacts.OF_A_POLICY else "")
        if name == "verdicts":
            folder = root / "results" / "laptop"
        records.write(folder / f"{name}.parquet", rows[name], schema)
    records.write_jsonl(root / "data" / "laptop" / "codegen" / "trajectories.jsonl.zst", rows["trajectories"])
    (root / "workflow" / "runs").mkdir(parents=True)
    for name in ("params.yaml", "workflow/runs/laptop.yaml"):
        shutil.copy(ROOT / name, root / name)
    return root


def test_parameters_are_injected_and_the_copy_is_the_same_each_time(tmp_path):
    source = notebook(
        tmp_path / "a.ipynb",
        "x = 1",
        "import os\nprint(x, os.getcwd().rsplit('/')[-1])\nfor i in range(3): print(i, flush=True)",
    )
    for name in ("one", "two"):
        evaluation.execute_notebook(source, tmp_path / name / "a.ipynb", {"x": 42}, folder=tmp_path)
    text = (tmp_path / "one" / "a.ipynb").read_text()
    assert text == (tmp_path / "two" / "a.ipynb").read_text()
    cells = json.loads(text)["cells"]
    assert "".join(cells[-1]["outputs"][0]["text"]).startswith(f"42 {tmp_path.name}\n0\n1")
    assert "T" not in json.dumps([c["metadata"] for c in cells])  # no time stamp
    nbformat.validate(nbformat.reads(text, as_version=4))


def test_a_failing_cell_is_named_and_nothing_is_written(tmp_path):
    source = notebook(tmp_path / "a.ipynb", "x = 1", "raise ValueError('a clear reason')")
    with pytest.raises(NotebookError, match="a clear reason") as error:
        evaluation.execute_notebook(source, tmp_path / "out.ipynb", {}, folder=tmp_path)
    assert str(source) in str(error.value)
    assert not (tmp_path / "out.ipynb").exists()


@pytest.mark.parametrize("cell", ["print(x)", "raise ValueError"])
def test_no_socket_is_left_open(tmp_path, cell):
    source = notebook(tmp_path / "a.ipynb", "x = 1", cell)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with contextlib.suppress(NotebookError):
            evaluation.execute_notebook(source, tmp_path / "out.ipynb", {}, folder=tmp_path)
        gc.collect()
    assert [str(w.message) for w in seen if issubclass(w.category, ResourceWarning)] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_are_kept_without_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [c for c in cells if c.cell_type == "code"]
    assert all(not c.outputs and c.execution_count is None for c in code)
    assert sum("parameters" in c.metadata.get("tags", []) for c in code) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_run_and_hold_no_path_of_the_machine(path, repository):
    out = repository / "results" / "laptop" / "notebooks" / path.name
    evaluation.execute_notebook(path, out, {"run": "laptop", "root": "."}, folder=repository)
    text = out.read_text()
    assert str(repository) not in text
    assert str(Path.home()) + "/" not in text
    outputs = [o for c in json.loads(text)["cells"] for o in c.get("outputs", [])]
    assert outputs
    assert not [o for o in outputs if o.get("name") == "stderr"]
    # Where it lies, the copy finds the repository by itself, and says the same.
    evaluation.execute_notebook(path, out.with_name("again.ipynb"), {"run": "laptop", "root": "."}, folder=out.parent)
    assert out.with_name("again.ipynb").read_text() == text


def test_the_repository_is_the_given_folder_else_the_nearest_one_above(repository, tmp_path, monkeypatch):
    inside = repository / "results" / "laptop"
    inside.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(inside)
    assert evaluation.repository(repository) == repository
    assert evaluation.repository("../..") == Path("../..")
    assert evaluation.repository(".") == repository
    assert evaluation.repository(tmp_path) == repository
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="set `root`"):
        evaluation.repository("..")

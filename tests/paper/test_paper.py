import json
import re
import shutil
from pathlib import Path

import pytest
import synthetic_run
import typst
from cuda_agent import evaluation, paper, params, records
from cuda_agent.figures import FIGURES

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "paper"
CASES = {
    "few": {},
    "none_passed": {"passing": 0},
    "nothing": {"candidates": 0},
    "gpu": {"device": "cuda", "policies": ("codegen", "openai")},
}


def table(name):
    return records.read_csv(PAPER / name)


def numbers_of(rows, settings, metrics=None):
    metrics = metrics or evaluation.metrics(rows["verdicts"], rows["tasks"], settings.results, settings.seed)
    return paper.numbers(rows, metrics, settings, table("published_table1.csv"), table("published_facts.csv"))


def lay_out(folder, rows, settings):
    metrics = evaluation.metrics(rows["verdicts"], rows["tasks"], settings.results, settings.seed)
    (folder / "tables").mkdir()
    (folder / "figures").mkdir()
    for name, text in evaluation.tables(rows, metrics, table("published_table1.csv")).items():
        (folder / "tables" / f"{name}.csv").write_text(text)
    for name, draw in FIGURES.items():
        (folder / "figures" / f"{name}.svg").write_bytes(draw(rows, settings))
    records.write_json(folder / "numbers.json", numbers_of(rows, settings, metrics))


def build(folder, out, source=PAPER):
    paper.compile_paper(source, folder / "numbers.json", folder / "tables", folder / "figures", folder / out)
    return (folder / out).read_bytes()


def text_of(content):
    """The words of typst's content, as a query gives it."""
    if isinstance(content, list):
        return "".join(map(text_of, content))
    if content["func"] == "space":
        return " "
    found = content.get("text", "")
    inside = [content[name] for name in ("body", "children", "child") if name in content]
    return found if isinstance(found, str) and found else text_of(inside)


def said(folder, *selectors):
    """What a paper that was laid out says in its paragraphs, captions and so on, in one line for each selector."""
    for path in [*PAPER.glob("*.typ"), *PAPER.glob("*.bib")]:
        shutil.copy(path, folder)
    query = [typst.query(str(folder / "paper.typ"), s, root=str(folder), ignore_system_fonts=True) for s in selectors]
    return "\n".join(text_of([json.loads(found)]) for found in query).replace("\u202f", " ")


@pytest.mark.parametrize("case", CASES)
def test_the_paper_of_any_run_compiles_to_the_same_bytes(case, tmp_path):
    settings = params.load(ROOT, "h200" if case == "gpu" else "laptop")
    lay_out(tmp_path, synthetic_run.make(**CASES[case]), settings)
    pdf = build(tmp_path, "paper.pdf")
    assert pdf.startswith(b"%PDF")
    assert pdf == build(tmp_path, "again.pdf")
    assert b"CreationDate" not in pdf


def test_a_number_that_is_not_there_stops_the_paper_and_is_named(tmp_path, rows, parameters):
    lay_out(tmp_path, rows, parameters)
    numbers = numbers_of(rows, parameters)
    del numbers["tasks.eager_ms.median"]
    records.write_json(tmp_path / "numbers.json", numbers)
    with pytest.raises(paper.PaperError, match=r"tasks\.eager_ms\.median"):
        build(tmp_path, "paper.pdf")
    assert not (tmp_path / "paper.pdf").exists()


def test_numbers_say_where_they_come_from(rows, parameters):
    numbers = numbers_of(rows, parameters)
    for key, entry in numbers.items():
        assert {"value", "unit", "source", "n"} <= set(entry), key
        assert entry["source"], key
        assert entry["source"].startswith("published: arXiv") == key.startswith("published."), key
    assert numbers["candidates"]["value"] == len(rows["candidates"])
    assert numbers["policy.codegen.pass_rate"]["n"] == 24
    versions = {(row["source"], row["version"].partition("+")[0]) for row in rows["operators"] if row["version"]}
    assert numbers["operators.libraries"]["value"] == sorted(f"{source} {version}" for source, version in versions)
    assert numbers["published.cuda_agent.all.speedup_compile"]["value"] == 2.11
    assert not [k for k in numbers if "llm" in k or k.startswith("params.execution")]
    assert numbers["params.seed"]["value"] == parameters.seed
    assert numbers["params.sandbox.memory_mb"] == {"value": 6000, "unit": "MiB", "source": "params.yaml", "n": None}
    assert numbers["params.policies.codegen.kind"]["value"] == "codegen"


def test_policies_that_ran_are_printed_without_their_endpoints(rows):
    server = {"base_url": "http://private", "model": "m"}
    settings = params.load(ROOT, "laptop", {"rollouts": {"policies": ["openai"]}, "policies": {"openai": server}})
    numbers = numbers_of(rows, settings)
    assert numbers["params.policies.openai.temperature"]["value"] == 1.0
    assert not [k for k in numbers if k.startswith("params.policies.codegen")]
    assert not [k for k, entry in numbers.items() if "private" in str(entry) or k.endswith("api_key_env")]


@pytest.mark.parametrize("policies", [("codegen",), ("codegen", "openai")])
def test_rollouts_that_were_judged_and_kernels_that_were_submitted_are_told_apart(policies, tmp_path):
    rows, settings = synthetic_run.make(policies=policies), params.load(ROOT, "laptop")
    for row in rows["judgements"][:5]:
        row["status"] = "no_submission"
    lay_out(tmp_path, rows, settings)
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    tried, left = 24 * len(policies), 24 * len(policies) - 5
    assert (numbers["rollouts_judged"]["value"], numbers["rollouts_judged"]["unit"]) == (tried, "rollouts")
    assert (numbers["submitted"]["value"], numbers["submitted"]["unit"]) == (left, "kernels")
    who = "The policy codegen tried 24 tasks" if len(policies) == 1 else "2 policies made 48 rollouts"
    assert re.search(rf"{who}\s+and submitted {left} kernels", said(tmp_path, "<abstract>"))


def test_sources_that_no_task_came_from_are_named(rows, parameters):
    assert numbers_of(rows, parameters)["tasks.missing_sources"]["value"] == []
    left = [t for t in rows["tasks"] if t["data_source"] not in ("torch#1", "transformers")]
    numbers = numbers_of({**rows, "tasks": left}, parameters)
    assert numbers["tasks.missing_sources"]["value"] == ["torch#1", "transformers"]


@pytest.mark.parametrize(
    ("overrides", "there", "absent"),
    [
        ({}, ["All are at 95 %.", "with intervals at 95 %.", "by more than 5 % of"], []),
        ({"results": {"confidence": 0.995}}, ["All are at 99.5 %.", "with intervals at 99.5 %."], ["95 %", "100 %."]),
        ({"results": {"faster_margin": 0.125}}, ["by more than 12.5 % of"], ["more than 5 %", "13 %"]),
        ({"results": {"fast_p": [0.5, 1]}}, ["the tables list."], ["p = 0"]),
        ({"synthesis": {"mix": {"torch#1": 408}}}, ["in proportions of our own"], ["of the published set; op"]),
        ({"filtering": {"time_window_ms": [1, 100]}}, ["play no part."], ["is not the published one"]),
    ],
)
def test_what_the_text_says_of_parameters_is_the_runs_own(rows, overrides, there, absent, tmp_path):
    settings = params.load(ROOT, "laptop", overrides)
    lay_out(tmp_path, rows, settings)
    text = said(tmp_path, "par", "figure.caption", "list")
    assert [phrase for phrase in there if phrase not in text] == []
    assert [phrase for phrase in absent if phrase in text] == []


def test_the_paper_says_what_makes_it_again_and_what_that_needs(rows, parameters, tmp_path):
    lay_out(tmp_path, rows, parameters)
    text = said(tmp_path, "par")
    assert "snakemake --cores all --config run=laptop measurements=pinned makes this file" in text
    assert "once that is kept in data/pinned/laptop (make pin RUN=laptop);" in text


def prose(text):
    """The paper's text without code, raw text, references and comments."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"#(let|set|show|import|counter)\b.*|@[a-z][\w-]*", "", text)
    text = re.sub(r"#if [^\[{]*|\bwritten\(.*", "", text)
    out, depth, i = [], 0, 0
    while i < len(text):  # drop (...) with all that is nested in them, after a function's name
        if depth == 0 and (call := re.match(r"#?[\w.-]*\(", text[i:])) and text[i] == "#":
            depth, i = 1, i + call.end()
        elif depth:
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            i += 1
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def test_no_number_is_typed_by_hand():
    text = prose((PAPER / "paper.typ").read_text())
    assert "Reinforcement learning of kernel writing" in text  # the filter above left the prose
    allowed = {"Table 1 of CUDA Agent"}
    for phrase in allowed:
        assert phrase in text
        text = text.replace(phrase, "")
    assert re.findall(r".*\d.*", text) == []


def test_every_reference_is_cited_and_every_citation_is_there():
    keys = set(re.findall(r"^@\w+\{(\w+),", (PAPER / "refs.bib").read_text(), re.MULTILINE))
    text = (PAPER / "paper.typ").read_text()
    labels = set(re.findall(r"<([\w-]+)>", text))
    assert set(re.findall(r"@([a-z][\w-]*)", text)) - labels == keys

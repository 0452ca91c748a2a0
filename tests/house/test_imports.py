"""Imports point one way, and no part of the library knows Snakemake, but for what writes dvc.yaml."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "workflow" / "cuda_agent"

# A module may import from its own layer's part and from lower layers.
LAYERS = [
    {"errors", "lifeline", "plain", "strict_yaml", "toolchain"},
    {"params", "records", "provenance", "progress", "machine"},
    {"journal", "made", "pinning"},
    {"tasks"},
    {"sandbox"},
    {"operators", "synthesis", "observation", "filtering", "decontamination", "workspace", "judge"},
    {"agent"},
    {"evaluation", "export", "figures", "paper"},
    {"job", "pipeline", "pulling", "readme", "recording", "sources"},
    {"cli"},
]
WITHIN = {
    ("synthesis", "operators"),
    ("judge", "workspace"),
    ("paper", "evaluation"),
    ("paper", "figures"),
    ("figures", "evaluation"),
    ("recording", "pulling"),
}
LEVEL = {part: i for i, parts in enumerate(LAYERS) for part in parts}


def part(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names if node.module == "cuda_agent")


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def test_every_part_has_its_place():
    assert {part(p) for p in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    mine = part(path)
    for name in imported(path):
        pieces = name.split(".")
        if pieces[0] == "snakemake":
            assert mine == "pipeline", f"{path} imports Snakemake"
        if pieces[0] != "cuda_agent" or len(pieces) < 2 or pieces[1] not in LEVEL:
            continue
        theirs = pieces[1]
        lower = LEVEL[theirs] < LEVEL[mine]
        assert theirs == mine or lower or (mine, theirs) in WITHIN, f"{path} imports {name}"

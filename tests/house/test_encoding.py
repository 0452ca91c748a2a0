"""Text is read and written as UTF-8 wherever the locale says something else; ruff's PLW1514 sees only part of it."""

import ast
from pathlib import Path

import pytest

WORKFLOW = Path(__file__).parents[2] / "workflow"
FILES = sorted(WORKFLOW.rglob("*.py"))


def opens_as_text(call):
    """Whether a call reads or writes text, and could name an encoding."""
    owner = getattr(getattr(call.func, "value", None), "id", "")
    match getattr(call.func, "attr", getattr(call.func, "id", "")):
        case "read_text":
            return True
        case "write_text":
            return len(call.args) == 1
        case "open" | "fdopen" if owner not in ("os", "tarfile") or call.func.attr == "fdopen":
            of_path = getattr(call.func, "attr", "") == "open"  # whose first argument is the mode
            given = [k.value for k in call.keywords if k.arg == "mode"] + call.args[0 if of_path else 1 :]
            modes = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            return not any("b" in mode for mode in modes)
        case _:
            return any(k.arg == "text" for k in call.keywords)


def lacking(text):
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if opens_as_text(call) and "encoding" not in {k.arg for k in call.keywords}]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(WORKFLOW)))
def test_an_encoding_is_named(path):
    found = lacking(path.read_text(encoding="utf-8"))
    assert not found, f"{path}: lines {found} take the locale's encoding"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("path.read_text()", True),
        ("path.read_text(errors='replace')", True),
        ("path.write_text('x', encoding='utf-8')", False),
        ("path.open()", True),
        ("path.open('w')", True),
        ("path.open('rb')", False),
        ("open('b')", True),
        ("open('a', 'rb')", False),
        ("os.open(path, os.O_RDONLY)", False),
        ("os.fdopen(1)", True),
        ("run(argv, text=True)", True),
    ],
)
def test_what_is_found(line, found):
    assert bool(lacking(line)) == found

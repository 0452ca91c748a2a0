"""Read, Write, Edit, MultiEdit, Glob, Grep and TodoWrite."""

import os

import pytest
from cuda_agent.agent.tools import schemas


def test_read_numbers_lines_and_pages(hand):
    (hand.folder / "a.txt").write_text("".join(f"l {i}\n" for i in range(1, 2501)))
    text = hand.good("Read", file_path="a.txt")
    assert text.splitlines()[0] == "     1\tl 1"
    assert "offset 2001" in text.splitlines()[-1]
    text = hand.good("Read", file_path=f"{hand.tools.shown_folder}/a.txt", offset=2500)
    assert text == "  2500\tl 2500"
    assert hand.good("Read", file_path="a.txt", offset=2, limit=1).startswith("     2\tl 2\n")
    assert "2500 lines" in hand.bad("Read", file_path="a.txt", offset=2501)


def test_read_stays_within_what_a_model_can_take(hand):
    (hand.folder / "wide").write_text(("x" * 5000 + "\n") * 100)
    text = hand.good("Read", file_path="wide")
    assert len(text) < 31_000
    assert "line cut" in text
    assert "go on with offset" in text


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda p: None, "No such file"),
        (lambda p: p.mkdir(), "folder"),
        (os.mkfifo, "regular file"),
        (lambda p: p.write_bytes(b"\xff\x00"), "not a text file"),
        (lambda p: p.symlink_to("/dev/zero"), "regular file"),
        (lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_WRONLY), 1 << 30), "bytes"),
    ],
)
def test_read_refuses_what_is_no_text_file(hand, make, why):
    make(hand.folder / "x")
    assert why in hand.bad("Read", file_path="x")


def test_empty_file_is_said_to_be_empty(hand):
    (hand.folder / "x").touch()
    assert "empty" in hand.good("Read", file_path="x")


def test_write_needs_a_read_before_it_replaces(hand):
    path = hand.folder / "x"
    hand.good("Write", file_path="sub/x", content="new\n")
    assert (hand.folder / "sub/x").read_text() == "new\n"
    path.write_text("theirs")
    assert "read it before" in hand.bad("Write", file_path="x", content="mine")
    assert path.read_text() == "theirs"
    hand.good("Read", file_path="x")
    path.write_text("changed")
    assert "changed since" in hand.bad("Write", file_path="x", content="mine")
    hand.good("Read", file_path="x")
    hand.good("Write", file_path="x", content="mine")
    hand.good("Write", file_path="x", content="mine again")
    assert path.read_text() == "mine again"


def test_write_reaches_nothing_outside(hand):
    hand.bad("Write", file_path="/etc/x", content="")
    for path in ("../x", "../../x", f"{hand.folder.parent}/x", "/tmp/workspace/../x"):
        hand("Write", file_path=path, content="")
    hand.good("Bash", command="ln -s / root")
    hand("Write", file_path=f"root{hand.folder.parent}/x", content="")
    assert not (hand.folder.parent / "x").exists()
    assert not (hand.folder.parent.parent / "x").exists()


def test_edit(hand):
    path = hand.folder / "x"
    path.write_text("a b a\n")
    assert "read it before" in hand.bad("Edit", file_path="x", old_string="b", new_string="c")
    hand.good("Read", file_path="x")
    assert "2 times" in hand.bad("Edit", file_path="x", old_string="a", new_string="c")
    assert "does not occur" in hand.bad("Edit", file_path="x", old_string="z", new_string="c")
    assert "the same" in hand.bad("Edit", file_path="x", old_string="b", new_string="b")
    assert "empty" in hand.bad("Edit", file_path="x", old_string="", new_string="b")
    assert path.read_text() == "a b a\n"
    assert "     1\tc b c" in hand.good("Edit", file_path="x", old_string="a", new_string="c", replace_all=True)
    assert path.read_text() == "c b c\n"
    hand.good("Edit", file_path="new", old_string="", new_string="text")
    assert (hand.folder / "new").read_text() == "text"


def test_multi_edit_makes_all_or_none(hand):
    path = hand.folder / "x"
    path.write_text("one two\n")
    hand.good("Read", file_path="x")
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "1 two", "new_string": "1 2"}]
    text = hand.bad("MultiEdit", file_path="x", edits=[*edits, {"old_string": "two", "new_string": "2"}])
    assert "edit 3" in text
    assert path.read_text() == "one two\n"
    hand.good("MultiEdit", file_path="x", edits=edits)
    assert path.read_text() == "1 2\n"


def test_glob_is_sorted_and_takes_absolute_patterns(hand):
    for name in ("b/z.cu", "a.cu", "b/y.cpp", ".hidden/q.cu"):
        (hand.folder / name).parent.mkdir(exist_ok=True)
        (hand.folder / name).touch()
    here = hand.tools.shown_folder
    assert hand.good("Glob", pattern="**/*.cu").splitlines() == [f"{here}/a.cu", f"{here}/b/z.cu"]
    assert hand.good("Glob", pattern=f"{here}/b/*", path="b").splitlines() == [f"{here}/b/y.cpp", f"{here}/b/z.cu"]
    assert hand.good("Glob", pattern="*.py") == "No file matches."
    hand.bad("Glob", pattern="*", path="nowhere")


def test_grep(hand):
    (hand.folder / "a.cu").write_text("zero\nOne\ntwo\nthree\n")
    (hand.folder / "b.py").write_text("one\n")
    (hand.folder / "c.bin").write_bytes(b"one\0")
    os.mkfifo(hand.folder / "pipe")
    here = hand.tools.shown_folder
    assert hand.good("Grep", pattern="one") == f"{here}/b.py"
    assert hand.good("Grep", **{"pattern": "one", "-i": True, "glob": "*.cu"}) == f"{here}/a.cu"
    assert hand.good("Grep", pattern="t[wh]", output_mode="count") == f"{here}/a.cu:2"
    lines = hand.good("Grep", **{"pattern": "One", "output_mode": "content", "-n": True, "-A": 1})
    assert lines.splitlines() == [f"{here}/a.cu:2:One", f"{here}/a.cu-3-two"]
    assert hand.good("Grep", pattern="zero.*two", multiline=True, output_mode="count") == f"{here}/a.cu:3"
    assert hand.good("Grep", pattern="nothing") == "Nothing matches."
    assert "regular expression" in hand.bad("Grep", pattern="(")
    hand.bad("Grep", pattern="x", path="nowhere")


def test_a_plan_has_one_item_in_progress(hand):
    todo = {"content": "do", "status": "in_progress", "activeForm": "doing"}
    assert "1 items" in hand.good("TodoWrite", todos=[todo])
    hand.bad("TodoWrite", todos=[todo, todo])


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("Telnet", "{}", "there is no tool 'Telnet'"),
        (None, "{}", "there is no tool"),
        ("Bash", "{", "not JSON"),
        ("Bash", "[" * 100_000, "not JSON"),
        ("Bash", '{"command": 1}', "command"),
        ("Bash", "{}", "command"),
        ("Bash", '{"command": "x", "cwd": "/"}', "cwd"),
        ("Bash", "[]", "wrong arguments"),
        ("Read", '{"file_path": "x", "offset": 0}', "offset"),
    ],
)
def test_wrong_arguments_are_told_to_the_model(tool, arguments, why):
    with pytest.raises(schemas.ArgumentError, match=why):
        schemas.parse(tool, arguments)


def test_definitions_are_plain_json_schemas():
    for definition in schemas.definitions():
        parameters = definition["function"]["parameters"]
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert set(parameters["required"]) <= set(parameters["properties"])
    names = [d["function"]["name"] for d in schemas.definitions()]
    assert names == [
        "Bash",
        "BashOutput",
        "KillBash",
        "Read",
        "Write",
        "Edit",
        "MultiEdit",
        "Glob",
        "Grep",
        "TodoWrite",
    ]

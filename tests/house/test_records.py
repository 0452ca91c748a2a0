"""Artefacts: same rows, same bytes; wrong rows are refused; nothing half-written is left."""

import math
import os
from pathlib import Path

import pytest
import zstandard
from cuda_agent import records
from hypothesis import given
from hypothesis import strategies as st

ROW = {
    "candidate_id": "c1",
    "rule": "finite",
    "detail": "2 of 8 values are not finite",
    "measured": "{}",
    "limits": "{}",
    "data_source": "torch#1",
    "code": "pass",
}

text = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(ROW, text)), max_size=8, unique_by=lambda r: r["candidate_id"]))
def test_rows_come_back_in_order_of_their_ids_and_bytes_do_not_depend_on_order_or_shards(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    records.write(folder / "a.parquet", rows, records.REJECTIONS)
    records.write(folder / "b.parquet", reversed(rows), records.REJECTIONS)
    records.write(folder / "0.parquet", rows[::2], records.REJECTIONS)
    records.write(folder / "1.parquet", rows[1::2], records.REJECTIONS)
    records.gather([folder / "1.parquet", folder / "0.parquet"], folder / "c.parquet", records.REJECTIONS)
    data = (folder / "a.parquet").read_bytes()
    assert data == (folder / "b.parquet").read_bytes() == (folder / "c.parquet").read_bytes()
    assert records.read(folder / "a.parquet", records.REJECTIONS) == sorted(rows, key=lambda r: r["candidate_id"])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({k: v for k, v in ROW.items() if k != "rule"}, "missing \\['rule'\\]"),
        ({**ROW, "extra": 1}, "unknown \\['extra'\\]"),
        ({**ROW, "rule": 7}, "rejections.parquet"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_and_the_old_file_stays(tmp_path, row, said):
    path = tmp_path / "rejections.parquet"
    records.write(path, [ROW], records.REJECTIONS)
    before = path.read_bytes()
    with pytest.raises(records.RecordError, match=said):
        records.write(path, [row], records.REJECTIONS)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_file_of_another_schema_is_refused_by_name(tmp_path):
    records.write(tmp_path / "x.parquet", [ROW], records.REJECTIONS)
    with pytest.raises(records.RecordError, match="another version"):
        records.read(tmp_path / "x.parquet", records.VERDICTS)


def test_a_damaged_file_is_named_with_what_to_do_at_whatever_length_it_was_cut(tmp_path):
    table, lines = tmp_path / "x.parquet", tmp_path / "x.jsonl.zst"
    records.write(table, [ROW], records.REJECTIONS)
    records.write_jsonl(lines, [dict.fromkeys(records.TRAJECTORY, "some words " * i) for i in range(50)])
    readers = {table: lambda: records.read(table, records.REJECTIONS), lines: lambda: list(records.read_jsonl(lines))}
    for path, read in readers.items():
        whole = path.read_bytes()
        for share in (0.0, 0.1, 0.3, 0.5, 0.9, 0.999):
            path.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(records.RecordError, match=rf"{path.name}: damaged .* run the same command again"):
                read()
        path.write_bytes(whole)
        assert read()


@pytest.mark.parametrize("name", ["rejections.parquet", "trajectories.jsonl.zst"])
@given(random=st.randoms(use_true_random=False))
def test_bytes_changed_anywhere_are_noticed_or_change_nothing_that_is_read(tmp_path_factory, name, random):
    path = tmp_path_factory.mktemp("damage") / name
    rows = [ROW | {"candidate_id": f"c{i}", "code": "x = 1\n" * i} for i in range(40)]
    if name.startswith("rejections"):
        records.write(path, rows, records.REJECTIONS)
    else:
        records.write_jsonl(path, [row | dict.fromkeys(records.TRAJECTORY, "") for row in rows])
    whole = path.read_bytes()
    rows = records.read_artefact(path)
    damaged = bytearray(whole)
    end = len(whole) - 8
    if name.startswith("rejections"):  # its pages; what describes them comes after, and may name other columns
        end -= int.from_bytes(whole[-8:-4], "little")
    for at in random.sample(range(4, end), random.choice([1, 16])):
        damaged[at] ^= random.randrange(1, 256)
    path.write_bytes(damaged)
    try:
        assert records.read_artefact(path) == rows
    except records.RecordError as error:
        assert f"{path}: damaged" in str(error)


def test_every_column_is_documented():
    schemas = {k: v for k, v in vars(records).items() if isinstance(v, type(records.TASKS))}
    assert len(schemas) >= 9
    for name, schema in schemas.items():
        for field in schema:
            assert field.metadata[b"doc"], f"{name}.{field.name}"


def test_tasks_begin_as_the_official_dataset_does():
    assert records.TASKS.names[:3] == ["ops", "data_source", "code"]


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | text, st.lists, max_leaves=5))
def test_json_lines_come_back_and_what_json_lacks_becomes_text(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("lines") / "x.jsonl.zst"
    whole = dict.fromkeys(records.TRAJECTORY, "")
    records.write_jsonl(path, [{"value": value, **whole}])
    [row] = records.read_jsonl(path)

    def expected(v):
        if isinstance(v, list):
            return [expected(x) for x in v]
        return str(v) if isinstance(v, float) and not math.isfinite(v) else v

    assert row == {"value": expected(value), **whole}


def test_no_rows_are_a_file_of_no_rows_and_a_file_of_nothing_is_damaged(tmp_path):
    path = tmp_path / "x.jsonl.zst"
    records.write_jsonl(path, [])
    assert list(records.read_jsonl(path)) == []
    for data, said in ((b"", "it is empty"), (path.read_bytes()[:-1], "it is cut short")):
        path.write_bytes(data)
        with pytest.raises(records.RecordError, match=rf"x\.jsonl\.zst: damaged \({said}\)"):
            list(records.read_jsonl(path))


def test_what_follows_the_first_frame_is_read_as_well_or_is_damage(tmp_path):
    path, row = tmp_path / "x.jsonl.zst", dict.fromkeys(records.TRAJECTORY, "")
    records.write_jsonl(path, [row])
    whole = path.read_bytes()
    path.write_bytes(2 * whole)
    assert list(records.read_jsonl(path)) == [row, row]
    for rest in (b"x", whole[:-3]):
        path.write_bytes(whole + rest)
        with pytest.raises(records.RecordError, match="damaged"):
            list(records.read_jsonl(path))


@pytest.mark.parametrize("foreign", [{"prompt": "x"}, 5, None])
def test_json_lines_of_something_else_are_refused_by_line(tmp_path, foreign):
    path = tmp_path / "x.jsonl.zst"
    text = records.dumps(dict.fromkeys(records.TRAJECTORY, "")) + "\n" + records.dumps(foreign) + "\n"
    path.write_bytes(zstandard.compress(text.encode()))
    with pytest.raises(records.RecordError, match=r"x\.jsonl\.zst: line 2 is no trajectory, as it has no .*messages"):
        list(records.read_jsonl(path))


def test_a_link_is_followed_and_a_pipe_written_into(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    records.write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        records.write_bytes(tmp_path / "pipe", b"through")
        assert os.read(reader, 99) == b"through"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "folder", tmp_path / "file" / "x", Path("/proc/zz")):
        with pytest.raises(OSError) as error:
            records.write_bytes(target, b"")
        assert error.value.filename == str(target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("name", ["submissions.parquet", "trajectories.jsonl.zst"])
def test_an_artefact_is_cut_to_the_tasks_that_are_left(tmp_path, name):
    def row(task):
        if name.startswith("trajectories"):
            return {"task_id": task, "policy": "p", "messages": [], "tools": []}
        return {f.name: None for f in records.SUBMISSIONS} | {"task_id": task}

    source, target = tmp_path / name, tmp_path / "cut" / name
    rows = [row(task) for task in ("a", "b", "c")]
    if name.startswith("trajectories"):
        records.write_jsonl(source, rows)
    else:
        records.write(source, rows, records.SUBMISSIONS)
    assert records.cut(source, target, {"a", "b", "c", "d"}) == 0
    assert target.read_bytes() == source.read_bytes()
    assert records.cut(source, target, {"a", "c", "d"}) == 1
    assert [r["task_id"] for r in records.read_artefact(target)] == ["a", "c"]
    assert records.cut(source, target, set()) == 3
    assert records.read_artefact(target) == []

"""The schema of every artefact, and the only code that reads and writes them.

Rows are sorted before they are written: the same rows give the same bytes for the same pyarrow. Columns that hold
nested evidence are JSON text with sorted keys.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import math
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from cuda_agent.errors import UserError

Row = dict[str, Any]

TEXT, INT, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS = pa.list_(pa.string())


class RecordError(UserError, ValueError):
    """An artefact does not have the columns or types it should have."""


def schema(columns: Mapping[str, tuple[pa.DataType, str]]) -> pa.Schema:
    """Build a schema whose fields carry their documentation (shown on the dataset card)."""
    return pa.schema([pa.field(name, kind, metadata={"doc": doc}) for name, (kind, doc) in columns.items()])


HARDWARE = {
    "device": (TEXT, "cpu or cuda"),
    "device_name": (TEXT, "model of the processor or GPU that ran it"),
    "versions": (TEXT, "JSON: python, torch, CUDA, driver, compiler"),
    "isolation": (TEXT, "what kept the code apart: e.g. userns+netns+landlock+seccomp"),
    "code_hash": (TEXT, "hash of the project's code that measured it"),
}

OPERATORS = schema(
    {
        "name": (TEXT, "qualified name, e.g. torch.nn.ReLU"),
        "source": (TEXT, "torch or transformers"),
        "kind": (TEXT, "pointwise, reduction, normalization, contraction, convolution, pooling, ..."),
        "spelling": (TEXT, "module, function or method"),
        "status": (TEXT, "verified or excluded"),
        "reason": (TEXT, "why it was excluded; empty if verified"),
        "recipe": (TEXT, "JSON: how to build and call it, read by synthesis"),
        "examples": (
            TEXT,
            "JSON: list of {init, inputs: [{shape, dtype}], outputs: [{shape, dtype}]} that were run",
        ),
        "source_module": (TEXT, "module that defines it"),
        "version": (TEXT, "version of the library"),
        "spdx": (TEXT, "licence of its source"),
    }
)

CANDIDATES = schema(
    {
        "candidate_id": (TEXT, "c followed by its number in the run"),
        "ops": (TEXTS, "operators that synthesis meant it to have"),
        "data_source": (TEXT, "torch#1 to torch#5, or transformers"),
        "code": (TEXT, "the module: Model, get_inputs, get_init_inputs"),
        "composer": (TEXT, "stack or llm"),
        "operators": (TEXTS, "qualified names in the operator catalogue"),
        "spdx": (TEXTS, "licences of the sources"),
    }
)

OBSERVATIONS = schema(
    {
        "candidate_id": (TEXT, "which candidate"),
        "candidate_hash": (TEXT, "hash of its code, so that it is held to be of no other"),
        "status": (
            TEXT,
            "ok, or how running it ended: error, timeout, memory, crashed, exited, output, processes",
        ),
        "stage": (
            TEXT,
            "what was being done when it ended: load, build, eager, float64, trace, compile, time",
        ),
        "error": (TEXT, "exception type and message, or signal; empty if ok"),
        "compile_error": (TEXT, "why torch.compile failed; empty if it ran"),
        "ops": (TEXTS, "operators seen when it ran, in order"),
        "aten_ops": (TEXTS, "distinct ATen operators seen by the dispatcher, sorted"),
        "random_ops": (TEXTS, "those of them that draw random numbers"),
        "inputs": (TEXT, "JSON: list of {shape, dtype} of the inputs"),
        "outputs": (TEXT, "JSON: list of {shape, dtype} of the outputs"),
        "parameters": (INT, "number of parameters"),
        "flops": (
            INT,
            "floating-point operations of its contractions, convolutions and attention; null where none were counted",
        ),
        "bytes": (INT, "bytes of inputs, parameters, buffers and outputs"),
        "nonfinite": (INT, "NaN or infinite values in the outputs"),
        "output_std": (REAL, "standard deviation over all output values of one call"),
        "output_scale": (REAL, "root mean square of the outputs"),
        "repeat_difference": (
            REAL,
            "largest |difference| between two calls on the same input, over output_scale",
        ),
        "input_difference": (REAL, "largest |difference| between outputs for two inputs, over output_scale"),
        "eager_error": (REAL, "largest |eager - float64| over output_scale; null where float64 did not run"),
        "compile_error_value": (
            REAL,
            "largest |compiled - float64| over output_scale (against eager without float64)",
        ),
        "compile_difference": (
            REAL,
            "smallest t with |compiled - eager| <= t (output_scale + |eager|) everywhere; null where none would do",
        ),
        "eager_ms": (REAL, "median time of one eager forward, milliseconds"),
        "eager_ms_iqr": (REAL, "interquartile range of it"),
        "compile_ms": (REAL, "median time of one compiled forward, milliseconds"),
        "peak_mb": (REAL, "peak memory of the process (cpu) or of the allocator (cuda), MiB"),
        "wall_s": (REAL, "seconds that observing it took"),
        **HARDWARE,
    }
)

REJECTIONS = schema(
    {
        "candidate_id": (TEXT, "which candidate"),
        "rule": (TEXT, "name of the rule that it failed first"),
        "detail": (TEXT, "what was observed, in words"),
        "measured": (TEXT, "JSON: the numbers that the rule looked at"),
        "limits": (TEXT, "JSON: the parameters that they were held against"),
        "data_source": (TEXT, "torch#1 to torch#5, or transformers"),
        "code": (TEXT, "the module"),
    }
)

_MEASURED = {
    name: (OBSERVATIONS.field(name).type, OBSERVATIONS.field(name).metadata[b"doc"].decode())
    for name in (
        *("inputs", "outputs", "aten_ops", "parameters", "flops", "bytes", "output_scale"),
        *("eager_ms", "eager_ms_iqr", "compile_ms", "peak_mb", "device", "device_name", "versions"),
    )
}

_OFFICIAL = {
    "ops": (TEXTS, "operators that the code was seen to run, in order"),
    "data_source": (TEXT, "torch#1 to torch#5 (how many torch operators), or transformers"),
    "code": (TEXT, "the module: Model, get_inputs, get_init_inputs"),
}

FILTERED = schema(
    {
        **_OFFICIAL,
        "candidate_id": (TEXT, "which candidate"),
        "composer": (TEXT, "stack or llm"),
        "spdx": (TEXTS, "licences of the sources"),
        **_MEASURED,
    }
)

TASKS = schema(
    {
        **_OFFICIAL,
        "task_id": (TEXT, "hash of the module's normal form"),
        "split": (TEXT, "train or test"),
        "candidate_id": (TEXT, "which candidate it was"),
        "composer": (TEXT, "stack or llm"),
        "spdx": (TEXTS, "licences of the sources"),
        "nearest_problem": (TEXT, "most similar KernelBench problem, as revision/level/problem"),
        "nearest_similarity": (REAL, "its similarity, 0 to 1"),
        **_MEASURED,
    }
)

UINTS = pa.list_(pa.uint32())

FINGERPRINTS = schema(
    {
        "name": (TEXT, "problem, as revision/level/problem"),
        "scheme": (TEXT, "how it was made: those of another scheme must not be compared"),
        "exact": (TEXT, "hash of the module's normal form"),
        "structure": (TEXT, "hash of the model without names, sizes and other numbers"),
        "sequence": (TEXT, "hash of the operators that the text calls, in order"),
        "multiset": (TEXT, "hash of these operators without their order"),
        "minhash": (UINTS, "MinHash signature of the structure's tokens in sequence"),
        "subtrees": (UINTS, "hashes of the structure's subtrees, with repetitions"),
    }
)

SUBMISSIONS = schema(
    {
        "task_id": (TEXT, "which task"),
        "policy": (TEXT, "name of the policy"),
        "status": (TEXT, "finished, gave_up, max_turns, max_tokens, timeout, failed or machine_error"),
        "files": (TEXT, "JSON: path in the workspace -> text, of all that the judge needs"),
        "turns": (INT, "answers of the policy"),
        "tool_calls": (INT, "tool calls it made"),
        "prompt_tokens": (INT, "tokens read"),
        "completion_tokens": (INT, "tokens written"),
        "wall_s": (REAL, "seconds that the rollout took"),
    }
)

JUDGEMENTS = schema(
    {
        "task_id": (TEXT, "which task"),
        "policy": (TEXT, "name of the policy"),
        "status": (
            TEXT,
            "ok, or how it ended: no_submission, build, load, machine, or a status of the sandbox's Outcome",
        ),
        "stage": (TEXT, "what was being done when it ended: submission, build, load, check, time"),
        "error": (TEXT, "message, cut to size; empty if ok"),
        "build_s": (REAL, "seconds that the build took"),
        "checks": (TEXT, "JSON: list of correctness records, one for each trial and property"),
        "launched": (TEXT, "JSON: operators and kernels seen while the candidate ran"),
        "times": (
            TEXT,
            "JSON: {name: list of milliseconds} of interleaved samples for candidate, eager and compile",
        ),
        "wall_s": (REAL, "seconds that judging took"),
        **HARDWARE,
    }
)

VERDICTS = schema(
    {
        "task_id": (TEXT, "which task"),
        "policy": (TEXT, "name of the policy"),
        "compiled": (FLAG, "the kernel was built and loaded"),
        "correct": (FLAG, "every check passed"),
        "compliant": (FLAG, "it ran its own kernels and none that the rules forbid"),
        "reasons": (TEXTS, "what it violated, most important first; empty if nothing"),
        "precision": (TEXT, "precision class: float64, float32, tf32, half"),
        "time_ms": (REAL, "median time of the candidate"),
        "eager_ms": (
            REAL,
            "median time of the eager baseline, beside the candidate; the task's was taken before, alone",
        ),
        "compile_ms": (REAL, "median time of the torch.compile baseline"),
        "speedup_eager": (REAL, "median of the paired ratios eager / candidate, not the quotient of the medians"),
        "speedup_eager_low": (REAL, "lower end of its bootstrap interval"),
        "speedup_eager_high": (REAL, "upper end of its bootstrap interval"),
        "speedup_compile": (REAL, "median of the paired ratios compile / candidate, not the quotient of the medians"),
        "speedup_compile_low": (REAL, "lower end of its bootstrap interval"),
        "speedup_compile_high": (REAL, "upper end of its bootstrap interval"),
        "reward": (INT, "-1, 1, 2 or 3"),
    }
)

# The artefacts that are tables, by the names of their files; trajectories are lines of JSON.
ARTEFACTS = {
    "operators": OPERATORS,
    "candidates": CANDIDATES,
    "observations": OBSERVATIONS,
    "rejections": REJECTIONS,
    "contaminated": REJECTIONS,
    "tasks": TASKS,
    "submissions": SUBMISSIONS,
    "judgements": JUDGEMENTS,
    "verdicts": VERDICTS,
}


def dumps(value: Any) -> str:
    """JSON text with sorted keys; NaN and infinities become the strings "nan", "inf" and "-inf"."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def write_bytes(path: Path | str, data: bytes) -> None:
    """Write a file as a whole or not at all; its folder is made. A device or a pipe is written into, a link followed.

    Raises:
        OSError: it cannot be written; names the file.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(path))
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve() if path.is_symlink() else path
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None


def write(
    path: Path | str, rows: Iterable[Row], schema: pa.Schema, sort_by: str | tuple[str, ...] | None = None
) -> None:
    """Write rows as parquet, atomically; ``sort_by`` defaults to the first column that names an item.

    Raises:
        RecordError: a row has a column that the schema does not know, lacks one, or has a value of the wrong type.
    """
    rows = list(rows)
    names = set(schema.names)
    for i, row in enumerate(rows):
        if set(row) != names:
            raise RecordError(
                f"{path}: row {i}: missing {sorted(names - set(row))}, unknown {sorted(set(row) - names)}"
            )
    if sort_by is None:
        sort_by = next((n for n in ("task_id", "candidate_id", "name") if n in names), ())
    keys = (sort_by,) if isinstance(sort_by, str) else sort_by
    rows.sort(key=lambda r: tuple(r[k] for k in keys))
    try:
        table = pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RecordError(f"{path}: {error}") from None
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=9, write_page_checksum=True)
    write_bytes(path, buffer.getvalue())


def read(path: Path | str, schema: pa.Schema) -> list[Row]:
    """Read a parquet artefact as a list of rows.

    Raises:
        RecordError: the file is damaged, or has other columns than the schema.
    """
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        rows = table.to_pylist()
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # what pyarrow raises depends on where the damage is
        raise RecordError(f"{path}: damaged ({error}); delete it and run the same command again") from None
    if table.schema.names != schema.names:
        missing = sorted(set(schema.names) - set(table.schema.names))
        unknown = sorted(set(table.schema.names) - set(schema.names))
        raise RecordError(
            f"{path}: missing columns {missing}, unknown columns {unknown}; was it made by another version?"
        )
    return rows


def gather(paths: Iterable[Path | str], out: Path | str, schema: pa.Schema) -> None:
    """Join shards into one artefact; the result does not depend on how many shards there were."""
    write(out, [row for path in paths for row in read(path, schema)], schema)


# What every trajectory has; docs/agent.md says more of them.
TRAJECTORY = {"task_id", "policy", "messages", "tools"}


def write_jsonl(path: Path | str, rows: Iterable[Row]) -> None:
    """Write rows as zstandard-compressed JSON lines, atomically."""
    text = "".join(dumps(row) + "\n" for row in rows)
    write_bytes(path, zstandard.ZstdCompressor(level=12, write_checksum=True).compress(text.encode()))


def _decompressed(data: bytes) -> bytes:
    """All frames of a zstandard file one after the other, at least one: no rows are an empty frame and not nothing.

    Raises:
        ValueError, ZstdError: one is cut short, or there is something else.
    """
    if not data:
        raise ValueError("it is empty")
    parts = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(data))
        if not frame.eof:
            raise ValueError("it is cut short")
        data = frame.unused_data
    return b"".join(parts)


def read_jsonl(path: Path | str) -> Iterator[Row]:
    """Trajectories from a zstandard-compressed JSON lines file.

    Raises:
        RecordError: the file is damaged or cut short, or holds something else.
    """
    try:
        text = _decompressed(Path(path).read_bytes()).decode()
        rows = [json.loads(line) for line in text.split("\n") if line]
    except (zstandard.ZstdError, ValueError, RecursionError) as error:
        raise RecordError(f"{path}: damaged ({error}); delete it and run the same command again") from None
    for i, row in enumerate(rows):
        missing = sorted(TRAJECTORY - row.keys()) if isinstance(row, dict) else sorted(TRAJECTORY)
        if missing:
            raise RecordError(f"{path}: line {i + 1} is no trajectory, as it has no {', '.join(missing)}")
    yield from rows


def file_hash(path: Path) -> str:
    """Hash of what a file holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_artefact(path: Path | str, name: str | None = None) -> list[Row]:
    """Rows of an artefact: of the one of this name, or that the file is named after.

    Raises what :func:`read` and :func:`read_jsonl` raise.
    """
    schema = ARTEFACTS.get(name or Path(path).stem)
    return read(path, schema) if schema else list(read_jsonl(path))


def cut(source: Path, target: Path, tasks: Container[str]) -> int:
    """Copy an artefact without the rows of other tasks than these; byte for byte where there are none.

    Returns:
        How many rows were left out.
    """
    rows = read_artefact(source)
    kept = [row for row in rows if row["task_id"] in tasks]
    if len(kept) == len(rows):
        write_bytes(target, source.read_bytes())
    elif target.stem in ARTEFACTS:
        write(target, kept, ARTEFACTS[target.stem])
    else:
        write_jsonl(target, kept)
    return len(rows) - len(kept)


def read_csv(path: Path | str) -> list[dict[str, str]]:
    """Rows of a table with a head."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def json_text(value: Any) -> str:
    """One JSON document, indented; see `dumps`."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def write_json(path: Path | str, value: Any) -> None:
    """Write one JSON document, indented, atomically."""
    write_bytes(path, json_text(value).encode())

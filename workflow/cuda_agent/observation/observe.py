"""Observe candidates: what the trusted side does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence

import pyarrow as pa

from cuda_agent import machine, params, provenance, records
from cuda_agent.errors import UserError
from cuda_agent.journal import Journal
from cuda_agent.records import Row
from cuda_agent.sandbox import Limits, Outcome, Pool, Session, device_lock
from cuda_agent.tasks.hashes import text_hash

_SEEN = {name: records.OBSERVATIONS.field(name).type for name in records.OBSERVATIONS.names}
for _name in ("candidate_id", "candidate_hash", "status", "stage", "error", "wall_s", *records.HARDWARE):
    del _SEEN[_name]
_UNSEEN = {pa.string(): "", pa.list_(pa.string()): [], pa.int64(): None, pa.float64(): None}
_PYTHON = {pa.string(): str, pa.list_(pa.string()): list, pa.int64(): int, pa.float64(): float | int}
# What a child may not have been able to tell; a count that rules look at is always there.
_MAY_BE_NULL = {"flops"} | {name for name, kind in _SEEN.items() if kind == pa.float64()}
_EMPTY = {"inputs": "[]", "outputs": "[]"}


class ObservationError(UserError, RuntimeError):
    """The machine kept candidates from being observed. The message says how many, why, and what to do."""


def observe(
    candidates: Sequence[Row],
    observation: params.Observation,
    sandbox: params.Sandbox,
    *,
    seed: int,
    workers: int,
    journal: Journal,
    progress: Callable[..., None],
) -> list[Row]:
    """Run every candidate in a process of its own and record what it showed.

    Each is loaded, built, run in eager mode, in float64 and traced; compiled only if that went well; and timed while
    nothing else of this project runs on the device.

    Args:
        candidates: rows of ``records.CANDIDATES``.
        observation, sandbox: sections of the parameters.
        seed: of the run; weights and inputs depend on it and on the candidate's code alone.
        workers: how many candidates are worked on at once.
        journal: candidates that an earlier job had observed.
        progress: called once for each candidate.

    Returns:
        Rows of ``records.OBSERVATIONS`` in the order of the candidates.

    Raises:
        IsolationError: this machine cannot keep the candidates apart.
        DeviceError: this machine lacks the device.
        MachineError: a sandboxed process cannot use it.
        ObservationError: the machine failed on some of them, twice; the others are in the journal by then.
    """
    hardware = provenance.hardware(observation.device)
    code_hash = provenance.code_hash("cuda_agent.observation")
    parts = [observation.model_dump(), sandbox.model_dump(), seed, code_hash, hardware]
    rows: dict[int, Row] = {}
    todo: list[tuple[int, str]] = []
    for i, candidate in enumerate(candidates):
        key = Journal.key(candidate["code"], *parts)
        found = journal.get(key)
        if found is None:
            todo.append((i, key))
        else:
            rows[i] = found
            progress(f"{candidate['candidate_id']} {found['status']}", resumed=True)
    failed: list[str] = []
    if todo:
        machine.check_device(observation.device, compiles=False)
        with Pool(observation.device, sandbox, workers) as pool:
            pool.check_gpu()
            constant = {**hardware, "isolation": pool.isolation, "code_hash": code_hash}

            def drive(item: tuple[int, str]) -> Row:
                return _observe_one(pool, candidates[item[0]]["code"], observation, seed) | constant

            def short(row: Row) -> bool:
                return pool.device == "cuda" and row["status"] == "memory"

            for (i, key), row in pool.map(drive, todo, again=short):
                name = candidates[i]["candidate_id"]
                if row["status"] == "machine":
                    failed.append(f"{name}: {row['error']}")
                else:
                    journal.put(key, row)
                    rows[i] = row
                progress(f"{name} {row['status']}")
    if failed:
        raise ObservationError(
            f"{len(failed)} of {len(candidates)} candidates were not observed, because of the machine and not of them; "
            f"first {failed[0]}. Free what is short or lower execution.threads and sandbox.memory_mb, then run again: "
            "the others are kept"
        )
    return [_about(candidates[i]) | rows[i] for i in sorted(rows)]


def _about(candidate: Row) -> Row:
    return {"candidate_id": candidate["candidate_id"], "candidate_hash": text_hash(candidate["code"])}


def _item_seed(seed: int, code: str) -> int:
    """Seed of one candidate, below 2**62 so that its neighbours are seeds as well."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{code}".encode()).digest()[:8], "big") >> 2


def _observe_one(pool: Pool, code: str, observation: params.Observation, seed: int) -> Row:
    limits = Limits.of(pool.sandbox, observation.timeout_s)
    row: Row = {}
    for _ in range(2):
        with pool.session(limits) as session:
            row = _steps(session, code, observation, _item_seed(seed, code))
        if row["status"] != "machine":
            break
    return row


def _steps(session: Session, code: str, observation: params.Observation, seed: int) -> Row:
    """Go through the stages until one fails."""
    device = observation.device
    row: Row = {name: _EMPTY.get(name, _UNSEEN[kind]) for name, kind in _SEEN.items()}
    row |= {"status": "ok", "stage": "", "error": "", "wall_s": 0.0}
    threads = observation.torch_threads or len(os.sched_getaffinity(0))
    calls = (
        ("examine", {"code": code, "seed": seed, "device": device, "threads": threads}, False),
        ("compile_model", {}, False),
        ("measure", {"device": device, "warmup": observation.warmup, "repeats": observation.repeats}, True),
    )
    for target, payload, alone in calls:
        with device_lock(device, exclusive=alone):
            outcome = session.call(f"cuda_agent.observation.probe:{target}", payload)
        row["wall_s"] += outcome.wall_s
        row["stage"] = outcome.stage
        status, error = outcome.status, outcome.error
        if status == "ok":
            error = _take(row, outcome)
            status = "error" if error else "ok"
        if row["peak_mb"] is None:
            row["peak_mb"] = outcome.peak_mb
        if status != "ok":
            row |= {"status": status, "error": error.partition("\n")[0]}
            break
    return row


def _take(row: Row, outcome: Outcome) -> str:
    """Put what a child answered into the row; what is wrong with the answer, or nothing.

    The child ran code that nobody has read: its answer has the right columns and types, or counts as an error.
    """
    answer = outcome.value
    if not isinstance(answer, dict):
        return f"malformed reply: {type(answer).__name__}, not an object"
    for name, value in answer.items():
        kind = _SEEN.get(name)
        if kind is None:
            return f"malformed reply: unknown column {name[:100]!r}"
        fits = isinstance(value, _PYTHON[kind]) and not isinstance(value, bool)
        if isinstance(value, list):
            fits = fits and all(isinstance(v, str) for v in value)
        elif kind == pa.int64():
            fits = fits and -(2**63) <= value < 2**63
        if not fits and not (value is None and name in _MAY_BE_NULL):
            return f"malformed reply: {name} is {type(value).__name__}"
    row |= {k: float(v) if isinstance(v, int) and _SEEN[k] == pa.float64() else v for k, v in answer.items()}
    return ""

"""Judge submissions: build each in a fresh workspace, check it, time it."""

from __future__ import annotations

import json
import os
import random
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_agent import machine, provenance, records, workspace
from cuda_agent.judge import compliance
from cuda_agent.judge.checks import Candidate, Ended, Examination, Reference, TaskFails
from cuda_agent.judge.rules import check_fails
from cuda_agent.sandbox import Limits, MachineError, Pool, device_lock, private_folder

Row = dict[str, Any]

REFERENCE = "reference"  # stage of a judgement that the task itself kept from being made
ATTEMPTS = 2  # how often a submission is tried when the machine fails
GPU_CASES = 4  # judged at once on a GPU: each holds the inputs many times over, and timing is done by one at a time
_ROOM = 2**30  # bytes of inputs, weights or outputs that a task may have if its row does not say more
_ERROR_CHARACTERS = 4000


def _threads() -> int:
    return len(os.sched_getaffinity(0))


@dataclass
class _Case:
    """One submission that is being judged: what is asked, and what has been found so far."""

    pool: Pool
    task: Mapping[str, Any]
    files: Mapping[str, str]
    judging: Any
    backend: str
    rng: random.Random
    build_s: float = 0.0
    checks: list[Row] = field(default_factory=list)
    launched: dict[str, Any] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)

    def row(self, seed: int) -> Row:
        """Judge it once: the columns of a judgement that are not about what was judged and by whom.

        Raises:
            MachineError: the machine is at fault.
        """
        start = time.monotonic()
        end = {"status": "ok", "stage": "", "error": ""}
        try:
            with private_folder("cuda-agent-judge-") as folder:
                self._examine(Path(folder) / "work")
        except Ended as ended:
            end = {"status": ended.status, "stage": ended.stage, "error": ended.error[:_ERROR_CHARACTERS]}
        columns = {"checks": self.checks, "launched": {**self.launched, "seed": seed}, "times": self.times}
        texts = {name: records.dumps(value) for name, value in columns.items()}
        return {**end, **texts, "build_s": self.build_s, "wall_s": time.monotonic() - start}

    def _limits(self, timeout_s: float) -> Limits:
        return Limits.of(self.pool.sandbox, timeout_s)

    def _undisturbing(self) -> AbstractContextManager[None]:
        """For all work on the device that is no timing."""
        return device_lock(self.pool.device, exclusive=False)

    def _examine(self, folder: Path) -> None:
        if "model_new.py" not in self.files:
            raise Ended(
                "submission", "no_submission", "there is no model_new.py that is a regular file of at most 1 MiB"
            )
        try:
            workspace.restore(folder, self.task["code"], self.backend, self.files)
        except workspace.SubmissionError as error:
            raise Ended("submission", "no_submission", str(error)) from None
        self.launched["source"] = compliance.source_findings(dict(self.files))
        with self._undisturbing() if self.pool.device == "cpu" else nullcontext():
            self._build(folder)
        limits = self._limits(self.judging.timeout_s)
        reference = Reference(self.pool, limits, max(_ROOM, 2 * int(self.task.get("bytes") or 0)))
        setup = {"seed": self.rng.getrandbits(48), "device": self.pool.device, "threads": _threads()}
        with reference.session:
            with self._undisturbing():
                specs = reference.call("prepare", code=self.task["code"], **setup)
                candidate = Candidate(self.pool, limits, folder, specs)
            with candidate.session:
                self._compare(Examination(reference, candidate, specs, self.judging, self.rng), folder, setup)

    def _build(self, folder: Path) -> None:
        limits = self._limits(self.judging.build_timeout_s)
        built = workspace.build(folder, backend=self.backend, limits=limits, sandbox=self.pool.sandbox)
        self.build_s = built.seconds
        if built.status == "machine":
            raise MachineError(f"the build: {built.log[-1000:]}")
        if not built.ok or built.library is None:
            first = workspace.first_error(built.log)
            raise Ended("build", "build", f"{first}\n\n{built.log[-(_ERROR_CHARACTERS - len(first) - 2) :]}")
        self.launched["binary"] = compliance.binary_findings(built.library, folder, limits, self.pool.sandbox)

    def _compare(self, examination: Examination, folder: Path, setup: dict[str, Any]) -> None:
        try:
            with self._undisturbing():
                examination.candidate.call("prepare", folder=str(folder), specs=examination.specs, **setup)
                examination.correctness()
            # What is wrong or against the rules is not worth the others' waiting.
            wrong = any(check_fails(c, "published") for c in examination.checks)
            found = [*self.launched["source"], *self.launched["binary"]]
            if not wrong and not found and not compliance.run_findings(examination.launched):
                with self._undisturbing():
                    examination.compile_baseline()
                with device_lock(self.pool.device, exclusive=True):
                    self.times = examination.timing()
        finally:
            self.checks += examination.checks
            self.launched |= examination.launched


def judge(
    tasks: Iterable[Row],
    submissions: Iterable[Row],
    judging: Any,
    sandbox_params: Any,
    *,
    backend: str,
    workers: int,
    journal: Any = None,
    progress: Any = None,
    seed: int | None = None,
) -> list[Row]:
    """Judge submissions; see `records.JUDGEMENTS`. Measured: two calls give other seeds and other times.

    Args:
        tasks: rows with ``task_id`` and ``code``.
        submissions: rows of `records.SUBMISSIONS`.
        judging: the ``judging`` section of the parameters.
        sandbox_params: the ``sandbox`` section.
        backend: ``cpp`` or ``cuda``.
        workers: submissions judged at once; timing is done by one at a time all the same.
        journal, progress: see `cuda_agent.journal` and `cuda_agent.progress`.
        seed: for tests; None: a secret one for each submission.

    Raises:
        DeviceError: this machine lacks the device.
        MachineError: a sandboxed process cannot use it.
    """
    by_id = {t["task_id"]: t for t in tasks}
    submissions = list(submissions)
    unknown = sorted({s["task_id"] for s in submissions} - by_id.keys())
    if unknown:
        raise records.RecordError(
            f"submissions: {len(unknown)} of them for tasks that are not among the {len(by_id)} tasks given, "
            f"first {unknown[0]!r}; take both from the same run"
        )
    code = provenance.code_hash("cuda_agent.judge.judging") + "-" + workspace.template_hash()
    hardware = provenance.hardware(judging.device)
    rows: list[Row] = []
    todo: list[tuple[Row, str]] = []
    for submission in submissions:
        task = by_id[submission["task_id"]]
        about = [task["code"], submission["files"], judging.model_dump(), sandbox_params.model_dump()]
        key = "" if journal is None else journal.key(submission["policy"], *about, backend, hardware, code)
        finished = None if journal is None else journal.get(key)
        if finished is None:
            todo.append((submission, key))
            continue
        rows.append(finished)
        if progress is not None:
            progress(resumed=True)
    if not todo:
        return rows
    workers = min(workers, GPU_CASES) if judging.device == "cuda" else workers
    machine.check_device(judging.device, compiles=True)
    with Pool(judging.device, sandbox_params, workers) as pool:
        pool.check_gpu()

        def short(row: Row) -> bool:
            return judging.device == "cuda" and row["status"] == "memory"

        def drive(item: tuple[Row, str]) -> Row:
            submission = item[0]
            rng = secrets.SystemRandom() if seed is None else random.Random(f"{seed}/{submission['task_id']}")
            task, secret = by_id[submission["task_id"]], rng.getrandbits(63)
            files = json.loads(submission["files"])
            judged = judge_one(pool, task, files, judging=judging, backend=backend, seed=secret)
            who = {"task_id": submission["task_id"], "policy": submission["policy"]}
            return {**who, **judged, **hardware, "isolation": pool.isolation, "code_hash": code}

        for (_, key), row in pool.map(drive, todo, again=short):
            rows.append(row)
            if journal is not None and row["status"] != "machine":
                journal.put(key, row)
            if progress is not None:
                progress()
    return rows


def judge_one(pool: Pool, task: Row, files: Mapping[str, str], *, judging: Any, backend: str, seed: int) -> Row:
    """Judge one submission; again, if the machine fails.

    Args:
        task: row with ``code``, and ``bytes`` where it is known.
        files: path in the workspace -> text.
        seed: secret; everything random comes from it.

    Returns:
        The columns of a judgement that say what was found, and not on what and where. No verdict follows where the
        status is ``machine``; where its stage is ``reference``, the task fails by itself.
    """
    stage = error = ""
    for _ in range(ATTEMPTS):
        try:
            return _Case(pool, task, files, judging, backend, random.Random(seed)).row(seed)
        except MachineError as failure:
            error = str(failure)[:_ERROR_CHARACTERS]
            stage = REFERENCE if isinstance(failure, TaskFails) else ""
            if isinstance(failure, TaskFails) and failure.status == "error":
                break  # it would raise the same again
    empty = {"build_s": 0.0, "checks": "[]", "launched": "{}", "times": "{}", "wall_s": 0.0}
    return {"status": "machine", "stage": stage, "error": error, **empty}

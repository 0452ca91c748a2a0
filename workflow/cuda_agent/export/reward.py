"""Rewards for trainers: an answer without tools is judged as a workspace would be, in the sandbox, on this machine.

https://verl.readthedocs.io/en/latest/preparation/reward_function.html
https://huggingface.co/docs/trl/grpo_trainer (custom reward functions)
"""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent import machine, params, provenance
from cuda_agent.errors import UserError
from cuda_agent.export.answer import loads_answer
from cuda_agent.judge import verdict
from cuda_agent.judge.judging import judge_one
from cuda_agent.records import Row
from cuda_agent.sandbox import MachineError, Pool
from cuda_agent.workspace import SubmissionError
from cuda_agent.workspace.layout import Backend

_FLAGS = ("compiled", "correct", "compliant")
_SPEEDUPS = ("speedup_eager", "speedup_compile")
_pools: dict[tuple[int, str, str], Pool] = {}  # by process, run and device
_making = threading.Lock()


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None, **_: Any
) -> dict[str, Any]:
    """verl's reward function: judge one answer to one prompt of ``cuda-agent export verl``.

    Args:
        data_source: not looked at.
        solution_str: the answer; see `export.loads_answer`.
        ground_truth: the task's module.
        extra_info: that column of the export: ``run`` and ``backend`` say how to judge (without them: as params.yaml
            does), ``task_id`` and ``bytes`` what.

    Returns:
        ``score`` (the published reward: -1, 1, 2 or 3); ``compiled``, ``correct`` and ``compliant``; ``speedup_eager``
        and ``speedup_compile``, 0 where there is none, since verl takes means; ``task_id``; ``reason``, what it failed
        by, or an empty text.

    Raises:
        MachineError: the machine, and not the answer, is at fault: that is no score.
        ParamsError, DeviceError: the run's parameters are wrong, or ask for a GPU that is not here.
        UserError: there is no such backend.
    """
    about = dict(extra_info or {})
    loaded = params.load(provenance.repository(), about.get("run"))
    backend = about.get("backend", loaded.rollouts.backend)
    if backend not in typing.get_args(Backend):
        raise UserError(f"extra_info.backend: got {backend!r}; allowed: {' or '.join(typing.get_args(Backend))}")
    judging = loaded.judging.model_copy(update={"device": "cuda" if backend == "cuda" else "cpu"})
    try:
        files, unread = loads_answer(solution_str), ""
    except SubmissionError as error:
        files, unread = {}, str(error)
    task = {"code": ground_truth, "bytes": about.get("bytes")}
    pool = _pool(loaded.run, judging.device, loaded.sandbox)
    row = judge_one(pool, task, files, judging=judging, backend=backend, seed=secrets.randbits(63))
    if row["status"] == "machine":
        raise MachineError(f"the machine could not judge an answer to task {about.get('task_id')}: {row['error']}")
    found = verdict(row | {"task_id": about.get("task_id") or "", "policy": "answer"}, loaded.results)
    return {
        "score": float(found["reward"]),
        **{name: found[name] for name in _FLAGS},
        **{name: found[name] or 0.0 for name in _SPEEDUPS},
        "task_id": found["task_id"],
        "reason": unread or next(iter(found["reasons"]), ""),
    }


def trl_reward(
    completions: Sequence[Any], reward_model: Sequence[Row], extra_info: Sequence[Row], **_: Any
) -> list[float]:
    """The same for TRL's GRPO trainer: one reward for each completion, one after the other.

    Args:
        completions: texts, or conversations whose last message is the answer.
        reward_model, extra_info: these columns of the export, repeated as TRL does.
    """
    answers = [c if isinstance(c, str) else c[-1].get("content") or "" for c in completions]
    about = zip(answers, reward_model, extra_info, strict=True)
    return [compute_score("cuda-agent", answer, r["ground_truth"], extra)["score"] for answer, r, extra in about]


def _pool(run: str, device: str, sandbox: Any) -> Pool:
    """This process's pool, which stays for the next answer: loading torch takes longer than many judgements."""
    key = (os.getpid(), run, device)
    with _making:
        if any(process != os.getpid() for process, _, _ in _pools):
            raise MachineError(
                "this process was forked from one that has judged, whose threads of torch a fork does not bring along: "
                "start workers before anything is judged, or by the method spawn or forkserver"
            )
        if key not in _pools:
            machine.check_device(device, compiles=True)
            pool = Pool(device, sandbox)
            try:
                pool.check_gpu()
            except MachineError:
                pool.close()
                raise
            _pools[key] = pool
        return _pools[key]


@atexit.register
def _close() -> None:
    """End this process's pools; those of the process that it was forked from are not its own."""
    for (process, _, _), pool in _pools.items():
        if process == os.getpid():
            pool.close()

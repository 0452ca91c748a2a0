"""Rollouts: each task in a workspace of its own, several at once, resumed where a killed job stopped."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from cuda_agent import machine, provenance, workspace
from cuda_agent.agent.gateway import gateway
from cuda_agent.agent.loop import Conversation, Loop
from cuda_agent.agent.policies import input_hash, make_policy
from cuda_agent.agent.prompt import opening
from cuda_agent.agent.tools import schemas
from cuda_agent.agent.tools.client import Tools
from cuda_agent.journal import Journal
from cuda_agent.records import Row
from cuda_agent.sandbox import MachineError, check_isolation, private_folder

_TRIES = 2  # of a rollout that the machine or a server spoils


class _Job:
    def __init__(
        self, policy_name: str, policy_params: Any, rollouts_params: Any, sandbox_params: Any, journal: Journal
    ) -> None:
        self.policy_name, self.policy_params = policy_name, policy_params
        self.rollouts, self.sandbox = rollouts_params, sandbox_params
        self.device = "cuda" if rollouts_params.backend == "cuda" else "cpu"
        self.journal = journal
        self.input_hash = input_hash(policy_params)
        self.stop = threading.Event()
        self.machine = provenance.hardware(self.device) | {
            "isolation": check_isolation(sandbox_params),
            "code_hash": provenance.code_hash("cuda_agent.agent"),
        }

    def key(self, task: Row) -> str:
        return Journal.key(
            task["task_id"],
            task["code"],
            self.policy_name,
            self.policy_params.model_dump(mode="json"),
            self.input_hash,
            self.rollouts.model_dump(mode="json", exclude={"policies", "tasks"}),
            self.sandbox.model_dump(mode="json"),
            self.machine["code_hash"],
            workspace.template_hash(),
        )

    def rollout(self, task: Row) -> tuple[Row, Row]:
        """One task, tried again if the machine is at fault, and kept if it was not."""
        for _ in range(_TRIES):
            trajectory, submission = self._once(task)
            if submission["status"] != "machine_error":
                self.journal.put(self.key(task), {"trajectory": trajectory, "submission": submission})
                break
        return trajectory, submission

    def _once(self, task: Row) -> tuple[Row, Row]:
        policy = make_policy(self.policy_name, self.policy_params, task["task_id"])
        start = time.monotonic()
        talk, before, files = Conversation([]), {}, {}
        with private_folder("cuda-agent-rollout-") as parent:
            folder = Path(parent) / "workspace"
            try:
                workspace.create(folder, task["code"], self.rollouts.backend)
                before = workspace.snapshot(folder)
                with (
                    gateway(self.policy_params, folder),
                    Tools(folder, self.device, self.sandbox, self.stop) as tools,
                ):
                    messages = opening(folder, tools.shown_folder, self.rollouts.backend)
                    talk = Loop(policy, tools, self.rollouts, self.device, self.stop).run(messages)
                files = workspace.snapshot(folder)
            except (MachineError, OSError) as error:
                talk.status, talk.error = "machine_error", str(error)
        if files == before or talk.status in ("gave_up", "machine_error"):
            files = {}
            talk.status = "gave_up" if talk.status == "finished" else talk.status
        return self._rows(task["task_id"], talk, files, time.monotonic() - start)

    def _rows(self, task_id: str, talk: Conversation, files: dict[str, str], wall_s: float) -> tuple[Row, Row]:
        tokens = {k: sum(u.get(k, 0) for u in talk.usage) for k in ("prompt_tokens", "completion_tokens")}
        measured = ("wall_s", "waited_s")
        trajectory = {
            "task_id": task_id,
            "policy": self.policy_name,
            "status": talk.status,
            "error": talk.error,
            "messages": talk.messages,
            "tools": schemas.definitions(),
            "calls": [{k: v for k, v in call.items() if k not in measured} for call in talk.calls],
            "usage": talk.usage,
            **tokens,
            "template_hash": workspace.template_hash(),
            "measured": {
                "wall_s": wall_s,
                "step_s": talk.step_s,
                "calls": [{k: call[k] for k in measured} for call in talk.calls],
                **self.machine,
            },
        }
        submission = {
            "task_id": task_id,
            "policy": self.policy_name,
            "status": talk.status,
            "files": json.dumps(files, sort_keys=True, ensure_ascii=False),
            "turns": len(talk.usage),
            "tool_calls": len(talk.calls),
            **tokens,
            "wall_s": wall_s,
        }
        return trajectory, submission


def roll_out(
    tasks: Sequence[Row],
    policy_name: str,
    policy_params: Any,
    rollouts_params: Any,
    sandbox_params: Any,
    *,
    workers: int,
    journal: Journal,
    progress: Callable[..., None],
) -> tuple[list[Row], list[Row]]:
    """Let a policy work on tasks.

    Args:
        tasks: rows with ``task_id`` and ``code``; the first ``rollouts.tasks`` by id are taken.
        policy_name: key of ``policies`` in the parameters.
        policy_params, rollouts_params, sandbox_params: that entry, and the sections ``rollouts`` and ``sandbox``.
        workers: rollouts at once.
        journal: where finished rollouts are kept until the job has written its output; those that the machine spoiled
            are not, so that the next job tries them again.
        progress: called once for each rollout.

    Returns:
        Trajectory rows (see ``docs/agent.md``) and rows of ``records.SUBMISSIONS``, in the order of the tasks' ids.

    Raises:
        DeviceError: this machine lacks the device of the backend.
        MachineError: the machine or the server spoiled every rollout.
        ReplayMismatch: a replayed conversation departs from its recording.
        ParamsError: the policy's parameters lack something.
    """
    job = _Job(policy_name, policy_params, rollouts_params, sandbox_params, journal)
    chosen = sorted(tasks, key=lambda t: t["task_id"])[: rollouts_params.tasks]
    done: dict[str, tuple[Row, Row]] = {}
    todo = []
    for task in chosen:
        kept = journal.get(job.key(task))
        if kept is None:
            todo.append(task)
        else:
            done[task["task_id"]] = (kept["trajectory"], kept["submission"])
            progress(f"{task['task_id'][:8]} {kept['submission']['status']}", resumed=True)
    if todo:
        machine.check_device(job.device, compiles=True)
    pool = ThreadPoolExecutor(max(workers, 1), thread_name_prefix="rollout")
    try:
        futures = {pool.submit(job.rollout, task): task for task in todo}
        for future in as_completed(futures):
            task_id = futures[future]["task_id"]
            done[task_id] = future.result()
            progress(f"{task_id[:8]} {done[task_id][1]['status']}")
    except BaseException:
        job.stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    rows = [done[task["task_id"]] for task in chosen]
    if rows and all(trajectory["status"] == "machine_error" for trajectory, _ in rows):
        raise MachineError(f"policy {policy_name}: none of {len(rows)} rollouts could run: {rows[0][0]['error']}")
    return [trajectory for trajectory, _ in rows], [submission for _, submission in rows]

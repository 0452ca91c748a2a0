"""Play the answers of a recorded trajectory back, while the tools run for real."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuda_agent import records
from cuda_agent.agent.measured import first_difference
from cuda_agent.agent.policies.base import Completion, Message, PolicyError
from cuda_agent.errors import UserError


class ReplayMismatch(UserError, RuntimeError):
    """The conversation departs from the recorded one; the message names the first difference."""


@functools.lru_cache(maxsize=2)
def _recordings(path: Path, changed_ns: int) -> dict[str, records.Row]:
    return {row["task_id"]: row for row in records.read_jsonl(path)}


def compare(recorded: Sequence[Message], seen: Sequence[Message], what: str) -> None:
    """Hold a conversation against the beginning of a recorded one.

    Raises:
        ReplayMismatch: they differ in something that is not measured.
    """
    for number, (old, new) in enumerate(zip(recorded, seen, strict=False)):
        if old["role"] != new["role"]:
            raise ReplayMismatch(f"{what}: message {number}: recorded from {old['role']}, now from {new['role']}")
        if old["role"] == "assistant":
            continue
        difference = first_difference(str(old["content"]), str(new["content"]))
        if difference:
            source = f"the result of {_tool(recorded, number)}" if old["role"] == "tool" else f"a {old['role']} message"
            raise ReplayMismatch(f"{what}: message {number}, {source}: {difference}")


def _tool(messages: Sequence[Message], number: int) -> str:
    """Name and arguments of the call that a tool message answers."""
    wanted = messages[number].get("tool_call_id")
    for message in reversed(messages[:number]):
        for call in message.get("tool_calls", []):
            if call.get("id") == wanted:
                return f"{call['function']['name']} {call['function']['arguments'][:200]}"
    return "an unknown call"


class ReplayPolicy:
    """Answers as recorded, after checking that everything before the answer is as recorded.

    Raises:
        ReplayMismatch: the recording does not have the task.
    """

    def __init__(self, params: Any, name: str, task_id: str) -> None:
        path = Path(params.trajectories)
        row = _recordings(path, path.stat().st_mtime_ns).get(task_id)
        if row is None:
            raise ReplayMismatch(f"{path}: has no trajectory of task {task_id}")
        self._row, self._what = row, f"{path}, task {task_id}"
        self._answers = [i for i, m in enumerate(row["messages"]) if m["role"] == "assistant"]
        self._turn = 0

    def step(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """See `Policy`."""
        recorded = self._row["messages"]
        if self._turn == len(self._answers):
            compare(recorded, messages, self._what)
            raise PolicyError(f"the recording ends after {self._turn} answers, with status {self._row['status']}")
        at = self._answers[self._turn]
        compare(recorded[:at], messages, self._what)
        if len(messages) != at:
            raise ReplayMismatch(
                f"{self._what}: {at} messages were recorded before answer {self._turn}, not {len(messages)}"
            )
        usage = self._row["usage"][self._turn]
        self._turn += 1
        last = self._turn == len(self._answers)
        return Completion(recorded[at], usage, gave_up=last and self._row["status"] == "gave_up")

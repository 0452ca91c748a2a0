"""Trajectories as supervised examples: JSON lines for TRL's SFT trainer and, without what names them, for OpenAI's.

https://huggingface.co/docs/trl/dataset_formats (conversational, with ``tools``; other columns are left alone)
https://platform.openai.com/docs/guides/supervised-fine-tuning (a key that it does not know makes a file invalid:
https://community.openai.com/t/fine-tuning-with-function-call-in-jsonl/966285)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cuda_agent.records import RecordError, Row

OPENAI = ("messages", "tools")  # what OpenAI's fine-tuning knows of an example
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name")


def _message(message: dict[str, Any]) -> dict[str, Any]:
    kept = {k: message[k] for k in _MESSAGE_KEYS if message.get(k) is not None}
    kept.setdefault("content", "")
    for call in kept.get("tool_calls", []):
        if not isinstance(call["function"]["arguments"], str):
            raise RecordError(f"tool call {call.get('id')}: arguments must be JSON text, as the API gives them")
    return kept


def to_sft(
    trajectories: Iterable[Row],
    verdicts: Iterable[Row],
    splits: Mapping[str, str],
    split: str = "train",
    min_reward: int = 1,
) -> list[Row]:
    """Examples of the rollouts on tasks of one split whose verdict has at least this reward.

    Args:
        trajectories: rows that ``agent.roll_out`` made.
        verdicts: rows of ``records.VERDICTS``; a rollout without one is left out.
        splits: task_id -> ``train`` or ``test``; a rollout on a task that is not there is left out.
        split: which of them.
        min_reward: 1 keeps what is correct, 2 and 3 what is also faster than one or both baselines.

    Returns:
        ``messages``, ``tools``, ``task_id``, ``policy``, ``reward`` and ``split``, in the order of the tasks' ids.

    Raises:
        RecordError: the arguments of a tool call are no text.
    """
    rewards = {(v["task_id"], v["policy"]): v["reward"] for v in verdicts}
    rows = []
    for t in sorted(trajectories, key=lambda t: (t["task_id"], t["policy"])):
        reward = rewards.get((t["task_id"], t["policy"]))
        if reward is not None and reward >= min_reward and splits.get(t["task_id"]) == split:
            about = {"task_id": t["task_id"], "policy": t["policy"], "reward": reward, "split": split}
            rows.append({"messages": [_message(m) for m in t["messages"]], "tools": t["tools"], **about})
    return rows


def dumps_sft(examples: Iterable[Row]) -> str:
    """The examples as JSON lines with sorted keys; ASCII, since some readers split lines at U+2028 too."""
    return "".join(json.dumps(e, sort_keys=True) + "\n" for e in examples)


def loads_sft(text: str) -> Iterator[Row]:
    """The examples of such text."""
    return (json.loads(line) for line in text.split("\n") if line)

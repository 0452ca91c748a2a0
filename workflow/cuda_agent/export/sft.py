"""Trajectories as supervised examples: JSON lines that OpenAI's fine-tuning and TRL's SFT trainer both read.

https://platform.openai.com/docs/guides/supervised-fine-tuning
https://huggingface.co/docs/trl/dataset_formats (conversational, with ``tools``)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from cuda_agent.records import Row

_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name")


def _message(message: dict[str, Any]) -> dict[str, Any]:
    kept = {k: message[k] for k in _MESSAGE_KEYS if message.get(k) is not None}
    kept.setdefault("content", "")
    for call in kept.get("tool_calls", []):
        if not isinstance(call["function"]["arguments"], str):
            raise ValueError(f"tool call {call.get('id')}: arguments must be JSON text, as the API gives them")
    return kept


def to_sft(trajectories: Iterable[Row], verdicts: Iterable[Row], min_reward: int = 1) -> list[Row]:
    """Examples ``{messages, tools}`` of the rollouts whose verdict has at least this reward.

    Args:
        trajectories: rows that ``agent.roll_out`` made.
        verdicts: rows of ``records.VERDICTS``; a rollout without one is left out.
        min_reward: 1 keeps what is correct, 2 and 3 what is also faster than one or both baselines.
    """
    rewards = {(v["task_id"], v["policy"]): v["reward"] for v in verdicts}
    chosen = [t for t in trajectories if rewards.get((t["task_id"], t["policy"]), -1) >= min_reward]
    chosen.sort(key=lambda t: (t["task_id"], t["policy"]))
    return [{"messages": [_message(m) for m in t["messages"]], "tools": t["tools"]} for t in chosen]


def dumps_sft(examples: Iterable[Row]) -> str:
    """The examples as JSON lines with sorted keys; ASCII, since some readers split lines at U+2028 too."""
    return "".join(json.dumps(e, sort_keys=True) + "\n" for e in examples)


def loads_sft(text: str) -> Iterator[Row]:
    """The examples of such text."""
    return (json.loads(line) for line in text.split("\n") if line)

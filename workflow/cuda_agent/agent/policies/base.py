"""What a policy is: whatever decides the next step of the agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Message = dict[str, Any]


class PolicyError(RuntimeError):
    """The policy cannot go on, and that is its own fault: the rollout ends as ``failed``."""


class ContextFull(PolicyError):
    """The conversation no longer fits the policy's context: the rollout ends as ``max_tokens``."""


@dataclass(frozen=True)
class Completion:
    """One answer of a policy.

    Attributes:
        message: assistant message in OpenAI's form: ``role``, ``content``, and ``tool_calls`` unless it is the last.
        usage: ``prompt_tokens`` and ``completion_tokens``; empty for what has no tokens.
        gave_up: with a message that calls no tool: there is nothing to submit.
        cut: the answer ended at the limit on its length, not by itself.
        timeout_s: how long each of its tool calls may take; None: ``rollouts.tool_timeout_s``. What is left of the
            rollout's time bounds it either way.
    """

    message: Message
    usage: dict[str, int] = field(default_factory=dict)
    gave_up: bool = False
    cut: bool = False
    timeout_s: float | None = None


class Policy(Protocol):
    """One policy at work on one task; a rollout makes one of its own and calls it turn by turn."""

    def step(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """Answer a conversation.

        Args:
            messages: all messages so far, in OpenAI's form; the policy's own answers among them.
            tools: the tools that may be called, in OpenAI's form (``{"type": "function", "function": {...}}``).

        Raises:
            PolicyError: it cannot go on; `ContextFull` if that is for the length of the conversation.
            cuda_agent.sandbox.MachineError: the machine or the server is at fault; the rollout is tried again.
        """
        ...


def call(name: str, arguments: dict[str, Any], number: int) -> dict[str, Any]:
    """A tool call in OpenAI's form, for policies that are no model; ``number`` makes its id unique in the rollout."""
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}


def assistant(content: str, *calls: dict[str, Any]) -> Message:
    """An assistant message in OpenAI's form, with tool calls made by `call`."""
    return {"role": "assistant", "content": content} | ({"tool_calls": list(calls)} if calls else {})

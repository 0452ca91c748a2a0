"""The agent's loop: ask the policy, carry out what it calls, until it is done or a limit is reached."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda_agent.agent.policies.base import Completion, ContextFull, Message, Policy, PolicyError
from cuda_agent.agent.policies.replay import ReplayMismatch
from cuda_agent.agent.tools import schemas
from cuda_agent.agent.tools.client import Result, Tools
from cuda_agent.params import ParamsError
from cuda_agent.sandbox import MachineError, device_lock

_MEASURES = re.compile(r"utils[./](profiling|check)\b")
_CUT = "Your answer was cut off at the limit on its length. Go on in smaller steps."


class Stopped(Exception):
    """The job is ending: the rollout is given up, and not recorded."""


@dataclass
class Conversation:
    """One rollout as it goes on.

    Attributes:
        status: how it ended; empty while it goes on.
        error: why, where the status is failed or machine_error.
        usage: tokens of each answer.
        calls: one for each tool call: ``turn``, ``tool``, ``failed``, and the measured ``wall_s`` and ``waited_s`` (for
            the device).
        step_s: seconds of each answer.
    """

    messages: list[Message]
    status: str = ""
    error: str = ""
    usage: list[dict[str, int]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)


def _clean(value: Any) -> Any:
    """A message with text that can be written to a file: no half surrogate pairs."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_clean(v) for v in value]
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    return value


class Loop:
    """One policy at work with one set of tools.

    Args:
        limits: the ``rollouts`` section of the parameters.
        device: what measurements inside the workspace are made on.
        stop: once set, the loop ends with `Stopped`.
    """

    def __init__(self, policy: Policy, tools: Tools, limits: Any, device: str, stop: threading.Event) -> None:
        self._policy, self._tools, self._limits, self._device, self._stop = policy, tools, limits, device, stop
        self._definitions = schemas.definitions()
        self._deadline = 0.0

    def run(self, opening: Sequence[Message]) -> Conversation:
        """Let the policy work from these messages on. A failure of any kind is a status.

        Raises:
            ReplayMismatch, ParamsError: the whole job makes no sense.
            Stopped: it is ending.
        """
        talk = Conversation(list(opening))
        self._deadline = time.monotonic() + self._limits.timeout_s
        try:
            while not talk.status:
                self._turn(talk)
        except (ReplayMismatch, ParamsError, Stopped):
            raise
        except ContextFull as error:
            talk.status, talk.error = "max_tokens", str(error)
        except MachineError as error:
            talk.status, talk.error = "machine_error", str(error)
        except PolicyError as error:
            talk.status, talk.error = "failed", str(error)
        except Exception as error:  # a policy's own mistake must not end the others' rollouts
            talk.status, talk.error = "failed", f"{type(error).__name__}: {error}"
        return talk

    def _late(self, talk: Conversation) -> bool:
        if self._stop.is_set():
            raise Stopped
        if time.monotonic() > self._deadline:
            talk.status = "timeout"
        return bool(talk.status)

    def _turn(self, talk: Conversation) -> None:
        if self._late(talk):
            return
        if len(talk.usage) >= self._limits.max_turns:
            talk.status = "max_turns"
            return
        start = time.monotonic()
        completion = self._policy.step(talk.messages, self._definitions)
        talk.step_s.append(time.monotonic() - start)
        talk.messages.append(_clean(completion.message))
        talk.usage.append(dict(completion.usage))
        calls = talk.messages[-1].get("tool_calls") or []
        if sum(completion.usage.get(k, 0) for k in ("prompt_tokens", "completion_tokens")) > self._limits.max_tokens:
            talk.status = "max_tokens"
        elif calls:
            for call in calls:
                if self._late(talk):
                    return
                self._call(talk, completion, call)
        elif completion.cut:
            talk.messages.append({"role": "user", "content": _CUT})
        else:
            talk.status = "gave_up" if completion.gave_up else "finished"

    def _call(self, talk: Conversation, completion: Completion, call: dict[str, Any]) -> None:
        function = call.get("function") or {}
        name = function.get("name")
        asked = time.monotonic()
        started = asked
        try:
            arguments = schemas.parse(name, function.get("arguments"))
        except schemas.ArgumentError as error:
            result = Result(f"Error: {error}", True)
        else:
            limit = self._limits.tool_timeout_s if completion.timeout_s is None else completion.timeout_s
            command = arguments.get("command")
            if command is None:  # tools on files leave the device alone
                result = self._tools.call(name, arguments, self._left(limit))
            elif completion.timeout_s is None:
                with device_lock(self._device, exclusive=bool(_MEASURES.search(command))):
                    started = time.monotonic()
                    self._deadline += started - asked  # waiting for others is not this rollout's time
                    result = self._tools.call(name, arguments, self._left(limit))
            else:  # holding a device that long would keep all others from measuring
                result = self._tools.call(name, arguments, self._left(limit))
        if self._stop.is_set():
            raise Stopped
        ended = time.monotonic()
        talk.calls.append(
            {
                "turn": len(talk.usage) - 1,
                "tool": str(name),
                "failed": result.failed,
                "wall_s": ended - started,
                "waited_s": started - asked,
            }
        )
        talk.messages.append({"role": "tool", "tool_call_id": call.get("id"), "content": result.content})

    def _left(self, limit: float) -> float:
        return max(min(limit, self._deadline - time.monotonic()), 0.1)

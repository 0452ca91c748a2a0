"""An outside coding agent, started in the workspace and left alone until it ends."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

from cuda_agent.agent.policies.base import Completion, Message, assistant, call
from cuda_agent.agent.tools.relay import URL
from cuda_agent.sandbox import MachineError

_NOT_STARTED = ("\nExit code 126", "\nExit code 127")


class CommandPolicy:
    """One Bash call that runs the command, and a last message.

    In ``params.argv``, ``{prompt}`` becomes the text that a model would have been given, and ``{base_url}`` the address
    inside the sandbox at which the server ``params.base_url`` answers.
    """

    def __init__(self, params: Any) -> None:
        self._argv = list(params.argv)

    def step(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """See `Policy`."""
        last = messages[-1]
        if last["role"] != "tool":
            prompt = "\n\n".join(m["content"] for m in messages)
            words = [word.replace("{base_url}", URL).replace("{prompt}", prompt) for word in self._argv]
            command = shlex.join(words)
            return Completion(assistant("", call("Bash", {"command": command}, 1)), timeout_s=math.inf)
        if f"\n{last['content']}".endswith(_NOT_STARTED):
            raise MachineError(f"{self._argv[0]} cannot be started inside the sandbox: {last['content']}")
        return Completion(assistant("The command has ended."))

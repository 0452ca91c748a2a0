"""The conversation of the rule-based writer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..base import Completion, Message, assistant, call
from .ir import GiveUpError
from .writer import write

EXPORT = "python3 -m cuda_agent.tasks.graph model.py"
TIDY = "find kernels -type f -delete"
COMPILE = "bash utils/compile.sh"
VERIFY = "python3 -m utils.verification"
PROFILE = "python3 -m utils.profiling --no-compile"  # its rules have no second form to try
SUCCESS = {COMPILE: "compiled build/", VERIFY: "verified on"}


class CodegenPolicy:
    """Writes kernels by rule, through the same tools as any other agent.

    What it does next depends on the conversation alone. It reads the task, writes all files, compiles, verifies and
    profiles; if its fused kernels fail it tries simpler ones once, and gives up with the reason where it has no rule.
    """

    def __init__(self, params: Any = None):
        self.params = params

    def step(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """See `cuda_agent.agent.policies.base.Policy`."""
        done = [m for m in messages if m.get("role") == "assistant"]
        results = {m["tool_call_id"]: _text(m) for m in messages if m.get("role") == "tool"}
        if not done:
            return _say(
                "I read the task and export its graph of operators.",
                *_calls(0, ("Bash", {"command": "cat BACKEND"}), ("Bash", {"command": "cat model.py"})),
                call("Bash", {"command": EXPORT}, 2),
                call("Read", {"file_path": "model_new.py"}, 3),
            )
        count = sum(len(m.get("tool_calls") or []) for m in done)
        last = [(c, results.get(c["id"], "")) for c in done[-1].get("tool_calls") or []]
        command = _command(last[0][0]) if last else ""
        attempts = sum(_command(c) == TIDY for m in done for c in m.get("tool_calls") or [])
        if len(done) == 1:
            return self._write(results, count, fuse=True, why="I write the kernels, their binding and the model.")
        if command == TIDY:
            return _say("I compile them.", call("Bash", {"command": COMPILE}, count))
        if command in SUCCESS and SUCCESS[command] not in last[0][1]:
            if attempts > 1:
                return _give_up(f"`{command}` fails with the simple kernels too: {_end(last[0][1])}")
            why = f"`{command}` failed. I try one kernel for each reduction."
            return self._write(results, count, fuse=False, why=why)
        if command == COMPILE:
            return _say("I compare with the reference.", call("Bash", {"command": VERIFY}, count))
        if command == VERIFY:
            return _say("I measure.", call("Bash", {"command": PROFILE}, count))
        return _say(f"The kernels compile and agree with the reference. Profiling said:\n{_end(last[0][1], 600)}")

    def _write(self, results: dict[str, str], count: int, fuse: bool, why: str) -> Completion:
        backend, model, printed = (results.get(f"call_{n}", "") for n in range(3))
        line = next((s for s in printed.splitlines() if s.startswith('{"inputs":')), "")
        if not line:
            return _give_up(f"the graph could not be exported: {_end(printed)}")
        try:
            graph = json.loads(line)
        except json.JSONDecodeError:
            return _give_up("the graph is too long to be read whole")
        try:
            files = write(graph, model, "cuda" if "cuda" in backend else "cpp", fuse=fuse)
        except GiveUpError as error:
            return _give_up(str(error))
        writes = [("Write", {"file_path": path, "content": text}) for path, text in files.items()]
        return _say(why, *_calls(count, ("Bash", {"command": TIDY}), *writes))


def _calls(first: int, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [call(name, arguments, first + k) for k, (name, arguments) in enumerate(calls)]


def _say(text: str, *calls: dict[str, Any]) -> Completion:
    return Completion(assistant(text, *calls), {"prompt_tokens": 0, "completion_tokens": 0})


def _give_up(reason: str) -> Completion:
    return Completion(assistant(f"I give up: {reason}."), {"prompt_tokens": 0, "completion_tokens": 0}, gave_up=True)


def _command(tool_call: dict[str, Any]) -> str:
    arguments = json.loads(tool_call["function"]["arguments"])
    return arguments.get("command", "")


def _text(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _end(text: str, length: int = 300) -> str:
    return re.sub(r"\s*\n\s*", "\n", text.strip())[-length:] or "no output"

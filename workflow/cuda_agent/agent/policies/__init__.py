"""What decides the next step of the agent: a model behind a server, a recording, an outside program, or rules."""

from __future__ import annotations

from typing import Any

from cuda_agent.agent.policies.base import Completion, ContextFull, Policy, PolicyError

__all__ = ["Completion", "ContextFull", "Policy", "PolicyError", "make_policy"]


def make_policy(name: str, params: Any, task_id: str = "") -> Policy:
    """Make the policy of one rollout.

    Args:
        name: its name in the ``policies`` section of the parameters; for error messages.
        params: that entry of the section; its ``kind`` says which class.
        task_id: which task it will work on; a recording is found by it.

    Raises:
        cuda_agent.params.ParamsError: the parameters lack something that this kind needs.
    """
    match params.kind:
        case "codegen":
            from cuda_agent.agent.policies.codegen import CodegenPolicy

            return CodegenPolicy(params)
        case "openai":
            from cuda_agent.agent.policies.openai import OpenAIPolicy

            return OpenAIPolicy(params, name)
        case "replay":
            from cuda_agent.agent.policies.replay import ReplayPolicy

            return ReplayPolicy(params, name, task_id)
        case "command":
            from cuda_agent.agent.policies.command import CommandPolicy

            return CommandPolicy(params)
    raise ValueError(f"policies.{name}.kind: got {params.kind!r}; known kinds: codegen, openai, replay, command")

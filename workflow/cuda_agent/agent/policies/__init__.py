"""What decides the next step of the agent: a model behind a server, a recording, an outside program, or rules."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from cuda_agent.agent.policies.base import Completion, ContextFull, Policy, PolicyError
from cuda_agent.params import ParamsError

__all__ = ["Completion", "ContextFull", "Policy", "PolicyError", "input_hash", "make_policy"]


def input_hash(params: Any) -> str:
    """Hash of the file that a policy's answers are read from; empty for a policy that reads none."""
    if params.kind != "replay" or not Path(params.trajectories).exists():
        return ""
    return hashlib.sha256(Path(params.trajectories).read_bytes()).hexdigest()


def make_policy(name: str, params: Any, task_id: str = "") -> Policy:
    """Make the policy of one rollout.

    Args:
        name: its name in the ``policies`` section of the parameters; for error messages.
        params: that entry of the section; its ``kind`` says which class.
        task_id: which task it will work on; a recording is found by it.

    Raises:
        cuda_agent.params.ParamsError: the parameters lack something that this kind needs.
    """
    if faults := params.lacks():
        raise ParamsError("\n".join(f"policies.{name}.{fault}" for fault in faults))
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

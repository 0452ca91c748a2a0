"""Tools and roll-outs as the tests of the agent use them."""

import json
from pathlib import Path

from cuda_agent import params
from cuda_agent.agent import roll_out
from cuda_agent.agent.tools import schemas
from cuda_agent.journal import Journal

ROOT = Path(__file__).parents[2]
CODE = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return []
"""


class Hand:
    """Calls tools as a model would, with checked arguments."""

    def __init__(self, tools, folder):
        self.tools, self.folder = tools, folder

    def __call__(self, tool, timeout_s=20.0, /, **arguments):
        return self.tools.call(tool, schemas.parse(tool, json.dumps(arguments)), timeout_s)

    def good(self, tool, **arguments):
        result = self(tool, **arguments)
        assert not result.failed, result.content
        return result.content

    def bad(self, tool, **arguments):
        result = self(tool, **arguments)
        assert result.failed, result.content
        return result.content


class Runs:
    """Roll-outs with the default parameters, some of them changed."""

    def __init__(self, settings, folder):
        self.settings, self.journal, self.messages = settings, Journal(folder), []

    def policy(self, **changes):
        base = self.settings.policies["openai"].model_dump()
        return params.OpenAIPolicy(**base | {"model": "m", "retries": 1, "timeout_s": 60} | changes)

    def command(self, *argv, base_url=None):
        return params.CommandPolicy(kind="command", argv=argv, base_url=base_url, api_key_env="MY_KEY")

    def __call__(self, policy, codes=(CODE,), workers=1, **limits):
        tasks = [{"task_id": f"t{i}", "code": code} for i, code in enumerate(codes)]
        rollouts = self.settings.rollouts.model_copy(update={"timeout_s": 900.0, "tool_timeout_s": 300.0} | limits)
        return roll_out(
            tasks,
            "p",
            policy,
            rollouts,
            self.settings.sandbox,
            workers=workers,
            journal=self.journal,
            progress=self.note,
        )

    def note(self, message="", *, resumed=False):
        self.messages.append((message, resumed))

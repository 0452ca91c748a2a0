"""What docs/agent.md shows works as it is shown, and names what there is."""

import re
import threading

import pytest
import yaml
from agent_runs import ROOT
from cuda_agent import params
from cuda_agent.agent.loop import Loop
from cuda_agent.agent.tools import schemas
from cuda_agent.agent.tools.client import Result

TEXT = (ROOT / "docs" / "agent.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_parameters(block):
    params.load(ROOT, "laptop", yaml.safe_load(block))


def test_a_policy_of_your_own(settings):
    class Tools:
        def call(self, tool, arguments, timeout_s):
            return Result("compiled", False)

    names = {}
    exec(next(b for b in blocks("python") if "def step" in b), names)
    loop = Loop(names["Patient"](), Tools(), settings.rollouts, "test-agent-docs", threading.Event())
    talk = loop.run([{"role": "user", "content": "begin"}])
    assert talk.status == "finished"
    assert [c["tool"] for c in talk.calls] == ["Bash"]


def test_every_tool_and_argument_is_listed():
    rows = {
        m[0]: set(re.findall(r"`([^`]+)`", m[1])) for m in re.findall(r"^\| `(\w+)` \| (.*?) \|", TEXT, re.MULTILINE)
    }
    for definition in schemas.definitions():
        function = definition["function"]
        assert set(function["parameters"]["properties"]) == rows[function["name"]], function["name"]

"""What the tests of the agent share."""

import pytest
from agent_runs import ROOT, Hand, Runs
from cuda_agent import params
from cuda_agent.agent.tools.client import Tools


@pytest.fixture(scope="session")
def settings():
    """Parameters of the default run, with limits that no test is meant to reach."""
    return params.load(ROOT)


@pytest.fixture
def small(settings):
    """Sandbox limits that hostile code reaches soon."""
    return settings.sandbox.model_copy(update={"memory_mb": 300, "processes": 24, "file_size_mb": 16, "output_kb": 64})


@pytest.fixture
def hand(tmp_path, small):
    """Tools over an empty folder."""
    folder = tmp_path / "w"
    folder.mkdir()
    with Tools(folder, "cpu", small) as tools:
        yield Hand(tools, folder)


@pytest.fixture
def runs(settings, tmp_path):
    return Runs(settings, tmp_path / "journal")

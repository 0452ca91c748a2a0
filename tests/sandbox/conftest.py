import sys
from pathlib import Path

import pytest
from cuda_agent import params, sandbox

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def section():
    return params.load(Path(__file__).parents[2]).sandbox


@pytest.fixture(scope="session")
def pool(section):
    with sandbox.Pool("cpu", section, workers=2) as made:
        yield made


@pytest.fixture(scope="session")
def limits(section):
    """Limits on a call of which nothing is expected to take long."""
    return sandbox.Limits.of(section.model_copy(update={"memory_mb": 1500, "file_size_mb": 8, "output_kb": 16}), 60)

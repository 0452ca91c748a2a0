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
    # Without the compiler a child is small: it is forked in a tenth of the time, which bombs take many times.
    with sandbox.Pool("cpu", section, workers=2, compiles=False) as made:
        yield made


@pytest.fixture(scope="session")
def limits(section):
    """Limits on a call of which nothing is expected to take long."""
    small = {"memory_mb": 1500, "processes": 16, "file_size_mb": 8, "output_kb": 16}
    return sandbox.Limits.of(section.model_copy(update=small), 60)

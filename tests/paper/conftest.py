import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))

import synthetic_run
from cuda_agent import params

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def parameters():
    return params.load(ROOT, "laptop")


@pytest.fixture(scope="session")
def rows():
    return synthetic_run.make()


@pytest.fixture(scope="session")
def empty():
    return synthetic_run.make(candidates=0)

"""Fixtures of a made-up run, for the tests of everything that is computed from one."""

from pathlib import Path

import pytest
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

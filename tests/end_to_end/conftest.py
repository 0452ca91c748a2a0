"""Copies of the repository that several tests share."""

import pytest
from helpers import SMALL, Repository, copy_repository, set_params


@pytest.fixture(scope="session")
def make_repository(tmp_path_factory):
    def make(name, changes=None):
        root = copy_repository(tmp_path_factory.mktemp(name) / "repository")
        set_params(root, changes or SMALL)
        repository = Repository(root)
        repository.git("init", "-q", "-b", "main")
        repository.commit("a small experiment")
        return repository

    return make


@pytest.fixture(scope="session")
def finished(make_repository):
    """The small experiment, made from nothing on all cores."""
    repository = make_repository("finished")
    _, text = repository.snakemake()
    repository.text = text
    return repository

"""A process that follows another is interrupted when that one is gone."""

import os
import subprocess
import sys

import pytest

FOLLOW = (
    "from cuda_agent import lifeline; import threading; print(lifeline.follow(), flush=True); threading.Event().wait()"
)


def following(announced):
    """A process that follows what was announced; its first line is written once it does."""
    env = {**os.environ, "CUDA_AGENT_WORKFLOW_PROCESS": announced, "PYTHONPATH": os.pathsep.join(sys.path)}
    in_background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]  # as a shell starts what ends with an ampersand
    process = subprocess.Popen(
        [*in_background, sys.executable, "-c", FOLLOW],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline()


@pytest.fixture
def leader():
    """A process that has announced itself, and what it announced."""
    announce = "from cuda_agent import lifeline; import os; lifeline.announce(); print(os.environ[lifeline._NAME])"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{announce}; import sys; sys.stdout.flush(); input()"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.communicate()


def test_it_ends_with_the_one_that_it_follows_and_not_before(leader):
    first, announced = leader
    process, line = following(announced)
    assert "lifeline" in line
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    first.kill()
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors


def test_it_ends_where_the_one_that_it_follows_is_gone_already_and_its_number_given_to_another(leader):
    _, announced = leader
    who, _, _started = announced.rpartition(" ")
    process, _ = following(f"{who} 1")
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors


@pytest.mark.parametrize("announced", ["", "other-machine pid:[1] 1 1"])
def test_nothing_announced_here_is_followed(announced):
    process, line = following(announced)
    process.kill()
    process.communicate()
    assert line == "None\n"

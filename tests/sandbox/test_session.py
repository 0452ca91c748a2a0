"""One child, several calls."""

import dataclasses
import subprocess
import threading
from pathlib import Path

import pytest
from cuda_agent import sandbox
from hypothesis import given, settings
from hypothesis import strategies as st


def test_state_lives_as_long_as_the_child(pool, limits):
    with pool.session(limits) as session:
        assert [session.call("hostile:count", {}).value for _ in range(3)] == [1, 2, 3]
    with pool.session(limits) as session:
        assert session.call("hostile:count", {}).value == 1


def test_an_exception_ends_no_child(pool, limits):
    with pool.session(limits) as session:
        assert session.call("hostile:print_pass", {}).status == "error"
        assert session.call("hostile:no_such_function", {}).error.startswith("AttributeError")
        assert session.call("hostile:count", {}).value == 1


def test_half_a_character_is_replaced_in_values_and_in_errors(pool, limits):
    with pool.session(limits) as session:
        assert session.call("hostile:half_a_character", {}).value == {"k\ufffd": ["a\ufffdb"]}
        assert session.call("hostile:half_a_character", {"raised": True}).error.startswith("ValueError: \ufffd\n")


@pytest.mark.parametrize("depth", [100, 600, 900])
def test_an_answer_that_nests_too_deep_is_malformed_at_most(pool, limits, depth):
    with pool.session(limits) as session:
        outcome = session.call("hostile:deep_answer", {"depth": depth})
        assert outcome.status == "ok" or "malformed reply" in outcome.error or "cannot be sent" in outcome.error
        assert outcome.status in ("ok", "error")


def test_a_tree_too_deep_for_python_is_removed(tmp_path):
    with sandbox.private_folder("cuda-agent-test-") as folder:
        subprocess.run("for i in $(seq 1500); do mkdir d && cd d; done; chmod 0 .", cwd=folder, shell=True, check=True)
    assert not Path(folder).exists()


def test_later_calls_answer_how_the_child_ended(pool, limits):
    with pool.session(limits) as session:
        first = session.call("hostile:os_exit", {"code": 0})
        second = session.call("hostile:count", {})
    assert (first.status, first.error) == (second.status, second.error)
    assert first.status == "exited"


def test_a_forged_answer_is_worth_one_call_at_most(pool, limits):
    with pool.session(limits) as session:
        session.call("hostile:forge_result", {})
        assert session.call("hostile:count", {}).status != "ok"


def test_calls_share_the_session_s_time(pool, limits):
    with pool.session(dataclasses.replace(limits, timeout_s=30)) as session:
        assert session.call("hostile:endless_loop", {}, timeout_s=0.2).status == "timeout"


def test_shared_memory(pool, limits):
    with pool.session(limits, buffers={"numbers": 4}) as session:
        view = session.buffer("numbers")
        view[:] = bytes([1, 2, 3, 4])
        assert session.call("hostile:double_buffer", {}).status == "ok"
        assert bytes(view) == bytes([2, 4, 6, 8])
        view.release()


@settings(max_examples=15)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists))
def test_json_goes_through_unchanged(shared_session, value):
    assert shared_session.call("hostile:echo", {"value": value}).value == value


@pytest.fixture(scope="module")
def shared_session(pool, limits):
    with pool.session(limits) as session:
        yield session


def test_map_works_on_several_items_at_once(pool, limits):
    barrier = threading.Barrier(2, timeout=60)

    def drive(item):
        barrier.wait()
        return pool.run("hostile:echo", {"value": item}, limits=limits).value

    assert sorted(pool.map(drive, [1, 2])) == [(1, 1), (2, 2)]


def test_map_passes_exceptions_on(pool):
    def drive(item):
        raise KeyError(item)

    with pytest.raises(KeyError):
        list(pool.map(drive, [1]))


def test_map_does_again_alone_what_was_short_of_something_shared(pool):
    running, seen = [], []

    def drive(item):
        running.append(item)
        seen.append((item, len(running)))
        time = [s for s, _ in seen].count(item)
        running.remove(item)
        return "short" if item % 2 and time == 1 else time

    results = dict(pool.map(drive, range(6), again=lambda result: result == "short"))
    assert results == {0: 1, 2: 1, 4: 1, 1: 2, 3: 2, 5: 2}
    assert sorted(i for i, _ in seen[-3:]) == [1, 3, 5]
    assert [n for _, n in seen[-3:]] == [1, 1, 1]


def test_a_lost_server_is_replaced(section, limits):
    with sandbox.Pool("cpu", section, compiles=False) as pool:
        assert pool.run("hostile:echo", {"value": 1}, limits=limits).value == 1
        pool._server._process.kill()
        pool._server._process.wait()
        assert pool.run("hostile:echo", {"value": 2}, limits=limits).value == 2


def test_a_server_that_cannot_be_started_is_tried_again_by_the_next_session(section, limits, monkeypatch):
    with sandbox.Pool("cpu", section, compiles=False) as pool:
        assert pool.run("hostile:echo", {"value": 1}, limits=limits).value == 1
        pool._server._process.kill()
        pool._server._process.wait()

        def refuse(*_, **__):
            raise BlockingIOError(11, "Resource temporarily unavailable")

        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", refuse)
            outcome = pool.run("hostile:echo", {"value": 2}, limits=limits)
        assert outcome.status == "machine"
        assert "temporarily unavailable" in outcome.error
        assert pool.run("hostile:echo", {"value": 3}, limits=limits).value == 3


def test_without_the_compiler_a_pool_needs_no_c_compiler(section, limits, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CXX", "")
    with sandbox.Pool("cpu", section, compiles=False) as pool:
        assert pool.run("hostile:echo", {"value": 1}, limits=limits).value == 1

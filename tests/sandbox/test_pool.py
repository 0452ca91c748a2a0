"""Every hostile thing ends its own child with the right status, and the pool goes on."""

import dataclasses
import os
import socket
from pathlib import Path

import pytest
from cuda_agent.sandbox import isolation

# Nothing but the kernel's own limit holds root back; tried only where there is one.
doubling = pytest.mark.skipif(
    os.getuid() == 0 and "pidmax" not in isolation.features(), reason="needs Linux 6.14, or a user other than root"
)


def run(pool, limits, name, folder=None, timeout_s=None, **payload):
    limits = limits if timeout_s is None else dataclasses.replace(limits, timeout_s=timeout_s)
    return pool.run(f"hostile:{name}", payload, limits=limits, folder=folder)


@pytest.fixture(autouse=True)
def still_works(pool, limits):
    yield
    assert run(pool, limits, "echo", value=[1]).value == [1]


@pytest.mark.parametrize(
    ("name", "payload", "status", "error"),
    [
        ("segfault", {}, "crashed", "SIGSEGV"),
        ("allocate_30_gb", {}, "memory", "MemoryError"),
        ("fill_memory", {}, "memory", ""),
        ("fork_bomb", {}, "processes", "processes and threads"),
        pytest.param("doubling", {}, "processes", "processes and threads", marks=doubling),
        ("thread_bomb", {}, "processes", "processes and threads"),
        ("endless_output", {}, "output", "bytes of output"),
        ("print_pass", {}, "error", "ValueError: no"),
        ("system_exit", {"code": 0}, "exited", "exit status 0"),
        ("system_exit", {"code": 3}, "exited", "exit status 3"),
        ("os_exit", {"code": 0}, "exited", "exit status 0"),
        ("os_exit", {"code": 7}, "exited", "exit status 7"),
        ("forge", {"message": "\xff\xff\xff\xff"}, "error", "malformed reply"),
        ("forge", {"message": "\0\0\0\2{]"}, "error", "malformed reply: not JSON"),
        ("forge", {"message": "\0\0\0\2[]"}, "error", "malformed reply"),
        ("forge", {"message": "\0\0\0\2{}"}, "error", "malformed reply"),
        ("large_reply", {"megabytes": 17}, "error", "cannot be sent"),
        ("strange_reply", {}, "error", "cannot be sent"),
    ],
)
def test_status(pool, limits, *, name, payload, status, error):
    outcome = run(pool, limits, name, **payload)
    assert outcome.status == status
    assert error in outcome.error
    assert outcome.value is None


def test_process_numbers_do_not_run_out(pool, limits):
    assert run(pool, limits, "start_and_wait", times=500).value == 500


@pytest.mark.parametrize("name", ["endless_loop", "deaf_loop"])
def test_timeout(pool, limits, name):
    outcome = run(pool, limits, name, timeout_s=0.5)
    assert outcome.status == "timeout"
    assert outcome.stage == ("loop" if name == "endless_loop" else "")


def test_output_is_kept_and_proves_nothing(pool, limits):
    outcome = run(pool, limits, "print_pass")
    assert "PASS" in outcome.stdout
    assert outcome.status == "error"


def test_large_reply_within_the_limit(pool, limits):
    assert len(run(pool, limits, "large_reply", megabytes=8).value) == 8 * 2**20


def test_reply_survives_closed_descriptors_or_is_reported(pool, limits):
    assert run(pool, limits, "close_descriptors").status in ("exited", "crashed", "error")


def test_files_are_limited_in_size(pool, limits):
    assert run(pool, limits, "large_file", megabytes=64).value == ["OSError", 8 * 2**20]


def test_files_outside_its_folder_are_safe(pool, limits, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("kept")
    mine = tmp_path / "mine"
    mine.mkdir()
    for what, path in [("write", kept), ("delete", kept), ("chmod", kept), ("mkdir", tmp_path / "new")]:
        assert run(pool, limits, "attempt", folder=mine, what=what, path=str(path)).value != "worked"
    assert kept.read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "mine"]
    assert run(pool, limits, "attempt", folder=mine, what="write", path="own").value == "worked"
    assert (mine / "own").read_text() == "x"


def test_package_and_python_cannot_be_changed(pool, limits):
    for path in (Path(__file__), Path(os.__file__), Path("/etc/hostname")):
        assert run(pool, limits, "attempt", what="write", path=str(path)).value != "worked"


def test_no_network(pool, limits, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        path = str(tmp_path / "socket")
        named.bind(path)
        named.listen()
        port = str(server.getsockname()[1])
        for what, target in (("connect", ""), ("local", port), ("unix", path)):
            assert run(pool, limits, "attempt", what=what, path=target).value != "worked"


def test_no_mounts(pool, limits):
    assert run(pool, limits, "attempt", what="mount").value == "PermissionError"


def test_parents_live_on(pool, limits):
    outcome = run(pool, limits, "kill_parent")
    assert outcome.status in ("ok", "error", "crashed", "exited")
    assert run(pool, limits, "kill_everybody").status in ("ok", "error", "crashed")
    assert pool._server.alive()


def test_secrets_stay_outside(pool, limits, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "OPENAI_API_KEY" not in run(pool, limits, "environment").value
    assert run(pool, limits, "visible_processes").value == []
    found = run(pool, limits, "own_descriptors").value
    assert len([f for f in found if f.startswith("socket:")]) == 1
    assert not [f for f in found if not f.startswith(("socket:", "/proc/"))]


def test_what_it_leaves_behind_ends_with_it(pool, limits, tmp_path):
    with pool.session(limits, tmp_path) as session:
        assert session.call("hostile:leave_a_child", {"marker": "x"}).status == "ok"
        keeper = session._watched.pid
    assert not Path(f"/proc/{keeper}").exists()

"""Where less isolation is to be had, it is said, or the run stops."""

import threading

import pytest
from cuda_agent import sandbox
from cuda_agent.sandbox import isolation, jail, seccomp


@pytest.fixture
def only(monkeypatch):
    def offer(*features):
        monkeypatch.setattr(isolation, "features", lambda: features)

    return offer


def test_names_what_protects(only, section):
    only("landlock", "seccomp")
    assert sandbox.check_isolation(section) == "landlock+seccomp"


@pytest.mark.parametrize(("features", "named"), [((), "files"), (("landlock",), "network"), (("netns",), "files")])
def test_too_little_is_an_error_that_says_what_to_do(only, section, features, named):
    only(*features)
    with pytest.raises(sandbox.IsolationError, match=named) as error:
        sandbox.check_isolation(section)
    assert "allow_unisolated" in str(error.value)


def test_unisolated_only_if_asked_for(only, section):
    only()
    assert sandbox.check_isolation(section.model_copy(update={"allow_unisolated": True})) == "none"


def test_without_namespaces_children_are_still_kept_apart(only, section, limits, tmp_path):
    if not {"landlock", "seccomp"} <= set(isolation.features()):
        pytest.skip("this kernel has no Landlock or seccomp")
    only("landlock", "seccomp")
    kept = tmp_path / "kept"
    kept.write_text("kept")
    with sandbox.Pool("cpu", section, compiles=False) as pool:
        assert pool.isolation == "landlock+seccomp"

        def run(name, **payload):
            return pool.run(f"hostile:{name}", payload, limits=limits)

        assert run("attempt", what="write", path=str(kept)).value == "PermissionError"
        assert run("attempt", what="connect").value == "PermissionError"
        assert run("visible_processes").value == []
        assert run("kill_everybody").status in ("ok", "error", "crashed")
        assert run("fork_bomb").status == "processes"
        assert run("echo", value=1).value == 1
    assert kept.read_text() == "kept"


def test_a_plan_survives_its_text():
    plan = jail.Plan(("landlock",), "/folder", "cpu", ("/usr", "/lib"), 1, 2, 3)
    assert jail.Plan.loads(plan.dumps()) == plan


def test_filters_are_whole_instructions_and_their_jumps_stay_inside():
    for arguments in ({}, {"network": True, "namespaces": True}, {"signals_to": 7}):
        program = seccomp.program(**arguments)
        size = len(program) // 8
        assert len(program) % 8 == 0
        assert size < 4096
        for i in range(size):
            code, true, false = int.from_bytes(program[8 * i : 8 * i + 2], "little"), *program[8 * i + 2 : 8 * i + 4]
            if code & 0x07 == 0x05:
                assert max(i + 1 + true, i + 1 + false) < size


def test_exclusive_holder_is_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_AGENT_LOCKS", str(tmp_path / "locks"))
    order, inside = [], threading.Event()

    def other(exclusive):
        inside.wait(60)
        with sandbox.device_lock("cpu", exclusive=exclusive):
            order.append("other")

    for exclusive in (True, False):
        order.clear()
        inside.clear()
        thread = threading.Thread(target=other, args=(exclusive,))
        thread.start()
        with sandbox.device_lock("cpu", exclusive=True):
            inside.set()
            thread.join(0.2)
            order.append("first")
        thread.join(60)
        assert order == ["first", "other"]


def test_a_thread_may_take_a_lock_again_but_not_strengthen_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_AGENT_LOCKS", str(tmp_path / "locks"))
    with sandbox.device_lock("cpu", exclusive=True), sandbox.device_lock("cpu", exclusive=False):
        pass
    with (
        sandbox.device_lock("cpu", exclusive=False),
        pytest.raises(RuntimeError, match="shared"),
        sandbox.device_lock("cpu", exclusive=True),
    ):
        pass


def test_a_folder_open_to_others_holds_no_locks(tmp_path, monkeypatch):
    folder = tmp_path / "locks"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("CUDA_AGENT_LOCKS", str(folder))
    with pytest.raises(PermissionError, match="CUDA_AGENT_LOCKS"), sandbox.device_lock("cpu", exclusive=True):
        pass

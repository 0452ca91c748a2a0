"""Commands: only their folder, no network, limits, pipes."""

import dataclasses
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cuda_agent import sandbox
from cuda_agent.sandbox import command

DOUBLING = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


@pytest.fixture(params=["bubblewrap", "jail"])
def either(request, monkeypatch):
    """Run under bubblewrap, and as where that cannot work."""
    if request.param == "jail":
        monkeypatch.setattr(command, "_bubblewrap", lambda: None)
    elif command._bubblewrap() is None:
        pytest.skip("bubblewrap cannot work here")


def shell(script, folder, limits, section, **over):
    limits = dataclasses.replace(limits, **over)
    return sandbox.run_command(["/bin/sh", "-c", script], folder, limits=limits, sandbox=section)


@pytest.mark.usefixtures("either")
class TestCommand:
    def test_streams_and_status(self, tmp_path, limits, section):
        outcome = shell("echo out; echo err >&2; exit 3", tmp_path, limits, section)
        assert outcome.status == "ok"
        assert outcome.value == {"returncode": 3, "stdout": "out\n", "stderr": "err\n"}

    def test_many_at_once(self, tmp_path, limits, section):
        with ThreadPoolExecutor(8) as executor:
            outcomes = list(executor.map(lambda _: shell("true", tmp_path, limits, section), range(100)))
        assert {(o.status, o.error) for o in outcomes} == {("ok", "")}

    def test_signal(self, tmp_path, limits, section):
        assert shell("kill -SEGV $$", tmp_path, limits, section).value["returncode"] == 139

    def test_writes_only_to_its_folder(self, tmp_path, limits, section):
        mine = tmp_path / "mine"
        mine.mkdir()
        (tmp_path / "kept").write_text("kept")
        script = f"echo x > inside; echo y > {tmp_path}/kept; rm -f {tmp_path}/kept; echo z > {tmp_path}/new; true"
        shell(script, mine, limits, section)
        assert (mine / "inside").read_text() == "x\n"
        assert (tmp_path / "kept").read_text() == "kept"
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize(
        ("script", "over", "status"),
        [
            ("while :; do :; done", {"timeout_s": 0.5}, "timeout"),
            ("yes", {}, "output"),
            (f"exec {sys.executable} -c '{DOUBLING}'", {}, "processes"),
        ],
    )
    def test_limits(self, tmp_path, limits, section, *, script, over, status):
        outcome = shell(script, tmp_path, limits, section, **over)
        assert outcome.status == status
        assert outcome.value["returncode"] is None

    def test_no_network_and_no_secrets(self, tmp_path, limits, section, monkeypatch):
        monkeypatch.setenv("SOME_TOKEN", "secret")
        code = "import os, socket; print(os.environ.get('SOME_TOKEN')); socket.create_connection(('1.1.1.1', 53), 2)"
        outcome = sandbox.run_command([sys.executable, "-c", code], tmp_path, limits=limits, sandbox=section)
        assert outcome.value["returncode"] == 1
        assert outcome.value["stdout"] == "None\n"
        assert "Error" in outcome.value["stderr"]

    def test_pipes(self, tmp_path, limits, section):
        with sandbox.popen(["/bin/cat"], tmp_path, limits=limits, sandbox=section) as process:
            assert process.communicate(b"hello", timeout=60)[0] == b"hello"
        assert process.returncode == 0

    def test_a_server_ends_at_its_deadline(self, tmp_path, limits, section):
        brief = dataclasses.replace(limits, timeout_s=0.5)
        with sandbox.popen(["/bin/cat"], tmp_path, limits=brief, sandbox=section) as process:
            assert process.wait(60) != 0

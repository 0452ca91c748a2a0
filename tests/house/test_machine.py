"""What the machine lacks for a device, and when its times are off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_agent import machine, toolchain

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine with nothing: torch for processors, no GPU, no compiler."""
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setattr(machine, "_has_gpu", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda _: str(tmp_path))
    return monkeypatch


def test_each_thing_that_is_lacking_is_named(bare):
    with pytest.raises(machine.DeviceError) as error:
        machine.check_device("cuda", compiles=True)
    for said in (
        "Debian package g++",
        "Python.h",
        "was built without CUDA",
        "no NVIDIA GPU",
        "nvcc: is not on PATH",
        "device cpu and backend cpp",
    ):
        assert said in str(error.value)


def test_only_what_is_lacking_is_named(bare):
    bare.setattr("torch.version.cuda", "13.0")
    bare.setattr(toolchain, "lacks", list)
    (only,) = machine.lacks("cuda", compiles=False)
    assert "no NVIDIA GPU" in only
    bare.setattr(machine, "_has_gpu", lambda: True)
    assert machine.lacks("cuda", compiles=False) == []
    assert len(machine.lacks("cuda", compiles=True)) == 1


@pytest.mark.parametrize("compiles", [True, False])  # whether kernels are: torch.compile is used in any case
def test_the_processor_needs_a_compiler_and_its_headers(bare, tmp_path, compiles):
    with pytest.raises(
        machine.DeviceError, match=r"device cpu .*lacks:\n  a C\+\+ compiler \(g\+\+, .*package g\+\+\n"
    ) as e:
        machine.check_device("cpu", compiles=compiles)
    assert "Debian package python3-dev" in str(e.value) and "or measure on the processor" not in str(e.value)
    (tmp_path / "Python.h").touch()
    for name in ("g++", "my-c++"):
        (tmp_path / name).touch(0o755)
        bare.setenv("CXX", name)
        machine.check_device("cpu", compiles=compiles)
    bare.setenv("CXX", "gone-c++")
    (only,) = machine.lacks("cpu", compiles=compiles)
    assert "gone-c++, which CXX names" in only


def test_the_set_up_asks_for_the_same_compiler_in_the_same_words():
    def asked(**environment):
        argv = ["/bin/sh", ROOT / "workflow" / "check_machine.sh", sys.executable]
        return subprocess.run(argv, env=os.environ | environment, capture_output=True, text=True, check=False)

    assert asked(CXX=sys.executable).returncode == 0
    done = asked(CXX="gone-c++")
    assert done.returncode == 1
    assert "  - a C++ compiler (gone-c++, which CXX names): Debian package g++\n" in done.stderr


@pytest.mark.parametrize(
    ("load", "busy", "cores", "warned"),
    [(6.1, 1.0, 2, True), (1.0, 1.0, 2, False), (1.1, 0.9, 2, True), (6.1, 0.1, 2, False), (6.1, 1.0, 16, False)],
)
def test_a_busy_machine_is_told(load, busy, cores, warned):
    text = machine.load_warning("cpu", load, busy, cores)
    assert text.startswith(f"warning: load {load} on {cores} cores: times measured now will be off") is warned
    assert bool(text) is warned

"""What the machine lacks for a device, and when its times are off."""

import pytest
from cuda_agent import machine


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine with nothing: torch for processors, no GPU, no nvcc."""
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setattr(machine, "_has_gpu", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


def test_each_thing_that_is_lacking_is_named(bare):
    with pytest.raises(machine.DeviceError) as error:
        machine.check_device("cuda", compiles=True)
    for said in ("was built without CUDA", "no NVIDIA GPU", "nvcc is not on PATH", "device cpu and backend cpp"):
        assert said in str(error.value)


def test_only_what_is_lacking_is_named(bare):
    bare.setattr("torch.version.cuda", "13.0")
    (only,) = machine.lacks("cuda", compiles=False)
    assert "no NVIDIA GPU" in only
    bare.setattr(machine, "_has_gpu", lambda: True)
    assert machine.lacks("cuda", compiles=False) == []
    assert len(machine.lacks("cuda", compiles=True)) == 1


def test_the_processor_lacks_nothing(bare):
    machine.check_device("cpu", compiles=True)


@pytest.mark.parametrize(
    ("load", "busy", "cores", "warned"),
    [(6.1, 1.0, 2, True), (1.0, 1.0, 2, False), (1.1, 0.9, 2, True), (6.1, 0.1, 2, False), (6.1, 1.0, 16, False)],
)
def test_a_busy_machine_is_told(load, busy, cores, warned):
    text = machine.load_warning("cpu", load, busy, cores)
    assert text.startswith(f"warning: load {load} on {cores} cores: times measured now will be off") is warned
    assert bool(text) is warned

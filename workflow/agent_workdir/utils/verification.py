"""Compare `ModelNew` with `Model` on fresh inputs. Fixed. Exit status: 0 if everything holds, else 1.

The judge does the same with secret inputs and seeds, a float64 reference, more kinds of inputs, and ModelNew in a
process of its own.
"""

import secrets
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from utils import compile as compiling
from utils.rules import forbidden

TRIALS = 5
TOLERANCE = 1e-2  # |difference| <= TOLERANCE * (1 + |expected|)


class _Recorder(TorchDispatchMode):
    """Notes every operator that reaches torch's dispatcher."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def device():
    """Where the models run."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def built():
    """Whether there is a library to run; says what to do where there is none."""
    there = (compiling.ROOT / compiling.LIBRARY).exists()
    if not there:
        print(f"{compiling.LIBRARY} is not built: run `bash utils/compile.sh` first")
    return there


def load_models(seed):
    """`Model` and `ModelNew` with the same weights, in evaluation mode."""
    from model import Model, get_init_inputs
    from model_new import ModelNew

    torch.manual_seed(seed)
    model = Model(*get_init_inputs()).eval().to(device())
    model_new = ModelNew(*get_init_inputs()).eval().to(device())
    model_new.load_state_dict(model.state_dict(), strict=True)
    return model, model_new


def fresh_inputs(seed):
    """One set of inputs, drawn on the device, where it is fast."""
    from model import get_inputs

    torch.manual_seed(seed)
    with torch.device(device()):
        values = get_inputs()
    return [v.to(device()) if isinstance(v, torch.Tensor) else v for v in values]


def _copy(values):
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def _tensors(value, path="output"):
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, dict):
        return [t for k, v in value.items() for t in _tensors(v, f"{path}[{k!r}]")]
    if isinstance(value, list | tuple):
        return [t for i, v in enumerate(value) for t in _tensors(v, f"{path}[{i}]")]
    return []


def _differences(expected, got):
    wanted, found = _tensors(expected), _tensors(got)
    if [p for p, _ in wanted] != [p for p, _ in found]:
        yield f"outputs are {[p for p, _ in found]}, not {[p for p, _ in wanted]}"
        return
    for (path, a), (_, b) in zip(wanted, found, strict=True):
        if type(b) is not torch.Tensor:
            yield f"{path} is a {type(b).__name__}, not a plain tensor"
        elif (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
            yield f"{path} is {b.dtype} {tuple(b.shape)} on {b.device}, not {a.dtype} {tuple(a.shape)} on {a.device}"
        elif not torch.allclose(b.double(), a.double(), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=False):
            worst = (b.double() - a.double()).abs().max().item()
            yield f"{path} differs from the reference by up to {worst:.3g}"


def verify():
    """All that is wrong, in words; empty if nothing is."""
    problems = []
    with torch.no_grad():
        model, model_new = load_models(secrets.randbits(31))
        for trial in range(TRIALS):
            inputs = fresh_inputs(secrets.randbits(31))
            given = _copy(inputs)
            with _Recorder() as recorder:
                got = model_new(*given)
            expected = model(*_copy(inputs))
            problems += [f"trial {trial}: {text}" for text in _differences(expected, got)]
            problems += [f"forward runs the torch operator {name}" for name in forbidden(recorder.names)]
            for i, (before, after) in enumerate(zip(inputs, given, strict=True)):
                if isinstance(before, torch.Tensor) and not torch.equal(before, after):
                    problems.append(f"forward changes its input {i}")
    return list(dict.fromkeys(problems))


def main():
    """Command line."""
    if not built():
        return 1
    problems = verify()
    for problem in problems:
        print(f"WRONG: {problem}")
    print("verification failed" if problems else f"verified on {TRIALS} sets of inputs ({device()})")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())

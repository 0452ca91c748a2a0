"""Time `ModelNew`, `Model` and `torch.compile(Model)` against each other. Fixed.

The three are timed in turn, so that a busy machine slows all of them down. What is shown is the median, and the middle
half of the samples: where that is wide, something else runs here, and the numbers say little. Exit status: 0; 1 if
nothing is built yet.
"""

import argparse
import secrets
import statistics
import sys
import time

import torch

from utils.verification import built, device, fresh_inputs, load_models

SAMPLES = 15
SAMPLE_S = 0.005  # a sample repeats the call until it takes this long
BUDGET_S = 10.0


def _run(model, inputs, calls):
    """Seconds of one call, as the mean of several."""
    cuda = device() == "cuda"
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for i in range(calls):
        model(*inputs[i % len(inputs)])
    if cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def profile(compiled=True):
    """Milliseconds of one forward, by name: one for each sample, in the same order for all."""
    with torch.no_grad():
        model, model_new = load_models(secrets.randbits(31))
        inputs = [fresh_inputs(secrets.randbits(31)) for _ in range(2)]
        models = {"ModelNew": model_new, "eager": model}
        if compiled:
            models["torch.compile"] = torch.compile(model)
        calls, times = {}, {name: [] for name in models}
        for name, m in models.items():
            for _ in range(3):
                once = _run(m, inputs, 1)
            calls[name] = max(1, round(SAMPLE_S / max(once, 1e-6)))
        deadline = time.monotonic() + BUDGET_S
        for sample in range(SAMPLES):
            if sample >= 3 and time.monotonic() > deadline:
                break
            for name, m in models.items():
                times[name].append(1e3 * _run(m, inputs, calls[name]))
    return times


def middle(values):
    """Median and the ends of the middle half."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return median, low, high


def main():
    """Command line."""
    parser = argparse.ArgumentParser(prog="python3 -m utils.profiling", description=__doc__.splitlines()[0])
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, slow to start")
    args = parser.parse_args()
    if not built():
        return 1
    times = profile(compiled=not args.no_compile)
    print(f"{'':14} {'ms':>10}  {'middle half':>21}  speed-up of ModelNew")
    for name, samples in times.items():
        ms, low, high = middle(samples)
        line = f"{name:14} {ms:10.4f}  {low:10.4f} {high:10.4f}"
        if name != "ModelNew":
            ratios = [base / own for base, own in zip(samples, times["ModelNew"], strict=True)]
            line += "  {:.2f}x ({:.2f} to {:.2f})".format(*middle(ratios))
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

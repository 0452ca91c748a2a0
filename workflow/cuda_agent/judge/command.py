"""``cuda-agent judge WORKSPACE``: the verdict on what lies in a workspace, with its evidence."""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
import typing
from pathlib import Path
from typing import Any

from cuda_agent import machine, params, provenance, records, workspace
from cuda_agent.errors import UserError
from cuda_agent.judge.judging import REFERENCE, judge_one
from cuda_agent.judge.rules import verdict
from cuda_agent.sandbox import Pool
from cuda_agent.tasks import load, normal
from cuda_agent.workspace.layout import Backend
from cuda_agent.workspace.task_file import WorkspaceError, task_text

_MEND = "no kernel can be judged without a task that runs: mend it, or lay it out anew with `cuda-agent workspace`"
CORRECT, NOT_CORRECT, MACHINE = 0, 1, 2
_REWARDS = {
    -1: "not correct, or not compliant",
    1: "correct, not faster than eager",
    2: "the median ratio is faster than eager, but not than torch.compile",
    3: "the median ratios are faster than eager and torch.compile",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("workspace", type=Path, help="folder with model.py, model_new.py and kernels/")
    parser.add_argument("--backend", choices=["cpp", "cuda"], help="default: what the workspace's BACKEND says")
    parser.add_argument("--run", help="whose parameters; default: params.yaml's run")
    parser.add_argument("--rules", choices=["published", "strict"], help="default: results.rules of the parameters")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the folder, judgement, verdict and a warning of load (or an empty text) as one JSON object; its "
        "task_id is that of the text of model.py, as in the tasks of a run",
    )
    parser.epilog = (
        "Candidate and baselines are timed in turn. A speed-up is the median of the ratios of samples taken side by "
        "side, with its interval: where the machine's speed drifts it differs from the quotient of the two median "
        "times, and is the one to trust. Exit status: 0 correct and compliant; 1 not; 2 the machine, the folder, the "
        "task (model.py) or the parameters keep it from being judged."
    )


def run(args: argparse.Namespace) -> int:
    """Judge it, print, and return the exit status."""
    folder = args.workspace
    if not (folder / "model.py").is_file():
        raise UserError(f"{folder}: no workspace, as there is no model.py; `cuda-agent workspace` lays one out")
    loaded = params.load(provenance.repository(), args.run)
    backend = _backend(folder, args.backend) or loaded.rollouts.backend
    judging = loaded.judging.model_copy(update={"device": "cuda" if backend == "cuda" else "cpu"})
    results = loaded.results.model_copy(update={"rules": args.rules} if args.rules else {})
    machine.check_device(judging.device, compiles=True)
    task = _task(folder / "model.py")
    warning = machine.load_warning(judging.device)
    if warning:
        print(warning, file=sys.stderr)
    with Pool(judging.device, loaded.sandbox) as pool:
        pool.check_gpu()
        files = workspace.snapshot(folder)
        row = judge_one(pool, task, files, judging=judging, backend=backend, seed=secrets.randbits(63))
        isolation = pool.isolation
    row |= {"task_id": task["task_id"], "policy": "workspace", "isolation": isolation}
    found = None if row["status"] == "machine" else verdict(row, results)
    if args.json:
        parsed = {k: json.loads(row[k]) for k in ("checks", "launched", "times")}
        shown = {"workspace": str(folder.resolve()), "judgement": row | parsed, "verdict": found, "warning": warning}
        print(records.dumps(shown))
    elif row["status"] == "machine" and row["stage"] == REFERENCE:
        raise UserError(f"{folder / 'model.py'}: {_first(row['error'])}; {_MEND}")
    elif found is None:
        print(f"the machine could not judge it: {row['error']}", file=sys.stderr)
    else:
        print(in_words(row, found, results.confidence))
    if found is None:
        return MACHINE
    return CORRECT if found["correct"] and found["compliant"] else NOT_CORRECT


def _task(path: Path) -> dict[str, str]:
    """The task, named as in the tasks of a run: by its text, so that no other file can say another."""
    try:
        code = task_text(path)
        return {"code": code, "task_id": normal.task_id(code)}
    except WorkspaceError as error:
        raise UserError(f"{error}; {_MEND}") from None
    except RecursionError:
        raise UserError(f"{path}: is nested too deeply; {_MEND}") from None


def _first(error: str) -> str:
    """The first line of how a task failed, and its line in the task where the traceback has one."""
    lines = re.findall(rf'File "<{load.MODULE}\d+>", line (\d+)', error)
    return error.partition("\n")[0] + (f" (line {lines[-1]})" if lines else "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is no text in UTF-8: {error}") from None


def _backend(folder: Path, asked: str | None) -> str | None:
    """The backend that the workspace was laid out for, which must be the one asked for; None where neither is known."""
    path = folder / "BACKEND"
    if not path.is_file():
        return asked
    marked = _text(path).strip()
    if marked not in typing.get_args(Backend):
        raise UserError(f"{path}: got {marked!r}; allowed: {' or '.join(typing.get_args(Backend))}")
    if asked not in (None, marked):
        raise UserError(
            f"{folder}: was laid out for the backend {marked}, as its BACKEND says, and cannot be judged for {asked}: "
            f"leave --backend away, or lay out a new one with `cuda-agent workspace TASK FOLDER --backend {asked}`"
        )
    return marked


def in_words(row: dict[str, Any], found: dict[str, Any], confidence: float) -> str:
    """The table that is printed for a judgement and its verdict.

    Args:
        row: a judgement; ``status`` is not ``machine``.
        found: the verdict on it.
        confidence: level of the intervals.
    """
    checks, launched, times = (json.loads(row[name]) for name in ("checks", "launched", "times"))
    built = row["status"] not in ("no_submission", "build")
    loaded = built and row["stage"] != "load"
    shown = {"built": built, "loaded": loaded if built else None}
    shown |= {name: found[name] for name in ("correct", "compliant")}
    lines = [f"{name:<10} {'-' if value is None else 'yes' if value else 'NO'}" for name, value in shown.items()]
    for i, reason in enumerate(found["reasons"]):
        lines.append(f"  - {reason}")
        if i == 0 and row["status"] == "build":  # the source line, as the compiler showed it
            lines += [f"    {line}" for line in row["error"].partition("\n\n")[0].splitlines()[1:]]
    if found["time_ms"] is not None:
        lines.append(f"{'time':<10} {found['time_ms']:.4f} ms")
        for base in ("eager", "compile"):
            if (ratio := found[f"speedup_{base}"]) is not None:
                low, high = found[f"speedup_{base}_low"], found[f"speedup_{base}_high"]
                lines.append(
                    f"{base:<10} {found[f'{base}_ms']:.4f} ms; speed-up {ratio:.2f}, the median of {len(times[base])} "
                    f"paired ratios ({100 * confidence:g} % interval {low:.2f} to {high:.2f})"
                )
    if found["precision"]:
        worst = max(float(c.get("rms_error", 0)) for c in checks)
        lines.append(f"{'precision':<10} {found['precision']} (largest error {worst:.2g}, root mean square)")
    seen = ", ".join(f"{n} x{k}" for n, k in launched.get("kernels", {}).items()) or "none"
    lines += [
        f"{'kernels':<10} {seen}",
        f"{'checks':<10} {len(checks)} comparisons with the reference",
        f"{'reward':<10} {found['reward']} ({_REWARDS[found['reward']]})",
    ]
    lines.append(f"{'isolation':<10} {row['isolation']}")
    return "\n".join(lines)

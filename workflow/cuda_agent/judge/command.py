"""``cuda-agent judge WORKSPACE``: the verdict on what lies in a workspace, with its evidence."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path
from typing import Any

from cuda_agent import params, provenance, records, workspace
from cuda_agent.judge.judging import judge_one
from cuda_agent.judge.rules import verdict
from cuda_agent.sandbox import Pool

CORRECT, NOT_CORRECT, MACHINE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("workspace", type=Path, help="folder with model.py, model_new.py and kernels/")
    parser.add_argument("--backend", choices=["cpp", "cuda"], help="default: what the workspace's BACKEND says")
    parser.add_argument("--run", help="whose parameters; default: params.yaml's run")
    parser.add_argument("--rules", choices=["published", "strict"], help="default: results.rules of the parameters")
    parser.add_argument("--json", action="store_true", help="print judgement and verdict as one JSON object")
    parser.epilog = "Exit status: 0 correct and compliant; 1 not; 2 the machine could not judge it."


def run(args: argparse.Namespace) -> int:
    """Judge it, print, and return the exit status."""
    folder = args.workspace
    if not (folder / "model.py").is_file():
        print(f"{folder}: no workspace: there is no model.py", file=sys.stderr)
        return MACHINE
    root = Path.cwd() if Path("params.yaml").exists() else provenance.PACKAGE.parents[1]
    loaded = params.load(root, args.run)
    marked = folder / "BACKEND"
    backend = args.backend or (marked.read_text().strip() if marked.exists() else loaded.rollouts.backend)
    judging = loaded.judging.model_copy(update={"device": "cuda" if backend == "cuda" else "cpu"})
    results = loaded.results.model_copy(update={"rules": args.rules} if args.rules else {})
    task = {"code": (folder / "model.py").read_text()}
    with Pool(judging.device, loaded.sandbox) as pool:
        files = workspace.snapshot(folder)
        row = judge_one(pool, task, files, judging=judging, backend=backend, seed=secrets.randbits(63))
        isolation = pool.isolation
    row |= {"task_id": folder.resolve().name, "policy": "workspace", "isolation": isolation}
    found = None if row["status"] == "machine" else verdict(row, results)
    if args.json:
        parsed = {k: json.loads(row[k]) for k in ("checks", "launched", "times")}
        print(records.dumps({"judgement": row | parsed, "verdict": found}))
    elif found is None:
        print(f"the machine could not judge it: {row['error']}", file=sys.stderr)
    else:
        print(_in_words(row, found))
    if found is None:
        return MACHINE
    return CORRECT if found["correct"] and found["compliant"] else NOT_CORRECT


def _in_words(row: dict[str, Any], found: dict[str, Any]) -> str:
    checks, launched = json.loads(row["checks"]), json.loads(row["launched"])
    lines = [f"{name:<10} {'yes' if found[name] else 'NO'}" for name in ("compiled", "correct", "compliant")]
    lines += [f"  - {reason}" for reason in found["reasons"]]
    if found["time_ms"] is not None:
        lines.append(f"{'time':<10} {found['time_ms']:.4f} ms")
        for base in ("eager", "compile"):
            if (ratio := found[f"speedup_{base}"]) is not None:
                low, high = found[f"speedup_{base}_low"], found[f"speedup_{base}_high"]
                ms = found[f"{base}_ms"]
                lines.append(f"{base:<10} {ms:.4f} ms, speed-up {ratio:.2f} ({low:.2f} to {high:.2f})")
    if found["precision"]:
        worst = max(float(c.get("rms_error", 0)) for c in checks)
        lines.append(f"{'precision':<10} {found['precision']} (largest error {worst:.2g}, root mean square)")
    seen = ", ".join(f"{n} x{k}" for n, k in launched.get("kernels", {}).items()) or "none"
    lines += [f"{'kernels':<10} {seen}", f"{'checks':<10} {len(checks)}", f"{'reward':<10} {found['reward']}"]
    lines.append(f"{'isolation':<10} {row['isolation']}")
    return "\n".join(lines)

"""The numbers in the README: a table of every published run, written from its artefacts."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from cuda_agent.errors import UserError

START = "<!-- results: written by `cuda-agent readme` from results/ -->"
END = "<!-- end of results -->"
MEASURES = ("faster_eager", "faster_compile", "speedup_eager", "speedup_compile")


def _measure(measure: dict[str, Any], unit: str) -> str:
    if measure["value"] is None:
        return "–"

    def shown(value: float) -> str:
        return f"{100 * value:.0f} %" if unit == "%" else f"{value:.2f}×"

    text = shown(measure["value"])
    if measure["low"] is not None and measure["high"] is not None:
        text += f" ({shown(measure['low'])} to {shown(measure['high'])})"
    return text


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: is no JSON: {error}") from None


def block(root: Path) -> str:
    """The table between the two markers, markers included; computed from ``results/*/`` alone."""
    try:
        return _block(root)
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{root / 'results'}: holds results of another form ({error!r}): make the run again") from None


def _of_runs(shares: dict[str, float]) -> str:
    """Percentages by run as text: one where all have the same, else each with its run."""
    if len(set(shares.values())) == 1:
        return f"{100 * next(iter(shares.values())):g} %"
    return ", ".join(f"{100 * share:g} % in `{run}`" for run, share in shares.items())


def _block(root: Path) -> str:
    lines, margins, levels = [], {}, {}
    # All from the one file, so that what the words say is what the numbers beside it were computed with.
    for path in sorted((root / "results").glob("*/numbers.json")):
        run, numbers = path.parent.name, _json(path)
        device = numbers["judged.device_name"]["value"]
        torch = numbers["judged.versions"]["value"].get("torch", "–")
        margins[run] = numbers["params.results.faster_margin"]["value"]
        levels[run] = numbers["params.results.confidence"]["value"]
        for policy in numbers["policies"]["value"]:
            m = {name: numbers[f"policy.{policy}.{name}"] for name in ("n", "passed", *MEASURES)}
            lines.append(
                f"| `{run}` | {device} | {torch} | {numbers['tasks']['value']} | `{policy}` | {m['n']['value']} "
                f"| {m['passed']['value']} | {_measure(m['faster_eager'], '%')} | {_measure(m['faster_compile'], '%')} "
                f"| {_measure(m['speedup_eager'], 'x')} | {_measure(m['speedup_compile'], 'x')} |"
            )
    if not lines:
        return f"{START}\n{END}"
    head = [
        "## What the published runs measured",
        "",
        "| run | judged on | torch | tasks | policy | tried | correct | > eager | > compile | × eager | × compile |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    shares = f"> is the share of all tasks tried whose kernel is correct and faster (by more than {_of_runs(margins)})"
    intervals = "intervals cover which tasks were drawn, and take each kernel's timing as it came"
    same = len(set(levels.values())) == 1
    intervals = f"{_of_runs(levels)} {intervals}" if same else f"{intervals} ({_of_runs(levels)})"
    foot = ["", f"{shares}; × is the geometric mean over correct kernels; {intervals}."]
    return "\n".join([START, *head, *lines, *foot, "", END])


def replaced(text: str, root: Path) -> str:
    """The README with its table written anew."""
    before, _, rest = text.partition(START)
    return before + block(root) + rest.partition(END)[2]


def is_current(root: Path) -> bool:
    """Whether the README of the last commit agrees with the results of the last commit.

    Results in the folder may be those of somebody's own run; that one has not published them yet.

    Raises:
        UserError: this is no git repository.
    """
    done = subprocess.run(["git", "archive", "HEAD"], cwd=root, check=False, capture_output=True)
    if done.returncode:
        raise UserError(f"{root}: git has no commit to compare: {done.stderr.decode(errors='replace').strip()}")
    archive = done.stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        wanted = [m for m in tar if m.name == "README.md" or m.name.startswith("results/")]
        tar.extractall(folder, wanted, filter="data")
        text = (Path(folder) / "README.md").read_text(encoding="utf-8")
        return text == replaced(text, Path(folder))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent readme``."""
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the last commit's README differs from its results"
    )


def run(args: argparse.Namespace) -> int:
    """Write the table into the README, or compare."""
    path = args.root / "README.md"
    if args.check:
        if is_current(args.root):
            return 0
        print(f"{path}: its table differs from results/: `cuda-agent readme` writes it", file=sys.stderr)
        return 1
    text = path.read_text(encoding="utf-8")
    if not 0 <= text.find(START) < text.find(END):
        raise UserError(f"{path}: has no line {START!r} with {END!r} after it, between which the table belongs")
    path.write_text(replaced(text, args.root), encoding="utf-8")
    return 0

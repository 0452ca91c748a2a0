"""``cuda-agent export``: a run's dataset in the formats that trainers read."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuda_agent import params, provenance, records
from cuda_agent.errors import UserError, existing
from cuda_agent.export.sft import OPENAI, dumps_sft, to_sft
from cuda_agent.export.verl import VERL, to_verl
from cuda_agent.records import Row


class ExportError(UserError, ValueError):
    """What was asked for has no row."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent export``: those of each format."""
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")
    verl = formats.add_parser("verl", help="tasks as prompts for reinforcement learning: parquet, for verl and TRL")
    sft = formats.add_parser("sft", help="trajectories as examples for supervised training: JSON lines")
    for one in (verl, sft):
        one.add_argument("--run", help="whose files are read; default: params.yaml's run")
        one.add_argument(
            "--split", choices=["train", "test"], default="train", help="of which tasks (default: %(default)s)"
        )
        one.add_argument("--out", type=Path, required=True, help="file to write")
    sft.add_argument("--policy", help="whose trajectories; needed")
    sft.add_argument(
        "--min-reward",
        type=int,
        default=1,
        help="least reward of a trajectory that is kept: 1 correct, 2 faster than eager, 3 than compile too "
        "(default: %(default)s)",
    )
    sft.add_argument(
        "--for",
        dest="reader",
        choices=["trl", "openai"],
        default="trl",
        help="openai: messages and tools alone, as OpenAI refuses other keys (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Write one file from ``data/{run}`` and ``results/{run}``."""
    root = provenance.repository()
    loaded = params.load(root, args.run)
    data = root / "data" / loaded.run
    path = existing(data / "tasks.parquet", loaded.run, root)
    tasks = records.read(path, records.TASKS)
    if args.format == "verl":
        chosen = [t for t in tasks if t["split"] == args.split]
        if not chosen:
            raise ExportError(f"{path}: nothing to export: none of its {len(tasks)} tasks is of the split {args.split}")
        rows = to_verl(chosen, loaded.run, loaded.rollouts.backend)
        records.write(args.out, rows, VERL, sort_by=())
    else:
        if not args.policy:
            there = ", ".join(sorted(p.parent.name for p in data.glob("*/trajectories.jsonl.zst"))) or "nobody yet"
            raise UserError(f"--policy is missing: whose trajectories? {data} has those of {there}")
        rows = _examples(args, root, loaded.run, tasks)
        records.write_bytes(args.out, dumps_sft(rows).encode())
    print(f"{args.out}: {len(rows)} rows")
    return 0


def _examples(args: argparse.Namespace, root: Path, run: str, tasks: list[Row]) -> list[Row]:
    path = existing(root / "data" / run / args.policy / "trajectories.jsonl.zst", run, root)
    trajectories = list(records.read_jsonl(path))
    verdicts = records.read(existing(root / "results" / run / "verdicts.parquet", run, root), records.VERDICTS)
    splits = {t["task_id"]: t["split"] for t in tasks}
    unknown = sorted({t["task_id"] for t in trajectories} - splits.keys())
    if unknown:
        raise ExportError(
            f"{path}: {len(unknown)} of its tasks, first {unknown[0]!r}, are not among the {len(tasks)} of the run's "
            "tasks.parquet, which says what is train and what is test; make the run again"
        )
    rows = to_sft(trajectories, verdicts, splits, args.split, args.min_reward)
    if not rows:
        ids = {t["task_id"] for t in trajectories if splits[t["task_id"]] == args.split}
        rewards = [v["reward"] for v in verdicts if v["task_id"] in ids and v["policy"] == args.policy]
        best = f"their best reward is {max(rewards)}" if rewards else "none of them has a verdict"
        raise ExportError(
            f"{path}: nothing to export: it has {len(trajectories)} trajectories, {len(ids)} of them on tasks of the "
            f"split {args.split}" + (f"; {best}, and --min-reward is {args.min_reward}" if ids else "")
        )
    return rows if args.reader == "trl" else [{k: row[k] for k in OPENAI} for row in rows]

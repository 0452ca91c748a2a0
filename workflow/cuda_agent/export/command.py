"""``cuda-agent export``: a run's dataset in the formats that trainers read."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuda_agent import records
from cuda_agent.export.sft import dumps_sft, to_sft
from cuda_agent.export.verl import VERL, to_verl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent export``."""
    parser.add_argument("format", choices=["verl", "sft"], help="verl: parquet of prompts. sft: JSON lines of messages")
    parser.add_argument("--run", required=True, help="name of the run whose files are read")
    parser.add_argument("--policy", help="sft: whose trajectories")
    parser.add_argument("--split", choices=["train", "test"], default="train", help="verl: which tasks")
    parser.add_argument("--min-reward", type=int, default=1, help="sft: least reward of a trajectory that is kept")
    parser.add_argument("--out", type=Path, required=True, help="file to write")


def run(args: argparse.Namespace) -> int:
    """Write one file from ``data/{run}`` and ``results/{run}`` under the current folder."""
    data = Path("data") / args.run
    if args.format == "verl":
        tasks = records.read(data / "tasks.parquet", records.TASKS)
        rows = to_verl(t for t in tasks if t["split"] == args.split)
        records.write(args.out, rows, VERL, sort_by=())
    else:
        if not args.policy:
            raise SystemExit("export sft: --policy is missing; it names a folder under " + str(data))
        verdicts = records.read(Path("results") / args.run / "verdicts.parquet", records.VERDICTS)
        trajectories = records.read_jsonl(data / args.policy / "trajectories.jsonl.zst")
        rows = to_sft(trajectories, verdicts, args.min_reward)
        args.out.write_text(dumps_sft(rows))
    print(f"{args.out}: {len(rows)} rows")
    return 0

"""``cuda-agent export``: a run's dataset in the formats that trainers read."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuda_agent import records
from cuda_agent.errors import UserError, existing
from cuda_agent.export.sft import dumps_sft, to_sft
from cuda_agent.export.verl import VERL, to_verl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent export``."""
    parser.add_argument("format", choices=["verl", "sft"], help="verl: parquet of prompts. sft: JSON lines of messages")
    parser.add_argument("--run", required=True, help="name of the run whose files are read")
    parser.add_argument("--policy", help="sft: whose trajectories")
    parser.add_argument(
        "--split", choices=["train", "test"], default="train", help="verl: which tasks (default: %(default)s)"
    )
    parser.add_argument(
        "--min-reward",
        type=int,
        default=1,
        help="sft: least reward of a trajectory that is kept (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write")


def run(args: argparse.Namespace) -> int:
    """Write one file from ``data/{run}`` and ``results/{run}`` under the current folder."""
    data = Path("data") / args.run
    if args.format == "verl":
        tasks = records.read(existing(data / "tasks.parquet", args.run), records.TASKS)
        rows = to_verl(t for t in tasks if t["split"] == args.split)
        records.write(args.out, rows, VERL, sort_by=())
    else:
        if not args.policy:
            raise UserError(f"sft: --policy is missing; it names a folder under {data}")
        paths = [data / args.policy / "trajectories.jsonl.zst", Path("results") / args.run / "verdicts.parquet"]
        trajectories, verdicts = (existing(path, args.run) for path in paths)
        rows = to_sft(records.read_jsonl(trajectories), records.read(verdicts, records.VERDICTS), args.min_reward)
        records.write_bytes(args.out, dumps_sft(rows).encode())
    print(f"{args.out}: {len(rows)} rows")
    return 0

"""Take pinned measurements: all, or those of the tasks that a run has."""

import shutil
from pathlib import Path

from cuda_agent import job, records

with job.running(snakemake) as this:
    tasks = snakemake.input.get("tasks")
    if tasks is not None:
        tasks = {row["task_id"] for row in records.read(tasks, records.TASKS)}
    for source, target in zip(map(Path, snakemake.input.pinned), map(Path, snakemake.output), strict=True):
        if tasks is None:
            shutil.copyfile(source, target)
        elif left_out := records.cut(source, target, tasks):
            this.warn(f"{target}: {left_out} rows left out, of tasks that this run's filters leave out")

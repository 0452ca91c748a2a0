"""Join the shards of the rollouts."""

from cuda_agent import job, records

with job.running(snakemake):
    rows = [row for path in snakemake.input.trajectories for row in records.read_jsonl(path)]
    records.write_jsonl(snakemake.output.trajectories, sorted(rows, key=lambda row: row["task_id"]))
    records.gather(snakemake.input.submissions, snakemake.output.submissions, records.SUBMISSIONS)

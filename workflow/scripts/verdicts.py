"""Compute the verdicts from what the judge measured."""

from cuda_agent import job, judge, params, records

with job.running(snakemake):
    # Pinned judgements may be of tasks that other limits than the published ones leave out.
    tasks = {row["task_id"] for row in records.read(snakemake.input.tasks, records.TASKS)}
    judgements = [row for path in snakemake.input.judgements for row in records.read(path, records.JUDGEMENTS)]
    rows = judge.verdicts(
        [row for row in judgements if row["task_id"] in tasks],
        params.Results.model_validate_json(snakemake.params.results),
    )
    records.write(snakemake.output[0], rows, records.VERDICTS, sort_by=("task_id", "policy"))

"""Compute the verdicts from what the judge measured."""

from cuda_agent import job, judge, params, records

with job.running(snakemake):
    judgements = [row for path in snakemake.input.judgements for row in records.read(path, records.JUDGEMENTS)]
    rows = judge.verdicts(judgements, params.Results.model_validate_json(snakemake.params.results))
    records.write(snakemake.output[0], rows, records.VERDICTS, sort_by=("task_id", "policy"))

"""Collect reference operators from the installed libraries."""

from cuda_agent import job, operators, params, records

with job.running(snakemake) as this, this.journal() as journal:
    rows = operators.collect(
        params.Operators.model_validate_json(snakemake.params.operators),
        params.Sandbox.model_validate_json(snakemake.params.sandbox),
        workers=snakemake.threads,
        journal=journal,
        progress=this.progress("operators"),
    )
    records.write(snakemake.output[0], rows, records.OPERATORS)

"""Decide from the observations which candidates survive."""

from cuda_agent import filtering, job, params, records

with job.running(snakemake):
    filtered, rejections = filtering.apply(
        records.read(snakemake.input.candidates, records.CANDIDATES),
        records.read(snakemake.input.observations, records.OBSERVATIONS),
        params.Filtering.model_validate_json(snakemake.params.filtering),
    )
    records.write(snakemake.output.filtered, filtered, records.FILTERED)
    records.write(snakemake.output.rejections, rejections, records.REJECTIONS)

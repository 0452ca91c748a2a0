"""Join the shards of a step."""

from cuda_agent import job, records

with job.running(snakemake):
    records.gather(snakemake.input, snakemake.output[0], getattr(records, snakemake.params.schema))

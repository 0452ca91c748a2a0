"""Execute a notebook on the artefacts of a run."""

from cuda_agent import evaluation, job

with job.running(snakemake):
    values = {"root": ".", "run": snakemake.params.run}
    if snakemake.params.overrides:
        values["overrides"] = snakemake.params.overrides
    evaluation.execute_notebook(snakemake.input.source, snakemake.output[0], values, folder=".")

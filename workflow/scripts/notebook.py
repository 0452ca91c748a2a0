"""Execute a notebook on the artefacts of a run."""

from cuda_agent import evaluation, job

with job.running(snakemake):
    evaluation.execute_notebook(
        snakemake.input.source, snakemake.output[0], {"root": ".", "run": snakemake.params.run}, folder="."
    )

"""Say that the parameters were accepted: the same text whatever they are, so that nothing is made again for it."""

from pathlib import Path

from cuda_agent import job

with job.running(snakemake):
    text = f"The parameters of the run {snakemake.params.run} were accepted when this file was written.\n"
    Path(snakemake.output[0]).write_text(text, encoding="utf-8")

"""Draw the figures of a run."""

from pathlib import Path

from cuda_agent import evaluation, job, params
from cuda_agent.figures import FIGURES

with job.running(snakemake):
    rows = evaluation.read(dict(snakemake.input.items()))
    parameters = params.Params.model_validate_json(snakemake.params.parameters)
    for path in map(Path, snakemake.output):
        path.write_bytes(FIGURES[path.stem](rows, parameters))

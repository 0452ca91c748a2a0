"""Write the parameters of a run, but for how its work is spread and where its measurements come from."""

from pathlib import Path

from cuda_agent import job, params

with job.running(snakemake):
    made_with = params.Params.model_validate_json(snakemake.params.parameters)
    Path(snakemake.output[0]).write_text(params.as_yaml(made_with))

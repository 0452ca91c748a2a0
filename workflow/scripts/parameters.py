"""Write the parameters that the measurements of a run follow from."""

import json
from pathlib import Path

import yaml
from cuda_agent import job

with job.running(snakemake):
    text = yaml.safe_dump(json.loads(snakemake.params.deciding))
    Path(snakemake.output[0]).write_text(text, encoding="utf-8")

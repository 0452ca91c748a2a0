"""Write the parameters that the measurements of a run follow from, and which files those are."""

import json
from pathlib import Path

import yaml
from cuda_agent import job, pinning

with job.running(snakemake):
    out = Path(snakemake.output[0])
    kept = pinning.made_with(out.parent, json.loads(snakemake.params.deciding))
    out.write_text(yaml.safe_dump(kept), encoding="utf-8")

"""Collect every number that the paper names, and compile it."""

import json
from pathlib import Path

from cuda_agent import evaluation, job, paper, params, records

with job.running(snakemake):
    given = snakemake.input
    others = {"metrics", "tables", "figures", "published", "facts", "source", "parts"}
    rows = evaluation.read({name: paths for name, paths in given.items() if name not in others})
    parameters = params.Params.model_validate_json(snakemake.params.parameters)
    published = records.read_csv(given.published)
    metrics = json.loads(Path(given.metrics).read_text(encoding="utf-8"))
    numbers = paper.numbers(rows, metrics, parameters, published, facts=records.read_csv(given.facts))
    records.write_json(snakemake.output.numbers, numbers)
    paper.compile_paper(
        Path(given.source).parent,
        snakemake.output.numbers,
        Path(given.tables[0]).parent,
        Path(given.figures[0]).parent,
        snakemake.output.pdf,
    )

"""Compute the metrics and the tables of a run."""

import csv
from pathlib import Path

from cuda_agent import evaluation, job, params, records

with job.running(snakemake):
    inputs = dict(snakemake.input.items())
    with Path(inputs.pop("published")).open(newline="", encoding="utf-8") as file:
        published = list(csv.DictReader(file))
    rows = evaluation.read(inputs)
    metrics = evaluation.metrics(
        rows["verdicts"],
        rows["tasks"],
        params.Results.model_validate_json(snakemake.params.results),
        seed=snakemake.params.seed,
    )
    tables = evaluation.tables(rows, metrics, published)
    for path in map(Path, snakemake.output.tables):
        path.write_text(tables[path.stem], encoding="utf-8")
    records.write_json(snakemake.output.metrics, metrics)

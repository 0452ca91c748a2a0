"""Compute the metrics and the tables of a run."""

from pathlib import Path

from cuda_agent import evaluation, job, params, records

with job.running(snakemake):
    inputs = dict(snakemake.input.items())
    published = records.read_csv(inputs.pop("published"))
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

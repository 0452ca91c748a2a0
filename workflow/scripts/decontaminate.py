"""Drop repeats and what resembles KernelBench; write the dataset, its card and its metadata."""

from pathlib import Path

from cuda_agent import decontamination, export, filtering, job, params, records

with job.running(snakemake):
    section = params.Decontamination.model_validate_json(snakemake.params.decontamination)
    rejections = records.read(snakemake.input.rejections, records.REJECTIONS)
    tasks, contaminated = decontamination.decontaminate(
        records.read(snakemake.input.filtered, records.FILTERED),
        records.read(snakemake.input.kernelbench, records.FINGERPRINTS),
        section,
        seed=snakemake.params.seed,
    )
    run = snakemake.params.run
    records.write(snakemake.output.tasks, tasks, records.TASKS)
    records.write(snakemake.output.contaminated, contaminated, records.REJECTIONS)
    filters = params.Filtering.model_validate_json(snakemake.params.filtering)
    limits = filtering.limits(filters) | decontamination.limits(section)
    card = export.card(tasks, rejections, contaminated, run, section, limits=limits)
    Path(snakemake.output.card).write_text(card, encoding="utf-8")
    files = (snakemake.output.tasks, snakemake.output.contaminated, snakemake.input.rejections)
    croissant = export.croissant(tasks, run, {Path(file).name: Path(file).read_bytes() for file in files})
    records.write_json(snakemake.output.croissant, croissant)

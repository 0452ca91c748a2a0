"""Compose this shard's candidates."""

from cuda_agent import job, params, records, synthesis

with job.running(snakemake) as this, this.journal() as journal:
    section = params.Synthesis.model_validate_json(snakemake.params.synthesis)
    rows = synthesis.compose(
        records.read(snakemake.input.operators, records.OPERATORS),
        section,
        seed=snakemake.params.seed,
        indices=this.shard(list(range(section.candidates))),
    )
    records.write(snakemake.output[0], rows, records.CANDIDATES)

"""Compose this shard's candidates."""

from cuda_agent import job, params, records, synthesis

with job.running(snakemake) as this, this.journal() as journal:
    section = params.Synthesis.model_validate_json(snakemake.params.synthesis)
    indices = this.shard(list(range(section.candidates)))
    rows = synthesis.compose(
        records.read(snakemake.input.operators, records.OPERATORS),
        section,
        seed=snakemake.params.seed,
        indices=indices,
        sandbox=params.Sandbox.model_validate_json(snakemake.params.sandbox),
        workers=snakemake.threads,
        journal=journal,
        progress=this.progress("compose", len(indices)),
    )
    records.write(snakemake.output[0], rows, records.CANDIDATES)

"""Run this shard's candidates and record what they showed."""

from cuda_agent import job, machine, observation, params, records

with job.running(snakemake) as this, this.journal() as journal:
    candidates = this.shard(records.read(snakemake.input.candidates, records.CANDIDATES))
    section = params.Observation.model_validate_json(snakemake.params.observation)
    this.warn(machine.load_warning(section.device))
    rows = observation.observe(
        candidates,
        section,
        params.Sandbox.model_validate_json(snakemake.params.sandbox),
        seed=snakemake.params.seed,
        workers=snakemake.threads,
        journal=journal,
        progress=this.progress("observe", len(candidates)),
    )
    records.write(snakemake.output[0], rows, records.OBSERVATIONS)

"""Measure this shard's submissions."""

from cuda_agent import job, judge, machine, params, records

with job.running(snakemake) as this, this.journal() as journal:
    submissions = this.shard(records.read(snakemake.input.submissions, records.SUBMISSIONS))
    section = params.Judging.model_validate_json(snakemake.params.judging)
    this.warn(machine.load_warning(section.device))
    rows = judge.judge(
        records.read(snakemake.input.tasks, records.TASKS),
        submissions,
        section,
        params.Sandbox.model_validate_json(snakemake.params.sandbox),
        backend=snakemake.params.backend,
        workers=snakemake.threads,
        journal=journal,
        progress=this.progress("judge", len(submissions)),
    )
    records.write(snakemake.output[0], rows, records.JUDGEMENTS)

"""Let a policy work on this shard's tasks."""

import json

from cuda_agent import agent, job, params, records

with job.running(snakemake) as this, this.journal() as journal:
    policy = snakemake.wildcards.policy
    section = params.Rollouts.model_validate({**json.loads(snakemake.params.rollouts), "policies": [policy]})
    tasks = this.shard(records.read(snakemake.input.tasks, records.TASKS)[: section.tasks])
    trajectories, submissions = agent.roll_out(
        tasks,
        policy,
        params.read_policy(snakemake.params.policy),
        section,
        params.Sandbox.model_validate_json(snakemake.params.sandbox),
        workers=snakemake.threads,
        journal=journal,
        progress=this.progress(f"rollouts of {policy}", len(tasks)),
    )
    records.write_jsonl(snakemake.output.trajectories, trajectories)
    records.write(snakemake.output.submissions, submissions, records.SUBMISSIONS)

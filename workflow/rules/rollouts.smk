# Measured: agents at work.
if PINNED:

    rule trajectories:
        input:
            pinned=[
                "data/pinned/<run>/{policy}/trajectories.jsonl.zst",
                "data/pinned/<run>/{policy}/submissions.parquet",
            ],
            tasks="data/<run>/tasks.parquet",
        output:
            trajectories="data/<run>/{policy}/trajectories.jsonl.zst",
            submissions="data/<run>/{policy}/submissions.parquet",
        log:
            "work/<run>/logs/trajectories-{policy}.log",
        params:
            code=code("cuda_agent.records"),
        script:
            "../scripts/pinned.py"

else:

    rule rollout:
        input:
            tasks="data/<run>/tasks.parquet",
        output:
            trajectories=temp(
                "work/<run>/{policy}/trajectories/{shard}-of-{shards}.jsonl.zst"
            ),
            submissions=temp(
                "work/<run>/{policy}/submissions/{shard}-of-{shards}.parquet"
            ),
        log:
            "work/<run>/logs/rollouts-{policy}-{shard}-of-{shards}.log",
        threads: all_cores
        resources:
            gpu=gpus(PARAMS.judging.device),
        params:
            policy=policy,
            rollouts=section("rollouts", without="policies"),
            sandbox=section("sandbox"),
            code=code("cuda_agent.agent"),
            journal=f"work/{PARAMS.run}/journal/rollouts-{{policy}}-{{shard}}-of-{{shards}}",
        script:
            "../scripts/rollout.py"

    rule trajectories:
        input:
            trajectories=shards(
                "work/<run>/{policy}/trajectories/{shard}-of-{shards}.jsonl.zst"
            ),
            submissions=shards(
                "work/<run>/{policy}/submissions/{shard}-of-{shards}.parquet"
            ),
        output:
            trajectories="data/<run>/{policy}/trajectories.jsonl.zst",
            submissions="data/<run>/{policy}/submissions.parquet",
        log:
            "work/<run>/logs/trajectories-{policy}.log",
        params:
            code=code("cuda_agent.records"),
        script:
            "../scripts/gather_rollouts.py"

# Measured: what each submitted kernel computes and how long it takes.
if PINNED:

    rule judgements:
        input:
            pinned=["data/pinned/<run>/{policy}/judgements.parquet"],
            tasks="data/<run>/tasks.parquet",
        output:
            "data/<run>/{policy}/judgements.parquet",
        log:
            "work/<run>/logs/judgements-{policy}.log",
        params:
            code=code("cuda_agent.records"),
        script:
            "../scripts/pinned.py"

else:

    rule judge:
        input:
            tasks="data/<run>/tasks.parquet",
            submissions="data/<run>/{policy}/submissions.parquet",
        output:
            temp("work/<run>/{policy}/judgements/{shard}-of-{shards}.parquet"),
        log:
            "work/<run>/logs/judgements-{policy}-{shard}-of-{shards}.log",
        threads: all_cores
        resources:
            gpu=gpus(PARAMS.judging.device),
        params:
            judging=section("judging"),
            backend=PARAMS.rollouts.backend,
            sandbox=section("sandbox"),
            code=code("cuda_agent.judge"),
            journal=f"work/{PARAMS.run}/journal/judgements-{{policy}}-{{shard}}-of-{{shards}}",
        script:
            "../scripts/judge.py"

    rule judgements:
        input:
            shards("work/<run>/{policy}/judgements/{shard}-of-{shards}.parquet"),
        output:
            "data/<run>/{policy}/judgements.parquet",
        log:
            "work/<run>/logs/judgements-{policy}.log",
        params:
            schema="JUDGEMENTS",
            code=code("cuda_agent.records"),
        script:
            "../scripts/gather.py"

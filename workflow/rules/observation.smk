# Measured: what running each candidate showed.
if PINNED:

    rule observations:
        input:
            pinned=["data/pinned/<run>/observations.parquet"],
        output:
            "data/<run>/observations.parquet",
        log:
            "work/<run>/logs/observations.log",
        params:
            code=code("cuda_agent.records"),
        script:
            "../scripts/pinned.py"

else:

    rule observe:
        input:
            candidates="data/<run>/candidates.parquet",
        output:
            temp("work/<run>/observations/{shard}-of-{shards}.parquet"),
        log:
            "work/<run>/logs/observations-{shard}-of-{shards}.log",
        threads: all_cores
        resources:
            gpu=gpus(PARAMS.observation.device),
        params:
            observation=section("observation"),
            sandbox=section("sandbox"),
            seed=PARAMS.seed,
            code=code("cuda_agent.observation"),
            journal=f"work/{PARAMS.run}/journal/observations-{{shard}}-of-{{shards}}",
        script:
            "../scripts/observe.py"

    rule observations:
        input:
            shards("work/<run>/observations/{shard}-of-{shards}.parquet"),
        output:
            "data/<run>/observations.parquet",
        log:
            "work/<run>/logs/observations.log",
        params:
            schema="OBSERVATIONS",
            code=code("cuda_agent.records"),
        script:
            "../scripts/gather.py"

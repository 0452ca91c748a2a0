rule compose:
    input:
        operators="data/<run>/operators.parquet",
    output:
        temp("work/<run>/candidates/{shard}-of-{shards}.parquet"),
    log:
        "work/<run>/logs/candidates-{shard}-of-{shards}.log",
    params:
        synthesis=section("synthesis"),
        sandbox=section("sandbox"),
        seed=PARAMS.seed,
        code=code("cuda_agent.synthesis"),
        journal=f"work/{PARAMS.run}/journal/candidates-{{shard}}-of-{{shards}}",
    script:
        "../scripts/compose.py"


rule candidates:
    input:
        shards("work/<run>/candidates/{shard}-of-{shards}.parquet"),
    output:
        "data/<run>/candidates.parquet",
    log:
        "work/<run>/logs/candidates.log",
    params:
        schema="CANDIDATES",
        code=code("cuda_agent.records"),
    script:
        "../scripts/gather.py"

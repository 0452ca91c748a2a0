rule operators:
    output:
        "data/<run>/operators.parquet",
    log:
        "work/<run>/logs/operators.log",
    threads: all_cores
    params:
        operators=section("operators"),
        sandbox=section("sandbox"),
        code=code("cuda_agent.operators"),
        journal="work/<run>/journal/operators",
    script:
        "../scripts/operators.py"

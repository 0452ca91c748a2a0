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
        libraries=provenance.library_versions(),
        journal=f"work/{PARAMS.run}/journal/operators",
    script:
        "../scripts/operators.py"

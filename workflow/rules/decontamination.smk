rule decontaminate:
    input:
        filtered="data/<run>/filtered.parquet",
        rejections="data/<run>/rejections.parquet",
        kernelbench=PARAMS.decontamination.kernelbench.as_posix(),
    output:
        tasks="data/<run>/tasks.parquet",
        contaminated="data/<run>/contaminated.parquet",
        card="data/<run>/README.md",
        croissant="data/<run>/croissant.json",
    log:
        "work/<run>/logs/decontaminate.log",
    params:
        decontamination=section("decontamination"),
        filtering=section("filtering"),
        seed=PARAMS.seed,
        code=code("cuda_agent.decontamination", "cuda_agent.export"),
        run=PARAMS.run,
    script:
        "../scripts/decontaminate.py"

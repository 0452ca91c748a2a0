rule filter:
    input:
        candidates="data/<run>/candidates.parquet",
        observations="data/<run>/observations.parquet",
    output:
        filtered="data/<run>/filtered.parquet",
        rejections="data/<run>/rejections.parquet",
    log:
        "work/<run>/logs/filter.log",
    params:
        filtering=section("filtering"),
        code=code("cuda_agent.filtering"),
    script:
        "../scripts/filter.py"

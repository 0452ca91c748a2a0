# Pure functions of what was measured: verdicts, numbers, tables, figures, notebooks, paper.
NOTEBOOKS = ["dataset", "rollouts", "results"]


rule verdicts:
    input:
        expand("data/<run>/{policy}/judgements.parquet", policy=POLICIES),
    output:
        "results/<run>/verdicts.parquet",
    log:
        "work/<run>/logs/verdicts.log",
    params:
        results=section("results"),
        code=code("cuda_agent.judge.verdict"),
    script:
        "../scripts/verdicts.py"

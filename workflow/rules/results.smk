# Pure functions of what was measured: verdicts, numbers, tables, figures, notebooks, paper.
NOTEBOOKS = ["dataset", "rollouts", "results"]
TABLES = ["results"]
FIGURES = ["funnel"]


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


rule metrics:
    input:
        tasks="data/<run>/tasks.parquet",
        verdicts="results/<run>/verdicts.parquet",
        rejections="data/<run>/rejections.parquet",
        contaminated="data/<run>/contaminated.parquet",
        published="paper/published_table1.csv",
    output:
        metrics="results/<run>/metrics.json",
        tables=expand("results/<run>/tables/{table}.csv", table=TABLES),
    log:
        "work/<run>/logs/metrics.log",
    params:
        results=section("results"),
        seed=PARAMS.seed,
        code=code("cuda_agent.evaluation"),
    script:
        "../scripts/metrics.py"


rule figures:
    input:
        tasks="data/<run>/tasks.parquet",
        verdicts="results/<run>/verdicts.parquet",
    output:
        expand("results/<run>/figures/{figure}.svg", figure=FIGURES),
    log:
        "work/<run>/logs/figures.log",
    params:
        results=section("results"),
        code=code("cuda_agent.figures"),
    script:
        "../scripts/figures.py"


rule notebook:
    input:
        source="notebooks/{notebook}.ipynb",
        tasks="data/<run>/tasks.parquet",
        verdicts="results/<run>/verdicts.parquet",
    output:
        "results/<run>/notebooks/{notebook}.ipynb",
    log:
        "work/<run>/logs/notebook-{notebook}.log",
    params:
        code=code("cuda_agent.evaluation"),
        run=PARAMS.run,
    script:
        "../scripts/notebook.py"


rule paper:
    input:
        source="paper/paper.typ",
        metrics="results/<run>/metrics.json",
    output:
        numbers="results/<run>/numbers.json",
        pdf="results/<run>/paper.pdf",
    log:
        "work/<run>/logs/paper.log",
    params:
        code=code("cuda_agent.paper"),
        run=PARAMS.run,
    script:
        "../scripts/paper.py"

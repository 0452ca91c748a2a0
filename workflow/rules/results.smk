# Pure functions of what was measured: verdicts, numbers, tables, figures, notebooks, paper.
# What the library makes; a test compares the names, so that no table or figure is left out.
TABLES = [
    "results",
    "by_data_source",
    "fast_p",
    "failures",
    "per_task",
    "funnel",
    "mix",
    "operators",
    "diversity",
    "table1",
]
FIGURES = [
    "funnel",
    "operator_mix",
    "diversity",
    "similarity",
    "eager_times",
    "fast_p",
    "speedups",
    "rewards",
    "turns",
]
NOTEBOOKS = ["dataset", "rollouts", "results"]


# Says by which hashes it belongs to what was measured, so that one of an unfinished run is seen.
rule parameters:
    input:
        observations=ARTEFACTS["observations"],
        trajectories=ARTEFACTS["trajectories"],
        submissions=ARTEFACTS["submissions"],
        judgements=ARTEFACTS["judgements"],
    output:
        "data/<run>/params.yaml",
    log:
        "work/<run>/logs/parameters.log",
    params:
        deciding=json.dumps(pinning.deciding(PARAMS), sort_keys=True),
        code=code("cuda_agent.pinning"),
    script:
        "../scripts/parameters.py"


rule verdicts:
    input:
        judgements=ARTEFACTS["judgements"],
    output:
        "results/<run>/verdicts.parquet",
    log:
        "work/<run>/logs/verdicts.log",
    params:
        results=section("results"),
        code=code("cuda_agent.judge.rules"),
    script:
        "../scripts/verdicts.py"


rule metrics:
    input:
        **ARTEFACTS,
        verdicts="results/<run>/verdicts.parquet",
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
        **ARTEFACTS,
        verdicts="results/<run>/verdicts.parquet",
    output:
        report(
            expand("results/<run>/figures/{figure}.svg", figure=FIGURES),
            caption="../report/figures.rst",
            category="Figures",
        ),
    log:
        "work/<run>/logs/figures.log",
    params:
        parameters=all_parameters(),
        code=code("cuda_agent.figures"),
    script:
        "../scripts/figures.py"


rule notebook:
    input:
        **ARTEFACTS,
        verdicts="results/<run>/verdicts.parquet",
        made_with="data/<run>/params.yaml",
        source="notebooks/{notebook}.ipynb",
    output:
        "results/<run>/notebooks/{notebook}.ipynb",
    log:
        "work/<run>/logs/notebook-{notebook}.log",
    wildcard_constraints:
        notebook="|".join(NOTEBOOKS),
    params:
        run=PARAMS.run,
        overrides=overrides,
        code=code(
            "cuda_agent.evaluation", "cuda_agent.figures", "cuda_agent.judge.rules"
        ),
    script:
        "../scripts/notebook.py"


rule paper:
    input:
        **ARTEFACTS,
        verdicts="results/<run>/verdicts.parquet",
        metrics="results/<run>/metrics.json",
        tables=rules.metrics.output.tables,
        figures=rules.figures.output,
        published="paper/published_table1.csv",
        facts="paper/published_facts.csv",
        source="paper/paper.typ",
        parts=["paper/refs.bib", "paper/numbers.typ"],
    output:
        numbers="results/<run>/numbers.json",
        pdf=report(
            "results/<run>/paper.pdf",
            caption="../report/paper.rst",
            category="Paper",
        ),
    log:
        "work/<run>/logs/paper.log",
    params:
        parameters=all_parameters(),
        code=code("cuda_agent.paper"),
    script:
        "../scripts/paper.py"

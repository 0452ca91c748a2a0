# What this run's measurements were made with, kept beside them.


rule parameters:
    input:
        # Written after them, so that one of an unfinished run is seen to be older.
        observations=ARTEFACTS["observations"],
        trajectories=ARTEFACTS["trajectories"],
        submissions=ARTEFACTS["submissions"],
        judgements=ARTEFACTS["judgements"],
    output:
        "data/<run>/params.yaml",
    log:
        "work/<run>/logs/parameters.log",
    params:
        parameters=all_parameters(),
        code=code("cuda_agent.params"),
    script:
        "../scripts/parameters.py"

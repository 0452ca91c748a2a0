# Snakemake refuses wrong parameters when it reads the rules. DVC takes away what a stage made before it runs the stage:
# the stage of this rule comes before all others, so that it is the one that fails, and nothing that was made is lost.
rule check:
    output:
        "data/<run>/checked.txt",
    log:
        "work/<run>/logs/check.log",
    params:
        parameters=all_parameters(),
        code=code("cuda_agent.pinning", "cuda_agent.sources"),
        run=PARAMS.run,
    script:
        "../scripts/check.py"
